"""Writes a document's chunks: tensors to segment bytes, files into place, then rows.

Knows nothing of models; page and section come with the texts.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from drt_engine.errors import StoreError
from drt_engine.store.catalogue.catalog import Catalog
from drt_engine.store.filesystem.library_folder import Folder
from drt_engine.store.segments.appender import Appender, check_texts
from drt_engine.store.segments.format import (
    MAX_NUMBER,
    MAX_SEGMENT_CHUNKS,
    SegmentHeader,
    write_header_and_checksums,
)
from drt_engine.store.segments.reader import section_tensor
from drt_engine.store.segments.records import discard, landmarks_crc, segment_name
from drt_engine.store.types import ChunkBatch, ChunkText, RecordLayout, SegmentRow

_SLICE = 32  # chunks quantised at a time, which bounds the memory of the float copies


def quantise(numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise numbers [..., D] to int8 and one fp16 scale [...], within half a step."""
    exact = numbers.abs().amax(dim=-1) / 127
    scales = exact.half()
    # a scale rounded down would clip the largest number: take the next fp16 up
    scales = (scales.view(torch.int16) + (scales.float() < exact).short()).view(torch.float16)
    steps = scales.float().unsqueeze(-1)
    integers = torch.where(steps > 0, numbers / steps, 0.0).round_().clamp_(-127, 127)
    return integers.to(torch.int8), scales


def encode_segment(header: SegmentHeader, batch: ChunkBatch) -> bytearray:
    """Return the bytes of a segment file; slots beyond a chunk's length become zeros."""
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
    write_header_and_checksums(buffer, header)
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
        numbers = out.get(name)
        if numbers is None or not numbers.is_floating_point():
            continue
        if not (numbers.isfinite() & (numbers.abs() < MAX_NUMBER)).all():
            raise StoreError(
                f"the model gave {name} that are not finite or too large to store for"
                f" {len(batch.lengths)} chunks: check the model's weights"
            )


class DocumentWriter(Appender):
    """Reads one document into the library; made by ``Store.begin_document``.

    Leaving without ``finish`` keeps what was appended: reading the same id continues there.
    """

    def append(self, batch: ChunkBatch, texts: Sequence[ChunkText]) -> None:
        """Store the next chunks durably; more than 1,024 become several files and commits.

        Raises StorageFull when the disk is full; what was committed before stays.
        """
        row = self._open()
        _check_batch(batch, texts, self._layout)
        check_texts(texts, row.characters)
        for begin in range(0, len(texts), MAX_SEGMENT_CHUNKS):
            part = slice(begin, begin + MAX_SEGMENT_CHUNKS)
            self._append_segment(_sliced(batch, part), texts[part])

    def _append_segment(self, batch: ChunkBatch, texts: Sequence[ChunkText]) -> None:
        row = self._open()
        header = SegmentHeader(self._layout, row.id, row.chunks, len(texts))
        data = encode_segment(header, batch)
        self.store_segment(header, data, texts=texts, lengths=batch.lengths.tolist())


def replaced_segment(
    catalog: Catalog,
    folder: Folder,
    *,
    row: SegmentRow,
    batch: ChunkBatch,
    layout: RecordLayout,
) -> bool:
    """Write a segment again under a new name, for the same chunks; False when it is gone."""
    header = SegmentHeader(layout, row.document_id, row.first_ordinal, row.chunks)
    data = encode_segment(header, batch)
    name = segment_name(row.document_id, row.first_ordinal)
    folder.write(name, data)
    try:
        done = catalog.swap_segments([row], name, landmarks_crc=landmarks_crc(data, header))
    except Exception:
        discard(catalog, folder, name)
        raise
    folder.delete([row.name] if done else [name])
    return done


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
