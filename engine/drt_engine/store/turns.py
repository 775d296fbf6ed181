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
            if citation["end"] - citation["start"] != len(citation["quote"]):
                raise ValueError(f"a citation of turn {number} is not as long as its quote")


def _expect(part: str, values: Mapping[str, Any], kinds: Mapping[str, _Kind]) -> None:
    needed = kinds.keys() - _LATER.keys() - {"state"}  # which older turns do not have
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


def _or_none(kind: _Kind) -> _Kind:
    return lambda value: value is None or kind(value)


_TURN: dict[str, _Kind] = {
    "question": _is_text,
    "answer": _is_text,
    "found": lambda value: isinstance(value, bool),
    "confidence": _is_share,
    "state": lambda value: value in ("answer", "likely", "none"),
    "mode": lambda value: value in ("quote", "free", "summary"),
    "citations": lambda value: isinstance(value, list),
}
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
    "span_start": _or_none(_is_count),
    "span_end": _or_none(_is_count),
    "library": _or_none(_is_text),
}
