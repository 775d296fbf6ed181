"""Writes a document's chunks: tensors to segment bytes, files into place, then rows.

Knows nothing of models; page and section come with the texts.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import torch
from torch import Tensor

from drt_engine.errors import EngineError, StoreError
from drt_engine.store.catalog import Catalog, Place
from drt_engine.store.files import SEGMENT_SUFFIX, delete_segments, file_errors, write_durably
from drt_engine.store.format import SegmentHeader, seal
from drt_engine.store.lock import WriterLock
from drt_engine.store.reader import section_tensor
from drt_engine.store.types import ChunkBatch, ChunkText, DocumentRow, RecordLayout

MAX_SEGMENT_CHUNKS = 1_024
_SLICE = 32  # chunks quantised at a time, which bounds the memory of the float copies
_ID = re.compile(r"[0-9a-f]{16}")


def quantise(numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers [..., D] as int8 and one fp16 scale [...]; within half a step of the scale."""
    exact = numbers.abs().amax(dim=-1) / 127
    scales = exact.half()
    # a scale rounded down would clip the largest number: take the next fp16 up
    scales = (scales.view(torch.int16) + (scales.float() < exact).short()).view(torch.float16)
    steps = scales.float().unsqueeze(-1)
    integers = torch.where(steps > 0, numbers / steps, 0.0).round_().clamp_(-127, 127)
    return integers.to(torch.int8), scales


def encode_segment(header: SegmentHeader, batch: ChunkBatch) -> bytearray:
    """The bytes of a segment file; slots beyond a chunk's length become zeros."""
    buffer = bytearray(header.file_size)
    out = {
        name: section_tensor(buffer, section, header.chunks)
        for name, section in header.sections.items()
        if name != "checksums"
    }
    out["lengths"].copy_(batch.lengths)
    out["landmarks"].copy_(batch.landmarks.detach())
    for begin in range(0, header.chunks, _SLICE):
        _encode_slice(out, batch, slice(begin, begin + _SLICE))
    _check_finite(out, batch)
    seal(buffer, header)
    return buffer


def _encode_slice(out: dict[str, Tensor], batch: ChunkBatch, part: slice) -> None:
    slots = torch.arange(batch.ids.shape[1])
    unused = slots >= batch.lengths[part].cpu().unsqueeze(1)  # [n, S]
    for name in ("ids", "starts", "ends"):
        numbers: Tensor = getattr(batch, name)[part].cpu()
        out[name][part] = numbers.masked_fill(unused, 0).int()
    hidden = unused[..., None, None]
    for name, scales in (("keys", "key_scales"), ("values", "value_scales")):
        memory = getattr(batch, name)[part].detach().cpu().float().masked_fill(hidden, 0.0)
        if scales in out:
            out[name][part], out[scales][part] = quantise(memory)
        else:
            out[name][part] = memory.to(out[name].dtype)


def _check_finite(out: dict[str, Tensor], batch: ChunkBatch) -> None:
    names = ("landmarks", "key_scales", "value_scales", "keys", "values")
    for name in names:
        if name in out and out[name].is_floating_point() and not out[name].isfinite().all():
            raise StoreError(
                f"the model gave {name} that are not finite or too large to store for"
                f" {len(batch.lengths)} chunks: check the model's weights"
            )


