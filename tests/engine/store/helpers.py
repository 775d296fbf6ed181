"""Small libraries for the store's tests: batches with numbers anyone can make again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import torch

from drt_engine.store import ChunkBatch, ChunkText, DocumentRow, RecordLayout, Store

INT8 = RecordLayout(chunk_tokens=4, kv_heads=2, head_size=8, landmark_size=6, encoding="int8")
BF16 = RecordLayout(chunk_tokens=4, kv_heads=2, head_size=8, landmark_size=6, encoding="bf16")
FINGERPRINT = "fingerprint-of-a-test"


def open_store(path: Path, layout: RecordLayout = INT8, *, lock_timeout: float = 5.0) -> Store:
    """A library that may be written to, and that does not wait for the disk."""
    store = open_durable(path, layout, lock_timeout=lock_timeout)
    store._database._open().execute("PRAGMA synchronous = OFF")
    return store


def open_durable(path: Path, layout: RecordLayout = INT8, *, lock_timeout: float = 5.0) -> Store:
    """A library as users open it."""
    return Store.open(
        path,
        fingerprint=FINGERPRINT,
        layout=layout,
        create=True,
        lock_timeout=lock_timeout,
    )


def text_id(pieces: Sequence[str]) -> str:
    """The id that a text's document has."""
    return hashlib.sha256("".join(pieces).encode()).hexdigest()[:16]


_IDS: dict[int, str] = {}  # of what add_document read last under each number


def document_id(number: int) -> str:
    """The id of the text that `add_document` read under this number; before, one of no text."""
    return _IDS.get(number, f"{number:016x}")


def make_batch(
    layout: RecordLayout, lengths: Sequence[int], *, seed: int = 0, padding: float = float("nan")
) -> ChunkBatch:
    """Random chunks; what stands in unused slots must never matter."""
    generator = torch.Generator().manual_seed(seed)
    count, size = len(lengths), layout.chunk_tokens
    memory = (count, size, layout.kv_heads, layout.head_size)
    used = torch.arange(size) < torch.tensor(lengths, dtype=torch.int32).unsqueeze(1)

    def integers(high: int) -> torch.Tensor:
        numbers = torch.randint(1, high, (count, size), generator=generator, dtype=torch.int32)
        return numbers.masked_fill(~used, -7)

    def floats() -> torch.Tensor:
        numbers = torch.randn(memory, generator=generator) * 3
        return numbers.masked_fill(~used[..., None, None], padding)

    return ChunkBatch(
        ids=integers(30_000),
        starts=integers(2),
        ends=integers(2),
        lengths=torch.tensor(lengths, dtype=torch.int32),
        keys=floats(),
        values=floats(),
        landmarks=torch.randn((count, layout.landmark_size), generator=generator),
    )


def make_texts(
    pieces: Sequence[str], *, start: int = 0, page: int | None = None, section: str | None = None
) -> list[ChunkText]:
    """Texts that follow one another from `start`."""
    texts = []
    for piece in pieces:
        texts.append(ChunkText(start, piece, page, section))
        start += len(piece)
    return texts


def add_document(
    store: Store,
    number: int,
    pieces: Sequence[str],
    *,
    source: str | None = None,
    title: str | None = None,
    per_segment: int = 1_024,
    created: str | None = None,
) -> DocumentRow:
    """Read a document of one chunk per piece, finishing an interrupted one."""
    layout = store.layout
    assert layout is not None
    _IDS[number] = text_id(pieces)
    with store.begin_document(
        document_id=document_id(number),
        title=title or f"Title {number}",
        source=source or f"/docs/{number}.txt",
        media_type="text/plain",
    ) as writer:
        for begin in range(writer.committed_chunks, len(pieces), per_segment):
            part = pieces[begin : begin + per_segment]
            batch = make_batch(layout, [layout.chunk_tokens] * len(part), seed=begin)
            writer.append(batch, make_texts(part, start=writer.committed_characters))
        return writer.finish(places=[(0, None, None)], created=created)


def errors(store: Store) -> list[str]:
    """What `check` finds, without the harmless notes."""
    return [f"{f.kind} {f.where}: {f.message}" for f in store.check() if f.severity == "error"]


def segment_files(path: Path) -> list[Path]:
    """The segment files of a library."""
    return sorted((path / "segments").glob("*.seg"))
