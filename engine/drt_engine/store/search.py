"""Lexical search over chunk texts: plain words in, BM25 scores out (SQLite FTS5).

Knows nothing of landmarks; the caller's words never reach FTS5 as syntax.
"""

from __future__ import annotations

from collections.abc import Sequence

from drt_engine.retrieval.lexical import fts_query
from drt_engine.store.catalog import Catalog


def search_text(
    catalog: Catalog, query: str, *, documents: Sequence[str] | None = None, limit: int = 50
) -> list[tuple[int, float]]:
    """Chunks of ready documents that hold any of the words, best first.

    Returns (chunk id, score) pairs, a score being BM25, above zero, larger when better.
    """
    wanted = fts_query(query)
    if wanted is None or limit < 1:
        return []
    where, parameters = catalog.only(documents)
    rows = catalog.database.query(
        "SELECT c.id, -f.rank FROM chunk_text f CROSS JOIN chunks c ON c.id = f.rowid"
        " CROSS JOIN documents d ON d.number = c.document"
        f" WHERE chunk_text MATCH ? AND d.state = 'ready' {where} ORDER BY f.rank LIMIT ?",
        (wanted, *parameters, limit),
    )
    return sorted(((int(row[0]), float(row[1])) for row in rows), key=lambda hit: (-hit[1], hit[0]))
