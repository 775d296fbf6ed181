"""What a question scans of a library with an approximate index.

The lists nearest to the query, and in full what was read since the index was made. Where the index
cannot be used, everything is scanned, and it is said why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drt_engine.errors import CorruptStore
from drt_engine.results import IndexInfo, ScanInfo
from drt_engine.store.catalogue.catalog import Catalog
from drt_engine.store.catalogue.chunk_rows import missing_chunk
from drt_engine.store.catalogue.search import last_chunk
from drt_engine.store.types import SegmentRow

if TYPE_CHECKING:
    from torch import Tensor

    from drt_engine.store.index.format import IndexRow
    from drt_engine.store.index.reader import InvertedFile
    from drt_engine.store.segments.reader import SegmentReader
    from drt_kernels.scan import Landmarks

NO_INDEX = "there is no approximate index: `drt library index --approximate` makes one"


@dataclass(frozen=True)
class ProbedLandmarks:
    """Landmarks to scan, by parts with their chunk ids, and what they are of the library's.

    Of probed lists, chunks may be gone; ``info`` says how many lists there are.
    """

    parts: Sequence[tuple[Sequence[int], Landmarks]]
    info: ScanInfo


class LandmarkIndex:
    """The approximate index of a library as it is read; where there is none, all is scanned."""

    def __init__(
        self,
        catalog: Catalog,
        fingerprint: str | None,
        *,
        reader: Callable[[], SegmentReader],
        scan: Callable[[], Iterable[tuple[Sequence[int], Landmarks]]],
    ) -> None:
        self._catalog = catalog
        self._fingerprint = fingerprint
        self._reader = reader
        self._scan_all = scan  # of all landmarks, without the index

    def open(self) -> tuple[IndexRow, InvertedFile] | None:
        """Return the index, if there is one; CorruptStore."""
        row = self._catalog.index_row()
        if row is None:
            return None
        return row, self._reader().index(row, self._fingerprint)

    def info(self) -> IndexInfo | None:
        """Return what the index is, if there is one; CorruptStore."""
        index = self.open()
        if index is None:
            return None
        row, file = index
        header = file.header
        return IndexInfo(
            file=row.name,
            bytes=header.file_size,
            chunks=header.chunks,
            chunks_since=sum(segment.chunks for segment in self._later(file)),
            lists=header.lists,
            probes=row.probes,
        )

    def probe(self, query: Tensor, probes: int | None = None) -> ProbedLandmarks:
        """Return what to scan for a query [E].

        ``probes`` lists, by default as many as the index was made for.
        """
        try:
            index = self.open()
            if index is None:
                return self._everything(NO_INDEX)
            row, file = index
            lists = file.nearest(query, probes or row.probes)
            parts: list[tuple[Sequence[int], Landmarks]] = list(file.parts(lists))
        except CorruptStore as error:
            return self._everything(str(error))
        parts.extend(self._scan(self._later(file)))
        return ProbedLandmarks(parts, ScanInfo(len(lists), file.header.lists))

    def gaps(self) -> tuple[int, list[range]]:
        """Return the last chunk id, and those up to it of documents not read in full."""
        rows = self._catalog.segments(state="partial")
        gaps = [range(row.first_chunk, row.first_chunk + row.chunks) for row in rows]
        return last_chunk(self._catalog), gaps

    def present(self, chunk_ids: Sequence[int]) -> set[int]:
        """Return which of these chunks are in the library."""
        return set(self._catalog.segments_of(chunk_ids))

    def landmarks(self, chunk_ids: Sequence[int]) -> Tensor:
        """Return the landmarks [n, E] fp16 of chunks in the order asked for, verified.

        Raises CorruptStore.
        """
        segments = self._catalog.segments_of(chunk_ids)
        for chunk_id in chunk_ids:
            if chunk_id not in segments:
                raise missing_chunk(chunk_id)
        places = [(segments[c], c - segments[c].first_chunk) for c in chunk_ids]
        return self._reader().landmarks(places)

    def _later(self, file: InvertedFile) -> list[SegmentRow]:
        """Return the segments of documents that were read in full since the index was made."""
        rows = self._catalog.segments_between(file.header.last_chunk + 1)
        for gap in file.gaps:
            rows += self._catalog.segments_between(gap.start, gap.stop)
        return rows

    def _scan(self, rows: Sequence[SegmentRow]) -> Iterator[tuple[Sequence[int], Landmarks]]:
        landmark_files = {row.id: row for row in self._catalog.landmark_files()}
        reader = self._reader()
        reader.keep_landmark_files(landmark_files.values())  # no full scan may ever close others
        yield from reader.scan(rows, self._is_gone, landmark_files=landmark_files)

    def _is_gone(self, row: SegmentRow) -> bool:
        return not self._catalog.has_segment(row.name)

    def _everything(self, reason: str) -> ProbedLandmarks:
        return ProbedLandmarks(tuple(self._scan_all()), ScanInfo(0, 0, (reason,)))
