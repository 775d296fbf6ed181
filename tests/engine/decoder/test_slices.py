"""Constrained decoding finds the most probable slices, with every place where they are."""

from __future__ import annotations

import math

import pytest
import torch

from drt_engine.decoder.model import Reading, RetrievalDecoder
from drt_engine.decoder.slices import (
    Search,
    Slice,
    best_slices,
    judged,
    log_probability,
    open_answer,
)
from tests.engine.decoder.tiny import TINY, chunk_states, spread_decoder

END = TINY.end_id
PROMPT = (7, 8, 9)
SEQUENCES = ((10, 11, 12, 10, 11), (11, 12, 13))


@pytest.fixture(scope="module")
def model() -> RetrievalDecoder:
    return spread_decoder()


@pytest.fixture(scope="module")
def reading(model: RetrievalDecoder) -> Reading:
    with torch.no_grad():
        ids = torch.tensor([[10, 11, 12, 10, 11, 2, 2, 2], [11, 12, 13, 2, 2, 2, 2, 2]])
        mask = torch.tensor([[True] * 5 + [False] * 3, [True] * 3 + [False] * 5])
        memory = model.remember(chunk_states(model, ids), mask)
    return Reading(memory, torch.tensor([[0, 1]]), torch.tensor([[-0.5, -1.0]]))


def slices_of(model: RetrievalDecoder, reading: Reading, search: Search) -> list[Slice]:
    opened = open_answer(model, PROMPT, reading)
    starts = [len(ids) for ids in SEQUENCES]
    return best_slices(model, opened, SEQUENCES, starts=starts, end_id=END, search=search)


def places() -> dict[tuple[int, ...], list[tuple[int, int]]]:
    """All slices of at most four tokens, each with its places."""
    found: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for number, ids in enumerate(SEQUENCES):
        for first in range(len(ids)):
            for stop in range(first + 1, min(len(ids), first + 4) + 1):
                found.setdefault(tuple(ids[first:stop]), []).append((number, first))
    return found


@torch.no_grad()
def probability_of(model: RetrievalDecoder, reading: Reading, slice_ids: tuple[int, ...]) -> float:
    whole = torch.tensor([[*PROMPT, *slice_ids]])
    logits = model.logits(model(whole, reading))[0, len(PROMPT) - 1 :]
    steps = logits.log_softmax(-1)
    return sum(float(steps[n, t]) for n, t in enumerate([*slice_ids, END]))


@torch.no_grad()
def test_a_wide_search_finds_the_best_slices_of_all(
    model: RetrievalDecoder, reading: Reading
) -> None:
    search = Search(prefixes=50, slices=50, longest=4, at_once=2, range=math.inf)
    found = slices_of(model, reading, search)
    expected = sorted(places(), key=lambda ids: -probability_of(model, reading, ids))
    assert [f.ids for f in found] == expected
    for one in found:
        assert sorted(one.places) == sorted(places()[one.ids])
        assert one.log_probability == pytest.approx(
            probability_of(model, reading, one.ids), abs=1e-4
        )


@torch.no_grad()
def test_a_narrow_search_returns_whole_slices_only(
    model: RetrievalDecoder, reading: Reading
) -> None:
    found = slices_of(model, reading, Search(prefixes=2, slices=3, longest=3))
    assert found
    assert {f.ids for f in found} <= places().keys()
    assert [f.log_probability for f in found] == sorted(
        (f.log_probability for f in found), reverse=True
    )


@torch.no_grad()
def test_nothing_to_quote_gives_no_slice(model: RetrievalDecoder) -> None:
    opened = open_answer(model, PROMPT, None)
    assert best_slices(model, opened, [()], starts=[0], end_id=END) == []


@torch.no_grad()
def test_slices_begin_where_they_may(model: RetrievalDecoder, reading: Reading) -> None:
    opened = open_answer(model, PROMPT, reading)
    search = Search(prefixes=50, slices=50, longest=4, at_once=2, range=math.inf)
    found = best_slices(model, opened, SEQUENCES, starts=[2, 0], end_id=END, search=search)
    assert {place for one in found for place in one.places} == {(0, 0), (0, 1)}
    assert any(one.ids == (11, 12, 10, 11) for one in found)


@torch.no_grad()
def test_a_text_of_the_decoders_own_has_its_probability(
    model: RetrievalDecoder, reading: Reading
) -> None:
    opened = open_answer(model, PROMPT, reading)
    expected = probability_of(model, reading, (40, 41))
    assert log_probability(model, opened, (40, 41, END)) == pytest.approx(expected, abs=1e-4)


@torch.no_grad()
def test_each_chunk_is_judged_as_if_it_were_alone(
    model: RetrievalDecoder, reading: Reading
) -> None:
    odds = judged(model, reading.memory, PROMPT, (40, 41, END))
    assert odds.shape == (len(reading.memory.mask),)
    for chunk, found in enumerate(odds):
        alone = Reading(reading.memory, torch.tensor([[chunk]]), torch.zeros(1, 1))
        null = probability_of(model, alone, (40, 41))
        assert float(found) == pytest.approx(math.log(1 - math.exp(null)) - null, abs=1e-3)
