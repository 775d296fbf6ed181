"""Options of a summary or a list of changes, checked when they are made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from drt_engine.errors import ConfigError

WORDS = {"short": 60, "medium": 150, "long": 400}


@dataclass(frozen=True)
class SummaryOptions:
    """How to summarise documents.

    ``focus`` is a question or topic that steers the choice. ``length`` None is "medium" for a
    summary and no limit for a list of changes; ``words`` sets another limit in its place.
    ``section`` restricts the summary to sections whose name, or that of a section around them,
    begins like this, ``pages`` to the first and the last of them. ``first_whole`` lets the best
    sentence exceed the limit, as the usual baselines do, which evaluation needs for a fair
    comparison.
    """

    mode: Literal["auto", "extractive", "abstractive"] = "auto"
    length: Literal["short", "medium", "long"] | None = None
    focus: str | None = None
    words: int | None = None
    section: str | None = None
    pages: tuple[int, int] | None = None
    first_whole: bool = False

    def __post_init__(self) -> None:
        if self.mode not in ("auto", "extractive", "abstractive"):
            raise ConfigError(
                f"mode is {self.mode!r}, expected 'auto', 'extractive' or 'abstractive'"
            )
        if self.length is not None and self.length not in WORDS:
            raise ConfigError(f"length is {self.length!r}, expected one of {', '.join(WORDS)}")
        if self.words is not None and self.words < 1:
            raise ConfigError(f"words is {self.words}, expected 1 or more")

    @property
    def budget(self) -> int:
        """Largest length in words."""
        return self.words or WORDS[self.length or "medium"]

    @property
    def is_limited(self) -> bool:
        """Whether the caller set a length."""
        return self.words is not None or self.length is not None

    @property
    def longest(self) -> float:
        """Words of the longest sentence that may be taken."""
        return math.inf if self.first_whole else self.budget
