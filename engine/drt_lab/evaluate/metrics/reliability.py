"""How often a probability came true: the table of a reliability plot, and the plot.

Plain numbers in; knows nothing of what the probability is of.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from drt_engine.errors import ConfigError
from drt_engine.store.filesystem.library_folder import expect_outside

BINS = 10


@dataclass(frozen=True)
class Bin:
    """Probabilities from ``low`` up to ``high``: their number, mean, and share that came true.

    The last two are ``None`` where there are none.
    """

    low: float
    high: float
    n: int
    predicted: float | None
    observed: float | None

    @property
    def name(self) -> str:
        """The bin as it is printed, 0.30-0.40."""
        return f"{self.low:.2f}-{self.high:.2f}"

    @property
    def noise(self) -> float | None:
        """Standard error of ``observed`` if ``predicted`` were exact; ``None`` where none are.

        A binomial share: sqrt(p (1 - p) / n). What is off by less than twice as much says nothing.
        """
        if self.predicted is None:
            return None
        return math.sqrt(self.predicted * (1 - self.predicted) / self.n)

    @property
    def row(self) -> dict[str, float | int | None]:
        """The bin as a row of a report."""
        return {
            "predicted": self.predicted,
            "observed": self.observed,
            "noise": self.noise,
            "n": self.n,
        }


def reliability(
    probabilities: Sequence[float], labels: Sequence[bool], *, bins: int = BINS
) -> list[Bin]:
    """Return bins of equal width over [0, 1], the last one closed.

    Raises ValueError on unequal lengths or probabilities outside [0, 1].
    """
    if len(probabilities) != len(labels) or not all(0 <= p <= 1 for p in probabilities):
        raise ValueError("expected as many labels as probabilities, all of those in [0, 1]")
    members: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    for probability, label in zip(probabilities, labels, strict=True):
        members[min(int(probability * bins), bins - 1)].append((probability, bool(label)))
    return [_bin(number, bins, bin_members) for number, bin_members in enumerate(members)]


def _bin(number: int, bins: int, members: Sequence[tuple[float, bool]]) -> Bin:
    low, high, n = number / bins, (number + 1) / bins, len(members)
    if not n:
        return Bin(low, high, 0, None, None)
    return Bin(low, high, n, sum(p for p, _ in members) / n, sum(y for _, y in members) / n)


def expected_error(bins: Sequence[Bin]) -> float:
    """Return the mean distance of predicted and observed, by the numbers in the bins."""
    filled_bins = [(b.n, b.predicted, b.observed) for b in bins if b.n]
    total = sum(n for n, _, _ in filled_bins)
    return sum(n * abs((p or 0.0) - (o or 0.0)) for n, p, o in filled_bins) / total


def check_plot(file: Path) -> None:
    """Raise ConfigError where no plot can be drawn to ``file``, before anything is measured."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ConfigError(
            "a plot is drawn by matplotlib, which is not installed; "
            'install it with `pip install "drt-assistant[plot]"`'
        )
    if not file.parent.is_dir():
        raise ConfigError(f"{file.parent} is not a folder, expected one to write {file.name} to")
    expect_outside(file)


def plot_reliability(tables: Mapping[str, Sequence[Bin]], file: Path, *, title: str) -> None:
    """Draw predicted against observed with the counts below.

    Raises ``ConfigError`` for a file that matplotlib cannot write.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0, 5.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    upper.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    width = 1 / BINS / (len(tables) + 1)
    for number, (name, bins) in enumerate(tables.items()):
        filled_bins = [b for b in bins if b.n]
        label = f"{name}, error {expected_error(bins):.3f}"
        seen = [b.predicted for b in filled_bins], [b.observed for b in filled_bins]
        upper.plot(*seen, marker="o", markersize=4, linewidth=1.2, label=label)
        shift = (number + 1) * width
        lower.bar([b.low + shift for b in bins], [b.n for b in bins], width=width)
    upper.set(title=title, ylabel="observed share", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    upper.legend(fontsize=8, loc="upper left")
    lower.set(xlabel="predicted", ylabel="answers")
    try:
        figure.savefig(file, dpi=130)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be drawn ({error}); name a .png or .svg file") from error
