"""What is written is what is read, for both encodings and awkward sizes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drt_engine.errors import ConfigError, StoreError
from drt_engine.store import ChunkBatch, RecordLayout, Store
from drt_engine.store.segments import open_files
from drt_engine.store.segments import reader as reader_module
from drt_engine.store.segments import writer as writer_module
from drt_engine.store.segments.writer import quantise
from tests.engine.store.helpers import (
    BF16,
    INT8,
    add_document,
    document_id,
    errors,
    make_batch,
    make_texts,
    open_store,
    segment_files,
    text_id,
)
from tests.tables import each_row

SIZES = {
    "one token": [1],
    "one chunk": [4],
    "last partial": [4, 4, 3],
    "empty chunk": [4, 0, 2],
    "many": [4] * 130 + [1],
}


def write(store: Store, batch: ChunkBatch, *, number: int = 1) -> None:
    pieces = [f"document {number} chunk {i} " for i in range(len(batch.lengths))]
    with store.begin_document(
        document_id=text_id(pieces), title="T", source=f"s{number}", media_type="text/plain"
    ) as writer:
        writer.append(batch, make_texts(pieces))
        writer.finish(places=[])


def assert_equal_chunks(expected: ChunkBatch, actual: ChunkBatch, layout: RecordLayout) -> None:
    """Integers exactly, landmarks as fp16, memory within the encoding's error."""
    used = torch.arange(layout.chunk_tokens) < expected.lengths.unsqueeze(1)
    assert torch.equal(actual.lengths, expected.lengths)
    assert torch.equal(actual.landmarks, expected.landmarks.half().float())
    for name in ("ids", "starts", "ends"):
        assert torch.equal(getattr(actual, name), getattr(expected, name) * used), name
    for name in ("keys", "values"):
        wanted = getattr(expected, name).masked_fill(~used[..., None, None], 0.0)
        numbers = getattr(actual, name)
        assert numbers.dtype == torch.float32
        if layout.encoding == "bf16":
            assert torch.equal(numbers, wanted.bfloat16().float()), name
        else:
            step = wanted.abs().amax(dim=-1, keepdim=True) / 127 * (1 + 2**-10)
            assert ((numbers - wanted).abs() <= step / 2).all(), name


@pytest.mark.parametrize("layout", [INT8, BF16], ids=lambda layout: layout.encoding)
@pytest.mark.parametrize("lengths", SIZES.values(), ids=SIZES.keys())
def test_round_trip(library: Path, layout: RecordLayout, lengths: list[int]) -> None:
    batch = make_batch(layout, lengths)
    with open_store(library, layout) as store:
        write(store, batch)
        ids = store.chunk_ids()
        assert store.documents()[0].tokens == sum(lengths)
        assert_equal_chunks(batch, store.read_chunks(ids), layout)
        scanned = list(store.scan_landmarks())
        assert [i for part, _ in scanned for i in part] == ids
        assert torch.equal(torch.cat([part for _, part in scanned]), batch.landmarks.half())
        assert errors(store) == []


def test_reads_in_the_order_asked_for_across_documents(store: Store) -> None:
    first, second = make_batch(INT8, [4, 4, 2], seed=1), make_batch(INT8, [4] * 140, seed=2)
    write(store, first, number=1)
    write(store, second, number=2)
    documents = [row.id for row in store.documents()]
    ids = store.chunk_ids(documents[1:])
    assert store.chunk_ids(documents[::-1]) == store.chunk_ids()
    mixed = store.read_chunks([ids[139], 1, ids[0], ids[139]])
    assert torch.equal(mixed.ids[0], second.ids[139])
    assert torch.equal(mixed.ids[1], first.ids[0])
    assert torch.equal(mixed.ids[2], second.ids[0])
    assert torch.equal(mixed.keys[3], mixed.keys[0])
    assert len(store.read_chunks([]).ids) == 0


def test_more_than_a_segment_is_split(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "MAX_SEGMENT_CHUNKS", 3)
    batch = make_batch(INT8, [4] * 7)
    write(store, batch)
    assert len(segment_files(store.path)) == 3
    assert_equal_chunks(batch, store.read_chunks(store.chunk_ids()), INT8)


def test_small_documents_are_scanned_together(store: Store) -> None:
    for number in range(1, 13):
        add_document(store, number, ["one ", f"two {number} "])
    assert [len(ids) for ids, _ in store.scan_landmarks()] == [24]
    kept = [document_id(3), document_id(9)]
    [(ids, landmarks)] = store.scan_landmarks(kept)
    assert ids == store.chunk_ids(kept)
    assert landmarks.shape == (4, INT8.landmark_size)
    assert torch.equal(landmarks.float(), store.read_chunks(ids).landmarks)


