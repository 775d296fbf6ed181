"""The benchmark of exact and approximate scans, as small as it can be made."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from drt_lab.bench import index
from drt_lab.bench.run import bench


def test_made_up_landmarks_are_alike_in_topics(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "clustered"
    rows = index.made_up_landmarks(path, 200, 16, clustered=True)
    again = index.made_up_landmarks(path, 200, 16, clustered=True)
    assert torch.equal(rows, again) and rows.shape == (200, 16)
    cosines = rows.float() @ rows.float().T
    assert cosines.diag().sub(1).abs().max() < 1e-2
    neighbours = cosines[:15, 1:16].diagonal().mean()  # of one topic
    assert neighbours > cosines.mean() + 0.2


@pytest.mark.thorough
def test_rows_of_both_kinds(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    options = {"tokens": 64 * 700, "repetitions": 5, "folder": tmp_path, "shards": 2}
    report = bench("index", {**options, "device": "cpu"})
    rows = {row["name"]: row["median"] for row in report["rows"]}
    for kind in (index.CLUSTERED, index.RANDOM):
        assert rows[f"{kind}: index"] > 0 and rows[f"{kind}: exact scan, 2 shards"] > 0
        recalls = [value for name, value in rows.items() if kind in name and "recall" in name]
        assert recalls == sorted(recalls) and 0 < recalls[-1] <= 1
    assert not list((tmp_path / "segments").iterdir())
