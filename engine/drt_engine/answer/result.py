"""The answer to one question, with its evidence."""

from __future__ import annotations

from dataclasses import dataclass

from drt_engine.model.calibration import NO_EVIDENCE, Signals
from drt_engine.results import Citation, Trace


@dataclass(frozen=True)
class AnswerResult:
    """An answer with its evidence.

    When ``found`` is false, ``text`` is empty and ``citations`` holds the closest passage.
    """

    text: str
    found: bool
    confidence: float
    mode: str
    citations: tuple[Citation, ...]
    tokens_read: int
    trace: Trace
    signals: Signals = NO_EVIDENCE


@dataclass(frozen=True)
class Draft:
    """The text of an answer and what it rests on, before its costs and its trace are known."""

    text: str
    found: bool
    confidence: float
    citations: tuple[Citation, ...]
