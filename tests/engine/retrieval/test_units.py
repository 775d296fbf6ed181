"""Units of a document are read one by one, with their headers, and nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from drt_engine.retrieval import reader_pass
from drt_engine.retrieval.passages import Passage, read_windows
from drt_engine.store import Store
from tests.engine.answer.test_reading import reading_runtime
from tests.model_folder import library, read_text

LOG = "".join(f"07:{n:02} barge {n} entered\n" for n in range(10, 60))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with library(tmp_path / "library", reading_runtime()) as opened:
        yield opened


def windows(store: Store, folder: Path, name: str, margin: int = 8) -> list[Passage]:
    row = read_text(store, folder, name=name, text=LOG)
    found = read_windows(store, store.chunk_ids([row.id]), margin)
    return [Passage(**vars(window), score=0.0, probability=0.5, by="landmark") for window in found]


def test_each_token_is_of_its_record(store: Store, tmp_path: Path) -> None:
    window = windows(store, tmp_path, "a.log")[1]
    assert window.units is not None
    for start, unit in zip(window.starts[window.mask], window.units[window.mask], strict=True):
        line = LOG.rfind("\n", 0, int(start) + 1) + 1
        assert int(unit) == line


@pytest.mark.thorough
def test_records_in_the_margin_alone_are_left_out(store: Store, tmp_path: Path) -> None:
    window = windows(store, tmp_path, "a.log", margin=32)[1]
    own = (window.row.start, window.row.start + len(window.row.text))
    first = LOG.rfind("\n", 0, own[0]) + 1
    assert int(window.starts[window.mask].min()) == first
    assert int(window.ends[window.mask].max()) <= LOG.index("\n", own[1]) + 1


def test_text_without_records_has_none(store: Store, tmp_path: Path) -> None:
    row = read_text(store, tmp_path, name="a.txt", text="The barge entered the lock. " * 60)
    assert all(w.units is None for w in read_windows(store, store.chunk_ids([row.id]), 8))


@pytest.mark.thorough
def test_a_record_is_read_without_its_neighbours(store: Store, tmp_path: Path) -> None:
    passages = windows(store, tmp_path, "a.log", margin=32)
    numbers = {p.row.id: p.units[p.mask].unique() for p in passages if p.units is not None}
    passage = next(p for p in passages if len(numbers.get(p.row.id, ())) > 1)
    model = reading_runtime().model
    logits, tokens_read = reader_pass.read_passages(model, [5, 6, 7], [passage])
    assert passage.units is not None
    number = passage.units[passage.mask].unique()[1]
    alone = passage.mask & (passage.units == number)
    single = passage.token_numbers.masked_fill(~alone, -1)
    only, _ = reader_pass.read_passages(
        model, [5, 6, 7], [Passage(**vars(passage) | {"token_numbers": single, "units": None})]
    )
    assert torch.allclose(logits.start[0, alone], only.start[0, alone], atol=1e-4)
    assert logits.null.shape == (1, 2) and logits.types.shape[0] == 1 and tokens_read > 0


ROWS = "<table><tr><th>Room<th>Keeper<th>Age" + "".join(
    f"<tr><td>Room number {n}<td>Keeper of room {n}<td>{20 + n}" for n in range(30)
)


def test_a_row_is_read_with_the_names_of_its_columns(store: Store, tmp_path: Path) -> None:
    row = read_text(store, tmp_path, name="a.html", text=f"<html><body>{ROWS}</table>")
    text = "".join(store.iter_text(row.id))
    chunk_ids = store.chunk_ids([row.id])
    (window,) = read_windows(store, chunk_ids[1:2], 64)
    passage = Passage(**vars(window), score=0.0, probability=0.5, by="landmark")
    part = passage.parts()[1]
    start = int(passage.starts[part.mask].min())
    assert [name for _, name in part.headers] == ["Room:", "Keeper:", "Age:"]
    assert [text[at : at + 4] for at, _ in part.headers[:2]] == ["Room", "Keep"]
    assert part.headers[0][0] == start
    ids = {"Room:": [901], "Keeper:": [902, 903], "Age:": [904]}
    own = passage.token_ids[part.mask].tolist()
    written = reader_pass._with_headers(passage, part, ids)
    assert [written.ids[place] for place in written.places] == own
    inserted = [token for token in written.ids if token > 900]
    assert inserted == [901, 902, 903] and written.ids[0] == 901  # the last cell is cut off


@pytest.mark.thorough
def test_no_answer_is_in_a_header(store: Store, tmp_path: Path) -> None:
    row = read_text(store, tmp_path, name="a.html", text=f"<html><body>{ROWS}</table>")
    (window,) = read_windows(store, store.chunk_ids([row.id])[1:2], 8)
    passage = Passage(**vars(window), score=0.0, probability=0.5, by="landmark")
    model = reading_runtime().model
    ids = {"Room:": [10, 11], "Keeper:": [12], "Age:": [13]}
    with_names, tokens = reader_pass.read_passages(model, [5, 6], [passage], (), ids)
    without, fewer = reader_pass.read_passages(model, [5, 6], [passage])
    assert with_names.start.shape == without.start.shape == (1, len(passage.mask))
    assert torch.isfinite(with_names.start[0]).equal(passage.mask)
    whole = [part for part in passage.parts() if len(part.headers) == 3]
    assert tokens >= fewer + 3 * len(whole)
    assert not torch.allclose(with_names.start[0, passage.mask], without.start[0, passage.mask])
