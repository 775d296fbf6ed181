"""What a saved conversation's turns must look like before anything is done with them.

Knows nothing of models; answers make them, sessions keep them, programs show them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_ID = re.compile(r"[0-9a-f]{16}")
_PROBABLE = 1.001  # a sum of shares that were rounded


def expect_turns(turns: Sequence[Mapping[str, Any]]) -> None:
    """Raise ``ValueError`` unless these are turns as conversations record them."""
    for number, turn in enumerate(turns, start=1):
        _expect(f"turn {number}", turn, _TURN)
        for citation in turn["citations"]:
            if not isinstance(citation, dict):
                raise ValueError(f"turn {number} cites {citation!r:.40}")
            _expect(f"a citation of turn {number}", citation, _CITATION | _LATER)
            _expect_length(f"a citation of turn {number}", citation)
        if turn.get("writing") is not None:
            _expect_writing(f"the writing of turn {number}", turn["writing"])


def quoted_documents(turns: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the documents that turns quote, a writer's sources included, with their sources.

    What is no citation is passed over: whoever reads the turns again refuses it.
    """
    citations: list[Any] = []
    for turn in turns:
        writing = turn.get("writing")
        sources = writing.get("sources") if isinstance(writing, dict) else None
        citations += _listed(turn.get("citations"))
        citations += [one.get("citation") for one in _listed(sources) if isinstance(one, dict)]
    quoted: dict[str, str] = {}
    for citation in citations:
        if isinstance(citation, dict) and _is_id(citation.get("document")):
            source = citation.get("source")
            quoted[citation["document"]] = str(source) if _is_stored_text(source) else ""
    return quoted


def read_documents(writing: Any) -> set[str]:
    """Return the documents that a writer was sent sentences of; older turns do not say it."""
    documents = writing.get("documents") if isinstance(writing, dict) else None
    return {document_id for document_id in _listed(documents) if _is_id(document_id)}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_stored_text(value: Any) -> bool:
    """Return whether a value is text as SQLite takes it: without lone surrogates."""
    return isinstance(value, str) and value == value.encode(errors="replace").decode()


def _expect_writing(part: str, writing: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` unless this is what a writer wrote: sentences, and numbered sources."""
    _expect(part, writing, _WRITING)
    for sentence in writing["sentences"]:
        _expect(f"a sentence of {part}", sentence, _SENTENCE)
    for source in writing["sources"]:
        _expect(f"a source of {part}", source, _SOURCE)
        _expect(f"a citation of {part}", source["citation"], _CITATION | _LATER)
        _expect_length(f"a citation of {part}", source["citation"])


def _expect_length(part: str, citation: Mapping[str, Any]) -> None:
    if citation["end"] - citation["start"] != len(citation["quote"]):
        raise ValueError(f"{part} is not as long as its quote")


def _expect(part: str, values: Mapping[str, Any], kinds: Mapping[str, _Kind]) -> None:
    needed = kinds.keys() - _LATER.keys() - _NEWER_TURN  # which older turns do not have
    if not needed <= values.keys() <= kinds.keys():
        raise ValueError(f"{part} has {sorted(values)}, expected {sorted(kinds)}")
    for name, value in values.items():
        if not kinds[name](value):
            raise ValueError(f"{name} of {part} is {value!r:.40}")


_Kind = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _is_share(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and 0 <= value <= _PROBABLE


def _is_duration(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= 0


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, dict) for entry in value)


def _or_none(kind: _Kind) -> _Kind:
    return lambda value: value is None or kind(value)


_TURN: dict[str, _Kind] = {
    "question": _is_text,
    "answer": _is_text,
    "found": lambda value: isinstance(value, bool),
    "confidence": _is_share,
    "quote_probability": _or_none(_is_share),  # of what was looked up nothing is known
    "state": lambda value: value in ("answer", "likely", "none"),
    "mode": lambda value: value in ("quote", "free", "summary"),
    "citations": lambda value: isinstance(value, list),
    "writing": lambda value: value is None or isinstance(value, dict),
}
_NEWER_TURN = {"state", "quote_probability", "writing", "documents"}
_CITATION: dict[str, _Kind] = {
    "document": _is_id,
    **dict.fromkeys(("title", "source", "quote", "context"), _is_text),
    **dict.fromkeys(("start", "end"), _is_count),
    "page": _or_none(_is_count),
    "section": _or_none(_is_text),
    "probability": _is_share,
}
_LATER: dict[str, _Kind] = {  # unknown to older sessions
    "line": _or_none(_is_count),
    "source_start": _or_none(_is_count),
    "source_end": _or_none(_is_count),
    "metadata": _or_none(_is_text),
    "likely": lambda value: isinstance(value, bool),
    "span_start": _or_none(_is_count),
    "span_end": _or_none(_is_count),
    "library": _or_none(_is_text),
    "more_items": _is_count,
    "page_label": _or_none(_is_text),
}
_WRITING: dict[str, _Kind] = {
    "state": lambda value: value in ("written", "partly", "unsupported", "no answer", "failed"),
    **dict.fromkeys(("sentences", "sources"), _are_objects),
    **dict.fromkeys(("host", "model", "problem"), _is_text),
    "seconds": _is_duration,
    # All of which sentences were sent: what is written may be of each, whatever it cites.
    "documents": lambda value: isinstance(value, list) and all(map(_is_id, value)),
}
_SENTENCE: dict[str, _Kind] = {
    "text": _is_text,
    "sources": lambda value: isinstance(value, list) and all(map(_is_count, value)),
    "problem": _is_text,
}
_SOURCE: dict[str, _Kind] = {
    "number": _is_count,
    "citation": lambda value: isinstance(value, dict),
}
