"""Lexical search over chunk texts: plain words in, BM25 scores out (SQLite FTS5).

Knows nothing of landmarks; the caller's words never reach FTS5 as syntax.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from drt_engine.store.catalog import Catalog

# the combining marks are those that FTS5's unicode61 keeps inside a word
_WORD = re.compile(r"(?:[^\W_][\u0300-\u036f]*)+")

# one string each line keeps the list readable
_STOP_LINES = (
    "a about after all also am an and any are aren as at be because been before being between",
    "both but by can could d did didn do does doesn doing don during each few for from further",
    "had has have having he her here hers him his how i if in into is isn it its itself just ll",
    "me more most my myself no nor not now of off on once only or other our ours out over own re",
    "s same she should so some such t than that the their theirs them then there these they this",
    "those through to too under until up us ve very was wasn we were what when where which while",
    "who whom whose why will with would you your yours",
)
STOP_WORDS = frozenset(word for line in _STOP_LINES for word in line.split())


def terms(query: str) -> list[str]:
    """The distinct words of a query that are searched: no stop words, unless nothing is left."""
    words = _WORD.findall(unicodedata.normalize("NFC", query).lower())
    distinct = list(dict.fromkeys(words))
    return [word for word in distinct if word not in STOP_WORDS] or distinct


def search_text(
    catalog: Catalog, query: str, *, documents: Sequence[str] | None = None, limit: int = 50
) -> list[tuple[int, float]]:
    """Chunks of ready documents that hold any of the words, best first.

    Returns (chunk id, score) pairs, a score being BM25, above zero, larger when better.
    """
    words = terms(query)
    if not words or limit < 1:
        return []
    where, parameters = catalog.only(documents)
    rows = catalog.database.query(
        "SELECT c.id, -f.rank FROM chunk_text f CROSS JOIN chunks c ON c.id = f.rowid"
        " CROSS JOIN documents d ON d.number = c.document"
        f" WHERE chunk_text MATCH ? AND d.state = 'ready' {where} ORDER BY f.rank LIMIT ?",
        (" OR ".join(f'"{word}"' for word in words), *parameters, limit),
    )
    return sorted(((int(row[0]), float(row[1])) for row in rows), key=lambda hit: (-hit[1], hit[0]))
