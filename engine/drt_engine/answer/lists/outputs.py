"""What code printed, where a question names the code: "What does f(3) return?", "the last cell".

Outputs are those of the cells of a notebook, and what is below a prompt. Knows nothing of models
and libraries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from drt_engine.answer.below import output_of
from drt_engine.answer.tables.table_question import ORDINALS
from drt_engine.text.sentences import Span

_ASKED = re.compile(
    r"(?i)\W*what (?:does|do|did|is|was|are|were|will)\b.*\b(?:prints?|printed|outputs?|returns?"
    r"|returned|results?|evaluates? to|gives?|shows?|values?|displays?)\b"
)
# A call, an index, or what is between backticks
_CODE = re.compile(
    r"`+(?P<ticked>[^`]+)`+"
    r"|(?P<call>[A-Za-z_][\w.]*(?:\([^()?]*(?:\([^()]*\)[^()?]*)*\)|\[[^\]]+\]))"
)
_CELL = re.compile(
    rf"(?i)\bthe (?P<which>{'|'.join(ORDINALS)}|last|final) (?:code )?(?:cell|code block)\b"
)
_FENCE = re.compile(r"(?m)^(?P<ticks>`{3,})(?P<language>\w+)\n(?P<code>.*?)^(?P=ticks)$", re.DOTALL)
_PROMPT = re.compile(r"(?m)^(?P<indent>[ \t]*)(?:>>>|\$|In \[\d+\]:) (?P<code>\S.*)$")
_OUTPUT_LINE = re.compile(r"(?:\n(?P<indent>[ \t]*)(?!>>>|\$ |\.\.\. |In \[)(?P<text>\S.*))")
_REMARK = re.compile(r"(?<=\S)[ \t]+#[ \t][^\"'\n]{0,200}\Z")
_LONGEST = 600  # characters


def asks_output(question: str) -> bool:
    """Return whether a question may be one that ``named_output`` answers."""
    return bool(_ASKED.match(question) and (_CELL.search(question) or _CODE.search(question)))


def named_output(question: str, text: str) -> Span | None:
    """Return where the output is of the code that a question has; None where that is not clear."""
    if not asks_output(question):
        return None
    cell = _CELL.search(question)
    if cell:
        cells = list(_FENCE.finditer(text))
        number = ORDINALS.get(cell["which"].lower(), len(cells))
        return _output(cells[number - 1], text) if 0 < number <= len(cells) else None
    match = _CODE.search(question)
    if match is None:
        return None
    code = _bare(match["ticked"] or match["call"])
    spans = [span for line, span in _runs(text) if _bare(line) == code]
    outputs = {text[slice(*span)].strip() for span in spans}
    return spans[0] if len(outputs) == 1 else None


def _bare(code: str) -> str:
    """Return code without spaces and a remark behind it, and without a ``print`` around it."""
    bare = re.sub(r"\s+", "", _REMARK.sub("", code)).rstrip(";")
    printed = re.fullmatch(r"print\((.*)\)", bare)
    return (printed[1] if printed else bare).replace('"', "'")


def _runs(text: str) -> Iterator[tuple[str, Span]]:
    """Yield the last lines of cells, and lines behind a prompt, with their outputs."""
    for cell in _FENCE.finditer(text):
        lines = cell["code"].strip().split("\n")
        span = _output(cell, text)
        if span is not None:
            yield lines[-1], span
    for prompt in _PROMPT.finditer(text):
        start = end = prompt.end()
        while (line := _OUTPUT_LINE.match(text, end)) and line["indent"] == prompt["indent"]:
            end = line.end()
        if start < end <= start + _LONGEST:
            yield prompt["code"], (start + 1, end)


def _output(cell: re.Match[str], text: str) -> Span | None:
    return output_of(text, (cell.start("code"), cell.end("code")))
