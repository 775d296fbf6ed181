"""Results of several libraries: which library each document is in, and which were not read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from ._types import AllAnswers, Answer, Citation, SearchHit, SearchResult, Summary

if TYPE_CHECKING:
    from drt_engine.store.federation import FederatedStore

Result = TypeVar("Result", Answer, AllAnswers, SearchResult, Summary)
Place = TypeVar("Place", Citation, SearchHit)


def with_libraries(result: Result, federation: FederatedStore) -> Result:
    """Return a result whose places name their libraries, with the libraries that were not read."""

    @cache
    def library_of(document: str) -> str:
        return str(federation.library_of(document))

    changes: dict[str, Any] = {"unread_libraries": federation.unread}
    if isinstance(result, Answer):
        changes["citations"] = _named(result.citations, library_of)
    elif isinstance(result, SearchResult):
        changes["hits"] = _named(result.hits, library_of)
    elif isinstance(result, Summary):
        changes["sentences"] = _named(result.sentences, library_of)
    else:
        changes["answers"] = tuple(
            replace(group, citations=_named(group.citations, library_of))
            for group in result.answers
        )
    return replace(result, **changes)


def _named(places: Iterable[Place], library_of: Callable[[str], str]) -> tuple[Place, ...]:
    return tuple(replace(place, library=library_of(place.document)) for place in places)
