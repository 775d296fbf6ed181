"""Which documents each shard of a federation holds, and which of them an earlier shard has too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from drt_engine.store.catalogue.catalog import Catalog
from drt_engine.store.federation.shard_state import ShardState, document_state
from drt_engine.store.federation.shard_words import Excluded, documents_size


class _Member(NamedTuple):
    number: int
    document_id: str
    is_ready: bool


class _Members(NamedTuple):
    """The documents of one shard, as of a state of its catalogue."""

    state: ShardState
    documents: Sequence[_Member]


class Membership:
    """Remembers the shards' documents from one question to the next, for shards by their paths."""

    def __init__(self) -> None:
        self._members: dict[Path, _Members] = {}
        self._states: Mapping[Path, ShardState] = {}
        self._excluded: list[Excluded] = []

    def excluded(self, catalogs: Mapping[Path, Catalog]) -> list[Excluded]:
        """Return what is excluded of each shard, given in order.

        A document counts where it is read in full first, else where its reading began first.
        """
        states = {path: document_state(catalog) for path, catalog in catalogs.items()}
        if list(states.items()) != list(self._states.items()):
            for path, catalog in catalogs.items():
                if path not in self._members or self._members[path].state != states[path]:
                    self._members[path] = _Members(states[path], _documents(catalog))
            duplicates = _duplicates([self._members[path].documents for path in catalogs])
            self._excluded = [
                _excluded(catalog, documents)
                for catalog, documents in zip(catalogs.values(), duplicates, strict=True)
            ]
            # A document that is still being read grows without a change of state.
            is_steady = all(d.is_ready for documents in duplicates for d in documents)
            self._states = states if is_steady else {}
        return self._excluded


def _documents(catalog: Catalog) -> list[_Member]:
    rows = catalog.database.query("SELECT number, id, state = 'ready' FROM documents")
    return [_Member(row[0], row[1], bool(row[2])) for row in rows]


def _duplicates(shards: Sequence[Sequence[_Member]]) -> list[list[_Member]]:
    """Return the documents of each shard that another one has, which counts instead."""
    owner: dict[str, int] = {}
    for state in (True, False):
        for shard, documents in enumerate(shards):
            for document in documents:
                if document.is_ready is state:
                    owner.setdefault(document.document_id, shard)
    return [
        [document for document in documents if owner[document.document_id] != shard]
        for shard, documents in enumerate(shards)
    ]


def _excluded(catalog: Catalog, documents: Sequence[_Member]) -> Excluded:
    if not documents:
        return Excluded()
    numbers = tuple(document.number for document in documents)
    ids = frozenset(document.document_id for document in documents)
    return Excluded(ids, numbers, documents_size(catalog, numbers))
