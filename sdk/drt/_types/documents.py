"""What becomes of documents: in the library, while they are read, and in a watched folder."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from drt_engine.results import IngestProgress

Progress = Callable[[IngestProgress], None]


@dataclass(frozen=True)
class DocumentInfo:
    """A document of a library; ``new`` is true when this call read it.

    ``skipped`` says what its reader passed over and why; it is empty unless this call opened the
    file. ``author`` and ``date`` are what the document names (the date as YYYY-MM-DD where that is
    certain), empty where it names none; ``tags`` are the user's.
    """

    id: str
    title: str
    source: str
    characters: int
    tokens: int
    chunks: int
    new: bool = False
    skipped: tuple[str, ...] = ()
    author: str = ""
    date: str = ""
    tags: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the document as plain values."""
        # asdict takes ten times as long, which thousands would feel
        return vars(self) | {"skipped": list(self.skipped), "tags": list(self.tags)}


@dataclass(frozen=True)
class IngestResult:
    """One document of several: what it is in the library, or why it could not be read.

    ``tokens`` were read now, in ``seconds``: fewer than the document has where a part was read
    before. With neither document nor error, it is the last result of a path where something was
    passed over: ``skipped`` counts files that no reader knows, ``notes`` says what else of
    archives, and why.
    """

    source: str
    document: DocumentInfo | None
    error: Exception | None
    seconds: float = 0.0
    tokens: int = 0
    skipped: int = 0
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return {
            "source": self.source,
            "document": None if self.document is None else self.document.to_dict(),
            "error": None if self.error is None else str(self.error),
            "skipped": self.skipped,
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class IngestReport:
    """The result of reading several paths.

    ``failures`` pairs a source with its sentence; ``skipped`` counts files found in folders and by
    patterns that no reader knows, ``notes`` says what else of archives was passed over and why;
    ``tokens`` counts what was read now, in ``seconds`` of reading: not what an interrupted reading
    left, nor what the older version of a document holds.
    """

    documents: tuple[DocumentInfo, ...]
    failures: tuple[tuple[str, str], ...]
    tokens: int
    seconds: float
    skipped: int = 0
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, results: Iterable[IngestResult]) -> "IngestReport":
        """Return the report of what ``Assistant.ingest_each`` yielded, all of it or a part."""
        listed = list(results)
        return cls(
            documents=tuple(result.document for result in listed if result.document is not None),
            failures=tuple(
                (result.source, str(result.error)) for result in listed if result.error is not None
            ),
            tokens=sum(result.tokens for result in listed),
            seconds=sum(result.seconds for result in listed),
            skipped=sum(result.skipped for result in listed),
            # an archive may be named twice
            notes=tuple(dict.fromkeys(note for result in listed for note in result.notes)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {
            "documents": [document.to_dict() for document in self.documents],
            "failures": [
                {"source": source, "message": message} for source, message in self.failures
            ],
            "skipped": self.skipped,
            "notes": list(self.notes),
            "tokens": self.tokens,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class WatchEvent:
    """Something that changed in a watched folder, and what was done about it."""

    kind: Literal["read", "removed", "failed"]
    source: str
    document: DocumentInfo | None
    message: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain values."""
        return asdict(self)
