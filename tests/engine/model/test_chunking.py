"""Chunk arithmetic."""

from __future__ import annotations

import torch

from drt_engine.model.chunking import (
    chunk_count,
    insert_landmarks,
    next_token_targets,
    shift_chunks,
    to_chunks,
)
from tests.tables import each_row

YES, NO = True, False


@each_row(("tokens", "count"), [(0, 0), (1, 1), (3, 1), (4, 2), (6, 2), (7, 3)])
def test_chunk_count(tokens: int, count: int) -> None:
    assert chunk_count(tokens, 3) == count


def test_chunks_are_padded_at_the_end() -> None:
    chunks, valid = to_chunks(torch.tensor([[5, 6, 7, 8]]), 3, 0)
    assert chunks.tolist() == [[[5, 6, 7], [8, 0, 0]]]
    assert valid.tolist() == [[[YES, YES, YES], [YES, NO, NO]]]


def test_whole_chunks_are_not_padded() -> None:
    chunks, valid = to_chunks(torch.arange(6), 3, 9)
    assert chunks.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert valid.all()


def test_a_landmark_follows_each_chunk() -> None:
    chunks = torch.tensor([[[5, 6], [7, 8]]])
    assert insert_landmarks(chunks, 1).tolist() == [[[5, 6, 1], [7, 8, 1]]]
    mask = insert_landmarks(torch.tensor([[[YES, NO]]]), True)
    assert mask.tolist() == [[[YES, NO, YES]]]


def test_what_a_chunk_found_serves_the_next() -> None:
    found = torch.tensor([[[1, 2], [3, 4], [5, 6]]])
    assert shift_chunks(found).tolist() == [[[0, 0], [1, 2], [3, 4]]]
    scores = shift_chunks(torch.tensor([[0.5, 2.0]]), float("-inf"))
    assert scores.tolist() == [[float("-inf"), 0.5]]


def test_targets_skip_landmarks() -> None:
    targets, mask = next_token_targets(torch.tensor([[[5, 6], [7, 8]]]), torch.ones(1, 2, 2) > 0)
    # The last token of a chunk is followed by the first of the next; the landmark has no target.
    assert targets[mask].tolist() == [6, 7, 8]
    assert mask.tolist() == [[[YES, YES, NO], [YES, NO, NO]]]
    assert targets.shape == (1, 2, 3)


def test_padding_has_no_target_and_is_none() -> None:
    ids = torch.tensor([[[5, 6], [7, 0]]])
    valid = torch.tensor([[[YES, YES], [YES, NO]]])
    targets, mask = next_token_targets(ids, valid)
    assert targets[mask].tolist() == [6, 7]
    assert mask.tolist() == [[[YES, YES, NO], [NO, NO, NO]]]