def test_open_files_are_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_files, "MAX_OPEN", 2)
    monkeypatch.setattr(reader_module, "MAX_COPIED_BYTES", 100)
    batches = [make_batch(INT8, [4] * n, seed=n) for n in (128, 129, 130, 131, 5, 6)]
    for number, batch in enumerate(batches, start=1):
        write(store, batch, number=number)
    wanted = torch.cat([batch.landmarks for batch in batches]).half()
    for _ in range(2):
        held = list(store.scan_landmarks())
        reader = store._opened_reader()
        assert reader._copied_bytes <= 100
        assert torch.equal(torch.cat([landmarks for _, landmarks in held]), wanted)
    ids = store.chunk_ids()
    assert torch.equal(store.read_chunks(ids).landmarks, wanted.float())
    assert len(reader._files) == 2


def test_padding_never_reaches_the_disk(tmp_path: Path) -> None:
    data = []
    for name, padding in (("a", float("nan")), ("b", 5.0)):
        with open_store(tmp_path / name) as store:
            write(store, make_batch(INT8, [2, 3], padding=padding))
        data.append(segment_files(tmp_path / name)[0].read_bytes())
    assert data[0] == data[1]


@pytest.mark.thorough
@settings(max_examples=80, deadline=None)
@given(st.lists(st.floats(-5e6, 5e6, width=32), min_size=1, max_size=9))
def test_int8_is_within_half_a_step(numbers: list[float]) -> None:
    tensor = torch.tensor([numbers])
    integers, scales = quantise(tensor)
    step = scales.double().unsqueeze(-1)
    largest = tensor.abs().max().item()
    off = (integers.double() * step - tensor.double()).abs()
    assert (off <= step / 2 * (1 + 1e-6) + 1e-40).all()
    assert step.item() <= max(largest / 127 * (1 + 2**-10), 2**-14 / 1024 + largest / 127)


@pytest.mark.parametrize("name", ["keys", "values", "landmarks"])
@pytest.mark.parametrize("layout", [INT8, BF16], ids=lambda layout: layout.encoding)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_refused(
    library: Path, name: str, layout: RecordLayout, bad: float
) -> None:
    batch = make_batch(layout, [4, 4])
    getattr(batch, name).view(-1)[-1] = bad
    with open_store(library, layout) as store:
        with pytest.raises(StoreError, match="not finite"):
            write(store, batch)
        assert segment_files(library) == []
        assert errors(store) == []


def test_wrong_shapes_and_texts_are_refused(store: Store) -> None:
    batch = make_batch(INT8, [4, 4])
    with store.begin_document(
        document_id=text_id(["a", "b"]), title="T", source="s", media_type="text/plain"
    ) as writer:
        with pytest.raises(ValueError, match="expected"):
            writer.append(batch, make_texts(["only one"]))
        with pytest.raises(ValueError, match="starts at 5, expected 0"):
            writer.append(batch, make_texts(["a", "b"], start=5))
        with pytest.raises(ValueError, match=r"U\+0000"):
            writer.append(batch, make_texts(["a", "\0"]))
        with pytest.raises(ValueError, match="no chunks"):
            writer.finish(places=[])
        writer.append(batch, make_texts(["a", "b"]))
        with pytest.raises(ValueError, match="increasing"):
            writer.finish(places=[(0, 1, None), (0, 2, None)])
        writer.finish(places=[(0, 1, None)])
        with pytest.raises(ValueError, match="closed"):
            writer.append(batch, make_texts(["a", "b"], start=2))
    with pytest.raises(ValueError, match="hexadecimal"):
        store.begin_document(document_id="../x", title="T", source="s", media_type="t")
    assert [row.chunks for row in store.documents()] == [2]


@each_row("change", [{"kv_heads": 0}, {"head_size": 1 << 20}, {"encoding": "fp8"}])
def test_impossible_layouts_are_refused(change: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="expected"):
        RecordLayout(**{**vars(INT8), **change})


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="no smaps")
def test_going_through_a_document_keeps_no_page_of_it(store: Store) -> None:
    add_document(store, 1, [f"piece {i} " for i in range(300)], per_segment=150)
    ids = store.chunk_ids()
    few = store.read_tokens(ids[:3])
    whole = store.read_tokens(ids)
    assert resident(store) == 0
    assert torch.equal(store.read_tokens(ids[:3]).ids, few.ids)
    assert torch.equal(whole.ids[:3], few.ids)


def resident(store: Store) -> int:
    """Kilobytes of the library's segments that count as this process's memory."""
    found, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = str(store.path / "segments") in line
        elif inside and line.startswith("Rss:"):
            found += int(line.split()[1])
    return found


@pytest.mark.slow
def test_works_without_numpy_and_without_a_warning(tmp_path: Path) -> None:
    code = (
        "import sys, warnings; sys.modules['numpy'] = None\n"
        "from pathlib import Path\n"
        "with warnings.catch_warnings():\n"
        "    warnings.simplefilter('ignore')  # importing torch itself asks for numpy\n"
        "    import torch\n"
        "warnings.simplefilter('error')\n"
        "from tests.engine.store.helpers import add_document, errors, open_store\n"
        f"with open_store(Path({str(tmp_path / 'l')!r})) as store:\n"
        "    add_document(store, 1, ['a '] * 200)\n"
        "    store.read_chunks(store.chunk_ids()); list(store.scan_landmarks())\n"
        "    assert errors(store) == []\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[3], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
