"""Metrics of a run: JSON lines, running means, and the loss plot."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path


class Metrics:
    """Collects values between log lines and appends their means to ``metrics.jsonl``."""

    def __init__(self, run: Path) -> None:
        self.path = run / "metrics.jsonl"
        self.sums: dict[str, tuple[float, int]] = {}  # of the values, and how many there were
        self._start = time.monotonic()
        if self.path.exists() and not self.path.read_bytes().endswith(b"\n"):
            with self.path.open("a", encoding="utf-8") as file:
                file.write("\n")  # ends a line that a crash cut

    def add(self, **values: float) -> None:
        """Add one step's values."""
        for key, value in values.items():
            self._add(key, value, 1)

    def merge(self, sums: Sequence[dict[str, tuple[float, int]]]) -> None:
        """Replace what was added here by what was added on every rank."""
        self.clear()
        for of_rank in sums:
            for key, (total, count) in of_rank.items():
                self._add(key, total, count)

    def clear(self) -> None:
        """Forget what was added."""
        self.sums = {}

    def _add(self, key: str, total: float, count: int) -> None:
        before = self.sums.get(key, (0.0, 0))
        self.sums[key] = (before[0] + total, before[1] + count)

    def write(self, step: int, **extra: float) -> dict[str, float]:
        """Append a line with the means since the last one, and return it.

        JSON has no NaN and no infinity; they are written as ``null``.
        """
        row = {key: total / count for key, (total, count) in self.sums.items()}
        row = {"step": step, **{k: round(v, 5) for k, v in (row | extra).items()}}
        row["seconds"] = round(time.monotonic() - self._start, 1)
        line = {key: value if math.isfinite(value) else None for key, value in row.items()}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")
        self.clear()
        return row


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Return the rows of ``metrics.jsonl``, ``null`` as NaN, without lines that a crash cut."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        rows.append({k: math.nan if value is None else value for k, value in row.items()})
    return rows


def plot(run: Path) -> Path | None:
    """Draw the losses of a run to ``loss.png``; ``None`` where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    rows = read_metrics(run / "metrics.jsonl")
    keys = sorted({k for row in rows for k in row} - {"step", "seconds", "lr", "norm"})
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for key in keys:
        points = [(row["step"], row[key]) for row in rows if key in row]
        axes.plot([p[0] for p in points], [p[1] for p in points], label=key, linewidth=1)
    axes.set_xlabel("step")
    axes.set_ylabel("loss or share")
    axes.legend(fontsize=8)
    figure.savefig(run / "loss.png", dpi=110)
    return run / "loss.png"
