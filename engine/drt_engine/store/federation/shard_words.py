"""One shard's share of BM25 over several libraries: counts, and how often each chunk has a word.

FTS5 scores with the statistics of its own index, and tells no program how often a word occurs. Its
score of one word is solved for that number here; ``bm25.py`` then scores with the statistics of all
shards. Knows nothing of other shards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from drt_engine.errors import CorruptStore
from drt_engine.store.catalogue.catalog import Catalog
from drt_engine.store.catalogue.database import IN_LIST, json_list
from drt_engine.store.catalogue.search import any_of, count, last_chunk

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# As FTS5's bm25() has them; 1 - B and K1 + 1 are constants there, too.
K1, B = 1.2, 0.75
LEAST_RARITY = 1e-6
_AVERAGES = 1  # the row of FTS5's data with its totals
_TOLERANCE = 0.01  # of a number of occurrences, which is whole


@dataclass(frozen=True)
class IndexSize:
    """What a full-text index holds: ``rows`` are chunks, ``tokens`` all that it counts in them."""

    rows: int = 0
    tokens: int = 0

    def __add__(self, other: IndexSize) -> IndexSize:
        return IndexSize(self.rows + other.rows, self.tokens + other.tokens)

    def __sub__(self, other: IndexSize) -> IndexSize:
        return IndexSize(self.rows - other.rows, self.tokens - other.tokens)

    @property
    def average(self) -> float:
        """The average tokens of a chunk."""
        return self.tokens / self.rows


@dataclass(frozen=True)
class Excluded:
    """Documents of a shard that do not count, since an earlier one has them.

    ``numbers`` are their row numbers, ``size`` is what the shard's index holds of them.
    """

    ids: frozenset[str] = frozenset()
    numbers: tuple[int, ...] = ()
    size: IndexSize = IndexSize()


@dataclass(frozen=True)
class _Scored:
    """Chunks of a query in the order of their ids, as FTS5 scores them; all [n]."""

    ids: NDArray[np.int64]
    scores: NDArray[np.float64]
    tokens: NDArray[np.int64]


@dataclass(frozen=True)
class WordRows:
    """Chunks in the order of their ids, with their tokens and how often each has each word.

    ``chunk_ids`` and ``tokens`` are [n] int64, ``occurrences`` [n] float64 for each word.
    """

    chunk_ids: NDArray[np.int64]
    tokens: NDArray[np.int64]
    occurrences: Mapping[str, NDArray[np.float64]]


def rarity(rows: int, matches: int) -> float:
    """Return FTS5's inverse document frequency."""
    idf = math.log((rows - matches + 0.5) / (matches + 0.5))
    return idf if idf > 0.0 else LEAST_RARITY


def index_size(catalog: Catalog) -> IndexSize:
    """Return the totals that FTS5 keeps; CorruptStore where there are none."""
    row = catalog.database.first_row("SELECT block FROM chunk_text_data WHERE id = ?", (_AVERAGES,))
    totals = [] if row is None else varints(row[0])
    if not totals:  # nothing was ever indexed
        return IndexSize()
    if len(totals) != 2:
        raise _strange(catalog)
    return IndexSize(*totals)


def documents_size(catalog: Catalog, numbers: Sequence[int]) -> IndexSize:
    """Return what the index holds of some documents, by their row numbers."""
    sizes = catalog.database.query(
        "SELECT z.sz FROM chunks c CROSS JOIN chunk_text_docsize z ON z.id = c.id"
        f" WHERE c.document {IN_LIST}",
        (json_list(numbers),),
    )
    return IndexSize(len(sizes), sum(varints(size)[0] for (size,) in sizes))


