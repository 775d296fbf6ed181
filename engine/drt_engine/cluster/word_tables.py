"""How frequent words are in each shard: from tables of all its words, kept while it is unchanged.

Where a shard has changed, or an index splits a word, its own catalogue is counted instead, so that
the numbers are always those of the moment; a new table is requested meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drt_engine.cluster.shard_actors import ShardActors
from drt_engine.store.federation.bm25 import WordStatistics
from drt_engine.store.federation.shard import Shard
from drt_engine.store.federation.shard_state import ShardState
from drt_engine.store.federation.shard_words import IndexSize, ShardWords
from drt_engine.store.federation.vocabulary import Terms, Vocabulary


class WordTables:
    """The tables of all shards, by their folders."""

    def __init__(self, actors: ShardActors) -> None:
        self._actors = actors
        self._terms = Terms()
        self._tables: dict[Path, Vocabulary] = {}
        self._requested: dict[Path, Any] = {}

    def close(self) -> None:
        """Free what words are looked up with."""
        self._terms.close()

    def refresh(self, states: Mapping[Path, ShardState]) -> None:
        """Take the tables that have come, and request those of shards in another state."""
        for path, state in states.items():
            if path in self._requested:
                table = self._actors.words(self._requested[path])
                if table is None:
                    continue
                del self._requested[path]
                if isinstance(table, Vocabulary):
                    self._tables[path] = table
            if path not in self._tables or self._tables[path].state != state:
                self._requested[path] = self._actors.request_words(path)

    def statistics(
        self, shards: Sequence[Shard], states: Mapping[Path, ShardState], words: Sequence[str]
    ) -> WordStatistics:
        """Return the statistics of quoted words over all shards."""
        terms = self._terms.of(words)
        size, last, totals = IndexSize(), 0, dict.fromkeys(words, 0)
        for shard in shards:
            with shard.reading() as view:
                index = ShardWords(view.catalog, shard.first, shard.excluded)
                size, last = size + index.size(), last + index.last_chunk()
                table = self._tables.get(shard.path)
                # A table counts documents, too, that count elsewhere.
                is_current = table is not None and table.state == states[shard.path]
                if table is None or not is_current or shard.excluded.numbers:
                    terms_of_table: Mapping[str, str] = {}
                else:
                    terms_of_table = terms
                for word in words:
                    if table is not None and word in terms_of_table:
                        totals[word] += table.count(terms_of_table[word])
                    else:
                        totals[word] += index.counts([word])[word]
        return WordStatistics(size, last, totals)
