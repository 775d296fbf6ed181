"""How a question is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from drt_engine.errors import ConfigError
from drt_engine.results import SOURCES, Source
from drt_engine.retrieval.candidates import RetrieverName
from drt_engine.retrieval.filters import NO_FILTERS, Filters
from drt_engine.retrieval.library import SearchOptions


@dataclass(frozen=True)
class AskOptions:
    """How a question is asked; ``documents`` are ids (``None``: the whole library).

    ``top_k`` chunks are retrieved at a time (``None``: as many as the model is made for, of which
    no more are read than it takes to be sure). ``reread`` reads them with the question. ``record``
    makes the answer's trace a full one, which changes nothing else. ``filters`` restrict the
    documents, and the parts of them. ``approximate`` is as in ``SearchOptions``. ``sources`` are
    those that may propose an answer; an evaluation switches some off.
    """

    documents: tuple[str, ...] | None = None
    mode: Literal["quote", "free"] = "quote"
    top_k: int | None = None
    retriever: RetrieverName = "hybrid"
    reread: bool = True
    threshold: float | None = None
    max_tokens: int = 96
    record: bool = False
    filters: Filters = NO_FILTERS
    approximate: bool = False
    sources: frozenset[Source] = frozenset(SOURCES)

    def __post_init__(self) -> None:
        if self.mode not in ("quote", "free"):
            raise ConfigError(f"mode is {self.mode!r}, expected 'quote' or 'free'")
        self.search_options()  # which checks its own
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise ConfigError(f"threshold is {self.threshold}, expected a number from 0 to 1")
        if unknown := self.sources - set(SOURCES):
            raise ConfigError(
                f"no source of answers is called {sorted(unknown)[0]!r}; there are"
                f" {', '.join(SOURCES)}"
            )
        if self.max_tokens < 1:
            raise ConfigError(f"max_tokens is {self.max_tokens}, expected 1 or more")

    def search_options(self) -> SearchOptions:
        """Return the part of the options that retrieval needs."""
        return SearchOptions(
            self.documents,
            self.top_k,
            self.retriever,
            self.reread,
            until_sure=self.top_k is None,
            filters=self.filters,
            approximate=self.approximate,
        )
