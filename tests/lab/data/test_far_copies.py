"""Far copies and shared trigrams, against what a reader of the text would count."""

from __future__ import annotations

import random

import pytest
import torch

from drt_lab.data.far_copies import SharedTrigrams, far_copies


def counted(ids: list[int], window: int, chunk: int) -> list[int]:
    """The definition, place by place."""
    places = []
    for at in range(3, len(ids)):
        context = ids[at - 3 : at]
        starts = [at - i for i in range(3, at) if ids[i - 3 : i] == context]
        same = [d for d in starts if ids[at - d] == ids[at]]
        if any(d > window + chunk for d in same) and not any(d <= window for d in starts):
            places.append(at)
    return places


@pytest.mark.parametrize(("window", "chunk"), [(5, 4), (16, 8)])
def test_far_copies_are_those_of_the_definition(window: int, chunk: int) -> None:
    rng = random.Random(window)
    for length in (0, 3, 4, 200):
        ids = [rng.randrange(3) for _ in range(length)]
        far = far_copies(ids, window=window, chunk=chunk)
        assert far.nonzero()[:, 0].tolist() == counted(ids, window, chunk)


def test_a_copy_counts_beyond_the_window_alone() -> None:
    passage, between = [9, 8, 7, 6], list(range(100, 140))
    ids = [*passage, *between, *passage]
    assert far_copies(ids, window=16, chunk=8).nonzero().flatten().tolist() == [len(ids) - 1]
    assert not far_copies(ids, window=40, chunk=8).any()  # its distance is 44
    # Another token followed: nothing to copy.
    assert not far_copies([*ids[:-1], 5], window=16, chunk=8).any()
    # It stands within the window, too.
    assert not far_copies([*ids, 1, 2, *passage], window=16, chunk=8)[-1]


def test_chunks_share_what_stands_in_both() -> None:
    a, b, c = [1, 2, 3, 4], [5, 6, 7, 8], [9, 1, 2, 3]
    shared = SharedTrigrams([*a, *b, *b, *c, 3, 3], 4)
    assert shared.chunks == 5
    # Chunk 3 follows chunk 2 and shares "1 2 3" with chunk 0; chunk 2 is as chunk 1 is.
    assert shared.row(2, 2).tolist() == pytest.approx([torch.tensor(1 + 5 / 2).log().item(), 0])
    assert shared.row(1, 1).tolist() == [0]  # what follows chunk 1 is chunk 1 again, not before it
    assert shared.row(3, 3).tolist() == [0, 0, 0]
    assert shared.labels().nonzero().tolist() == [[2, 0]]


def test_rare_trigrams_count_more_and_later_chunks_win_ties() -> None:
    often, rare = [1, 2, 3, 0], [4, 5, 6, 7]
    ids = [*rare, *often, *often, *often, *often, 4, 5, 6, 9, *often, *rare]
    shared = SharedTrigrams(ids, 4)
    row = shared.row(5, 5)  # the next chunk is "often"
    assert row[1] == row[4] > 0 == row[0]
    order = shared.ranking(0, torch.tensor([5]), 5)[0].argsort(descending=True)
    assert order.tolist() == [4, 3, 2, 1, 0]
    # "4 5 6" of the last chunk stands in three chunks of eight, "1 2 3" in five.
    assert shared.row(6, 6)[0] > row[1]
    assert shared.labels()[6].nonzero().flatten().tolist() == [0]  # all of it; chunk 5 has half...


def test_the_last_chunk_knows_nothing_of_what_follows() -> None:
    shared = SharedTrigrams([1, 2, 3, 1, 2, 3], 3)
    assert shared.row(1, 1).tolist() == [0]
    assert not shared.labels().any()
    assert not SharedTrigrams([], 4).labels().any()