class DocumentWriter:
    """Reads one document into the library; made by `Store.begin_document`.

    Leaving without `finish` keeps what was appended: reading the same id continues there.
    """

    def __init__(
        self, catalog: Catalog, segments: Path, *, layout: RecordLayout, lock: WriterLock
    ) -> None:
        self._catalog = catalog
        self._segments = segments
        self._layout = layout
        self._lock = lock
        self._row: DocumentRow | None = None

    def begin(self, id: str, title: str, *, source: str, media_type: str) -> DocumentWriter:
        """Take up document `id`; the caller holds the lock, `close` releases it."""
        if not _ID.fullmatch(id):
            raise ValueError(f"document id is {id!r}, expected 16 lowercase hexadecimal digits")
        self._row = self._catalog.begin(id, title, source=source, media_type=media_type)
        return self

    @property
    def committed_chunks(self) -> int:
        """Chunks in the library already; above zero when an interrupted reading goes on."""
        return self._open().chunks

    @property
    def committed_characters(self) -> int:
        """Characters these chunks' texts cover: where the next text starts."""
        return self._open().characters

    def append(self, batch: ChunkBatch, texts: Sequence[ChunkText]) -> None:
        """Store the next chunks durably; more than 1,024 become several files and commits.

        Raises StorageFull when the disk is full; what was committed before stays.
        """
        row = self._open()
        _check_batch(batch, texts, self._layout)
        _check_texts(texts, row.characters)
        for begin in range(0, len(texts), MAX_SEGMENT_CHUNKS):
            part = slice(begin, begin + MAX_SEGMENT_CHUNKS)
            self._append_segment(_sliced(batch, part), texts[part])

    def finish(self, *, places: Sequence[Place]) -> DocumentRow:
        """Mark the document ready, replacing an older one of the same source."""
        row = self._open()
        if not row.chunks:
            raise ValueError(f"document {row.id} has no chunks: append before finishing")
        starts = [place[0] for place in places]
        if any(later <= earlier for earlier, later in zip(starts, starts[1:], strict=False)):
            raise ValueError("places are not in increasing order of their starts")
        files = self._catalog.finish(row.id, places)
        delete_segments(self._segments, files)
        ready = self._catalog.document_by_id(row.id)
        self.close()
        if ready is None:
            raise StoreError(f"document {row.id} was removed by another process: read it again")
        return ready

    def close(self) -> None:
        """Release the lock; what was appended stays."""
        if self._row is not None:
            self._row = None
            self._lock.release()

    def __enter__(self) -> DocumentWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self) -> DocumentRow:
        if self._row is None:
            raise ValueError("this document's writer is closed: begin the document again")
        return self._row

    def _append_segment(self, batch: ChunkBatch, texts: Sequence[ChunkText]) -> None:
        row = self._open()
        header = SegmentHeader(self._layout, row.id, row.chunks, len(texts))
        name = f"{row.id}-{row.chunks:08d}-{secrets.token_hex(4)}{SEGMENT_SUFFIX}"
        data = encode_segment(header, batch)
        with file_errors(self._segments.parent):
            write_durably(self._segments / name, data)
        try:
            self._catalog.add_segment(
                row.id,
                name,
                texts=texts,
                lengths=batch.lengths.tolist(),
                first_ordinal=row.chunks,
            )
        except Exception:
            self._discard(name)
            raise
        self._row = self._catalog.document_by_id(row.id, state="partial")

    def _discard(self, name: str) -> None:
        """Delete a file whose commit failed, if the catalogue confirms that it did."""
        with contextlib.suppress(EngineError):
            if not self._catalog.has_segment(name):
                delete_segments(self._segments, [name])


def _sliced(batch: ChunkBatch, part: slice) -> ChunkBatch:
    return ChunkBatch(**{name: tensor[part] for name, tensor in vars(batch).items()})


def _check_batch(batch: ChunkBatch, texts: Sequence[ChunkText], layout: RecordLayout) -> None:
    count = len(texts)
    tokens = (count, layout.chunk_tokens)
    memory = (*tokens, layout.kv_heads, layout.head_size)
    expected = {
        "ids": tokens,
        "starts": tokens,
        "ends": tokens,
        "lengths": (count,),
        "keys": memory,
        "values": memory,
        "landmarks": (count, layout.landmark_size),
    }
    for name, shape in expected.items():
        if getattr(batch, name).shape != shape:
            raise ValueError(f"{name} is {list(getattr(batch, name).shape)}, expected {shape}")
    if count and not 0 <= batch.lengths.min() <= batch.lengths.max() <= layout.chunk_tokens:
        raise ValueError(f"lengths are outside 0 to {layout.chunk_tokens}")


def _check_texts(texts: Sequence[ChunkText], expected: int) -> None:
    for text in texts:
        if text.start != expected:
            raise ValueError(f"a chunk's text starts at {text.start}, expected {expected}")
        if "\0" in text.text:
            raise ValueError(f"the text of the chunk at {text.start} holds U+0000")
        expected += len(text.text)
