"""The approximate indexes of several libraries: each is asked for its own, and all are joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from drt_engine.errors import StoreError
from drt_engine.results import IndexInfo, ScanInfo
from drt_engine.store.federation.chunks import shards_of_chunks
from drt_engine.store.federation.shard import Shard
from drt_engine.store.index.format import IndexRow
from drt_engine.store.index.probe import LandmarkIndex, ProbedLandmarks

if TYPE_CHECKING:
    from torch import Tensor

    from drt_engine.store.index.reader import InvertedFile
    from drt_kernels.scan import Landmarks

_SHARED = "it shares documents with an earlier library"


class FederatedLandmarkIndex(LandmarkIndex):
    """The indexes of several libraries; one that has none is scanned in full, and named."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        # Without the catalogue and files of one library: what scans is replaced.
        self._shards = shards

    def open(self) -> tuple[IndexRow, InvertedFile] | None:
        """Raise: there is no one index."""
        raise StoreError("several libraries have an index each: name one of them")

    def info(self) -> IndexInfo | None:
        """Raise: there is no one index."""
        raise StoreError("several libraries have an index each: name one of them")

    def gaps(self) -> tuple[int, list[range]]:
        """Raise: there is no one index."""
        raise StoreError("several libraries have an index each: name one of them")

    def probe(self, query: Tensor, probes: int | None = None) -> ProbedLandmarks:
        """Return what to scan of all libraries for a query [E]; of each ``probes`` lists."""
        parts: list[tuple[Sequence[int], Landmarks]] = []
        infos: list[ScanInfo] = []
        for shard in self._shards:
            if shard.excluded.ids:  # documents that another library has must not count twice
                names = shard.restricted(None)
                if names:
                    parts += shard.parts(lambda view, ids: view.scan_coded_landmarks(ids), names)
                infos.append(ScanInfo(0, 0, (f"{shard.path}: {_SHARED}",)))
                continue
            with shard.reading() as view:
                probed = view.index.probe(query, probes)
            parts += [(shard.numbered(ids), landmarks) for ids, landmarks in probed.parts]
            notes = tuple(f"{shard.path}: {note}" for note in probed.info.notes)
            infos.append(replace(probed.info, notes=notes))
        total = ScanInfo(
            sum(info.probed_lists for info in infos),
            sum(info.lists for info in infos),
            tuple(note for info in infos for note in info.notes),
        )
        return ProbedLandmarks(parts, total)

    def present(self, chunk_ids: Sequence[int]) -> set[int]:
        """Return which of these chunks are in their libraries."""
        present: set[int] = set()
        for shard, ids in shards_of_chunks(self._shards, chunk_ids):
            with shard.reading() as view:
                present.update(shard.numbered(sorted(view.index.present(ids))))
        return present

    def landmarks(self, chunk_ids: Sequence[int]) -> Tensor:
        """Return the landmarks [n, E] fp16 of chunks in the order asked for, verified."""
        import torch

        rows: dict[int, Tensor] = {}
        for shard, ids in shards_of_chunks(self._shards, chunk_ids):
            with shard.reading() as view:
                landmarks = view.index.landmarks(ids)
            rows.update(zip(shard.numbered(ids), landmarks, strict=True))
        return torch.stack([rows[chunk_id] for chunk_id in chunk_ids])
