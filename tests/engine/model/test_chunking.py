"""Chunk arithmetic."""

from __future__ import annotations

import torch

from drt_engine.model.chunking import insert_landmarks, shift_chunks

YES, NO = True, False


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
