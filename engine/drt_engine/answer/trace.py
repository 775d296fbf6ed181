"""What was retrieved for which chunk of the answer and group, as data and as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from drt_engine.retrieval.library import Passage


@dataclass(frozen=True)
class TraceEntry:
    """One retrieved chunk: ``start`` is its first character, ``source`` the list it came from."""

    chunk_id: int
    document: str
    title: str
    start: int
    text: str
    score: float
    probability: float
    source: str


@dataclass(frozen=True)
class TraceGroup:
    """What one group's landmark query retrieved for one chunk of the answer."""

    group: int
    chunk: int
    entries: tuple[TraceEntry, ...]


@dataclass(frozen=True)
class Trace:
    """The retrievals behind one answer, with the numbers the model used."""

    question: str
    groups: tuple[TraceGroup, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)

    def as_text(self) -> str:
        """Return a table for a terminal."""
        lines = [f"question: {self.question}"]
        for group in self.groups:
            lines.append(f"answer chunk {group.chunk + 1}, group {group.group + 1}:")
            for entry in group.entries:
                text = " ".join(entry.text.split())[:96]
                lines.append(
                    f"  {entry.probability:6.1%}  score {entry.score:7.2f}  {entry.source:8}"
                    f"  {entry.title} @{entry.start}: {text}"
                )
        return "\n".join(lines)


def make_trace(
    question: str, found: Sequence[Sequence[Passage]], titles: dict[str, str], groups: int
) -> Trace:
    """Build the trace from passages in the order of retrieval: the groups of one border, then
    those of the next.
    """
    out = []
    for number, passages in enumerate(found):
        entries = tuple(
            TraceEntry(
                p.row.id,
                p.row.document_id,
                titles.get(p.row.document_id, ""),
                p.row.start,
                p.row.text,
                p.score,
                p.probability,
                p.by,
            )
            for p in passages
        )
        out.append(TraceGroup(number % groups, number // groups, entries))
    return Trace(question, tuple(out))
