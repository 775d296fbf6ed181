"""What an option of a program does, from the list of options in a manual: "What does -n do?".

Such lists have the options on a line, and what they do below or behind them. Knows nothing of
models and libraries.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from drt_engine.answer.tables.wording import content_stems, stem, table_words
from drt_engine.text.sentences import Span
from drt_engine.text.words import STOP_WORDS, word_set

_OPTION = r"--?[A-Za-z0-9?@][\w-]*"
_ASKED = re.compile(rf"(?<![\w/-]){_OPTION}")
# "-n, --dry-run" or "--length=N": options, with what they take. Atomic, since a long row of options
# can be divided into options and what they take in more ways than there is time for.
_TERM = re.compile(
    rf"[ \t]*(?P<options>(?>{_OPTION}(?:(?! or )[ =\[<]?[\w<>\[\]|.=-]+)?"
    rf"(?:(?:, ?| +\| +| or )?{_OPTION}(?:(?! or )[ =\[]?[\w<>\[\]|.=-]+)*)*))"
    r"(?:(?: {2,}|\t+)(?P<text>\S.*)|:[ \t]+(?P<after>\S.*)|:?[ \t]*)"
)
_NEXT = re.compile(r"\n+[ \t]*(?P<text>[^\s-].*)")
_DOES = re.compile(r"(?i)\W*(?:what(?:'s| (?:does|do|is|are|will))|meaning of|explain)\b")
_WHICH = re.compile(r"(?i)\W*(?:which|what)\s+(?:\w+\s+)?(?:option|flag|switch)s?\b")
_WHICH_KEY = re.compile(
    r"(?i)\W*(?:which|what) (?:is the )?(?:key(?: ?binding| combination|stroke|s)?"
    r"|(?:keyboard )?shortcut)\b"
)
_FEWEST_STEMS = 3
# Behind an empty line, a key or a command, and a sentence of what it does.
_DESCRIBED = re.compile(
    r"(?:\A|\n[ \t]*\n)[ \t]*(?P<key>[^\s][^\n]{0,30}?)(?:\n[ \t]*|\t+| {2,})"
    r"(?P<text>[A-Z][^\n]{5,300}(?:\n[ \t]*[^\s][^\n]{0,300}){0,2})"
)
_ASKING = word_set(
    """
    what does do is mean means meaning option options flag flags switch argument command explain
    effect purpose use used run running program tool good give passed given
    """
)


def option_text(question: str, text: str, context: Collection[str] = ()) -> tuple[int, Span] | None:
    """Return where the option begins that a question asks for, and where a text tells what it does.

    None for other questions, and where the text has the option twice. ``context`` are words of what
    the document is called.
    """
    options = set(_ASKED.findall(question))
    if len(options) != 1 or not _DOES.match(question):
        return None
    (option,) = options
    rest = set(table_words(_ASKED.sub(" ", question))) - STOP_WORDS - _ASKING - set(context)
    spans = [] if rest else list(_texts(option, text))
    return spans[0] if len(spans) == 1 else None


def option_above(question: str, text: str) -> Span | None:
    """Return the options that a text ends below, where a question asks which option does something.

    ``text`` ends where the answer was found, which may be in the line of the options itself.
    """
    if not _WHICH.match(question):
        return None
    end = len(text)
    for line in reversed(text.split("\n")):
        match = _TERM.match(line)
        if match is not None and (end == len(text) or _TERM.fullmatch(line)):
            return end - len(line) + match.start("options"), end - len(line) + match.end("options")
        end -= len(line) + 1
    return None


def key_doing(question: str, text: str) -> tuple[int, Span] | None:
    """Return the key or command whose description has all that a question asks for, and where.

    "Which key splits the pane left and right?": a short line by itself, and what it does below it
    or behind it. None where no description, or more than one, has all of it.
    """
    match = _WHICH_KEY.match(question)
    if match is None:
        return None
    asked = content_stems(question[match.end() :])
    if len(asked) < _FEWEST_STEMS:
        return None
    hits = [
        term
        for term in _DESCRIBED.finditer(text)
        if asked <= content_stems(term["text"])
        and stem(term["text"].split()[0].lower()) in asked  # what it does comes first
        and not _ASKED.match(term["key"])
    ]
    if len(hits) != 1:
        return None
    (hit,) = hits
    return hit.start("key"), hit.span("key")


def _texts(option: str, text: str) -> Iterator[tuple[int, Span]]:
    """Yield where an option begins, and what is behind it on its line, or the line below it."""
    start = 0
    for line in text.split("\n"):
        match = _TERM.fullmatch(line) if option in line else None
        if match is not None and option in _ASKED.findall(match["options"]):
            group = next((name for name in ("text", "after") if match[name]), None)
            term = start + match.start("options")
            if group is not None:
                yield term, (start + match.start(group), start + match.end(group))
            elif below := _NEXT.match(text, start + len(line)):
                yield term, below.span("text")
        start += len(line) + 1