@dataclass(frozen=True)
class ShardWords:
    """The words of a catalogue as one shard has them for one question.

    ``excluded`` documents are another shard's, ``first`` is added to chunk ids. ``where`` with its
    ``parameters`` restricts the chunks that are ranked. ``matches`` keeps what was counted.
    """

    catalog: Catalog
    first: int
    excluded: Excluded = Excluded()
    where: str = ""
    parameters: Sequence[Any] = ()
    matches: dict[str, int] = field(default_factory=dict, repr=False)

    def size(self) -> IndexSize:
        """Return how many chunks and tokens it holds."""
        return index_size(self.catalog) - self.excluded.size

    def last_chunk(self) -> int:
        """Return the number of chunks, or more where some were removed."""
        return last_chunk(self.catalog) - self.excluded.size.rows

    def counts(self, words: Sequence[str]) -> Mapping[str, int]:
        """Return how many chunks hold each quoted word."""
        counts = {word: self._matches(word) for word in words}
        if not self.excluded.numbers:
            return counts
        for word in words:
            row = self.catalog.database.first_row(
                "SELECT count(*) FROM chunk_text f CROSS JOIN chunks c ON c.id = f.rowid"
                f" WHERE chunk_text MATCH ? AND c.document {IN_LIST}",
                (word, json_list(self.excluded.numbers)),
            )
            counts[word] -= 0 if row is None else int(row[0])
        return counts

    def rows(self, needed: Sequence[str], free: Sequence[str]) -> WordRows:
        """Return the chunks asked for with any of the ``needed`` words, by their ids.

        Of the ``free`` words, only what these chunks have is looked at.
        """
        import numpy as np

        size = index_size(self.catalog)
        needed_rows = {word: self._query(word) for word in needed if self._matches(word)}
        ids = [rows.ids for rows in needed_rows.values()]
        chunk_ids = np.unique(np.concatenate([np.empty(0, np.int64), *ids]))
        tokens = np.zeros(len(chunk_ids), np.int64)
        for rows in needed_rows.values():
            tokens[np.searchsorted(chunk_ids, rows.ids)] = rows.tokens
        # FTS5's denominator without the occurrences, with the average of this index alone.
        average = size.average if size.rows else 1.0
        base = (K1 * (1 - B + B * tokens / average)).astype(np.float64)
        scores = {word: np.zeros(len(chunk_ids)) for word in [*needed, *free]}
        for word, rows in needed_rows.items():
            scores[word][np.searchsorted(chunk_ids, rows.ids)] = rows.scores
        needed_scores = sum((scores[word] for word in needed), np.zeros(len(chunk_ids)))
        for word in free:
            if not len(chunk_ids) or not self._matches(word):
                continue
            rows = self._query(f"({any_of(needed)}) AND {word}")
            places = np.searchsorted(chunk_ids, rows.ids)
            scores[word][places] = rows.scores - needed_scores[places]
        rarities = {word: rarity(size.rows, self._matches(word)) for word in scores}
        occurrences = {
            word: self._solved(values / rarities[word], base) for word, values in scores.items()
        }
        return WordRows(chunk_ids + self.first, tokens, occurrences)

    def _matches(self, word: str) -> int:
        """Return how many chunks of the catalogue hold a word, excluded ones too."""
        if word not in self.matches:
            self.matches[word] = count(self.catalog, word)
        return self.matches[word]

    def _solved(
        self, saturations: NDArray[np.float64], base: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return how often words occur for which FTS5 has ``n (K1 + 1) / (n + base)``, n >= 0."""
        import numpy as np

        numbers = saturations * base / (K1 + 1 - saturations)
        occurrences: NDArray[np.float64] = np.round(numbers)
        if (
            np.abs(numbers - occurrences).max(initial=0.0) > _TOLERANCE
            or occurrences.min(initial=0.0) < 0
        ):
            raise _strange(self.catalog)
        return occurrences

    def _query(self, expression: str) -> _Scored:
        """Return the chunks that match an expression."""
        import numpy as np

        rows = self.catalog.database.query(
            "SELECT c.id, -f.rank, z.sz FROM chunk_text f CROSS JOIN chunks c ON c.id = f.rowid"
            " CROSS JOIN documents d ON d.number = c.document"
            " CROSS JOIN chunk_text_docsize z ON z.id = c.id"
            f" WHERE chunk_text MATCH ? AND d.state = 'ready' {self.where} ORDER BY f.rowid",
            (expression, *self.parameters),
        )
        return _Scored(
            np.fromiter((row[0] for row in rows), np.int64, len(rows)),
            np.fromiter((row[1] for row in rows), np.float64, len(rows)),
            np.fromiter((varints(row[2])[0] for row in rows), np.int64, len(rows)),
        )


def varints(data: bytes) -> list[int]:
    """Return the numbers of a blob of SQLite's variable-length integers."""
    numbers, value, length = [], 0, 0
    for byte in data:
        length += 1
        if length == 9:  # the ninth byte has eight bits
            numbers.append(value << 8 | byte)
        else:
            value = value << 7 | byte & 0x7F
            if byte & 0x80:
                continue
            numbers.append(value)
        value = length = 0
    return numbers


def _strange(catalog: Catalog) -> CorruptStore:
    return CorruptStore(
        f"the search index of {catalog.database.path} does not match its chunks: run `drt library"
        " check --repair`"
    )
