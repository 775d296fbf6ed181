"""Streams of tokens are cut into chunks."""

from __future__ import annotations

import torch

from drt_lab.data.chunks import chunk_count, to_chunks
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
