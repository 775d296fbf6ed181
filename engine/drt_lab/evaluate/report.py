"""Results of ``drt eval`` and ``drt bench``: dataclasses, their JSON, and plain-text tables.

Knows nothing of how a number was measured.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from drt_engine.errors import WeightsError

# A metric is a number, None where it is not defined, or a group of metrics ("hybrid": {"hit@8"}).
Number: TypeAlias = float | int | None
Metrics: TypeAlias = Mapping[str, Number | Mapping[str, Number]]
Groups: TypeAlias = Mapping[str, Metrics]

_Row: TypeAlias = tuple[str, str, Mapping[str, Number]]  # group, system, flat metrics

_COUNTS = ("n", "n_answerable", "n_unanswerable")


@dataclass(frozen=True)
class EvalReport:
    """What one evaluation measured; ``metrics`` by group, ``baselines`` by name and group.

    ``sources`` are the sources of answers that were not switched off, where the task can do that.

    Raises ``WeightsError`` for a metric that is no finite number.
    """

    task: str
    data: str
    n: int
    metrics: Groups
    seconds: float
    model: str
    baselines: Mapping[str, Groups] = field(default_factory=dict)
    sources: Sequence[str] | None = None

    def __post_init__(self) -> None:
        try:
            for groups in (self.metrics, *self.baselines.values()):
                for group, metrics in groups.items():
                    _check_finite(f"{self.task} {group}", metrics)
        except ValueError as error:
            raise WeightsError(
                f"{error}; the model's weights give none, as after a training that diverged"
            ) from None

    def to_dict(self) -> dict[str, object]:
        """Return the documented JSON object."""
        return {
            "task": self.task,
            "data": self.data,
            "n": self.n,
            "metrics": _plain(self.metrics),
            "baselines": {name: _plain(groups) for name, groups in self.baselines.items()},
            "seconds": self.seconds,
            "model": self.model,
            **({} if self.sources is None else {"sources": list(self.sources)}),
        }

    def as_table(self) -> str:
        """Return a heading line and one row for each group and system.

        Groups that share no metric with those before them get a table of their own.
        """
        heading = f"{self.task} on {self.data}: {self.n} cases, {self.seconds:.1f} s"
        tables: list[tuple[list[str], list[_Row]]] = []
        for group, system, metrics in self._rows():
            values = dict(_flat(metrics))
            columns, rows = next(
                (t for t in tables if not values.keys().isdisjoint(t[0])), ([], [])
            )
            if not rows:
                tables.append((columns, rows))
            columns += [name for name in values if name not in columns]
            rows.append((group, system, values))
        return "\n".join([heading, *(line for table in tables for line in _table(*table))])

    def _rows(self) -> Iterator[tuple[str, str, Metrics]]:
        systems = [(self.model, self.metrics), *self.baselines.items()]
        for group in dict.fromkeys(group for _, groups in systems for group in groups):
            for name, groups in systems:
                if group in groups:
                    yield group, name, groups[group]


@dataclass(frozen=True)
class BenchRow:
    """One timing: its median and interquartile range in ``unit``, and its ratio to ``against``."""

    name: str
    median: float
    iqr: float
    unit: str
    against: str | None = None
    ratio: float | None = None

    def __post_init__(self) -> None:
        _check_finite(self.name, {"median": self.median, "iqr": self.iqr, "ratio": self.ratio})
        if (self.against is None) != (self.ratio is None):
            raise ValueError(
                f"{self.name}: got against={self.against!r} and ratio={self.ratio!r}, "
                "expected both or neither"
            )

    def to_dict(self) -> dict[str, object]:
        """Return the row of the documented JSON object."""
        return {
            "name": self.name,
            "median": self.median,
            "iqr": self.iqr,
            "unit": self.unit,
            "against": self.against,
            "ratio": self.ratio,
        }


@dataclass(frozen=True)
class BenchReport:
    """What one bench measured; ``calibration`` holds what the same run timed for comparison."""

    bench: str
    rows: Sequence[BenchRow]
    seconds: float
    model: str
    calibration: Mapping[str, Number] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_finite(f"{self.bench} calibration", self.calibration)

    def to_dict(self) -> dict[str, object]:
        """Return the documented JSON object."""
        return {
            "bench": self.bench,
            "rows": [row.to_dict() for row in self.rows],
            "calibration": dict(self.calibration),
            "seconds": self.seconds,
            "model": self.model,
        }

    def as_table(self) -> str:
        """Return a heading line, one row for each timing, and the calibration."""
        lines = [["name", "median", "iqr", "unit", "ratio", "against"]]
        for row in self.rows:
            ratio = "-" if row.ratio is None else f"{row.ratio:.3f}"
            shown = [row.name, f"{row.median:.4g}", f"{row.iqr:.2g}", row.unit, ratio]
            lines.append([*shown, row.against or "-"])
        heading = f"{self.bench} with {self.model}: {self.seconds:.1f} s"
        notes = [f"calibration {name}: {_shown('', v)}" for name, v in self.calibration.items()]
        return "\n".join([heading, *_aligned(lines, left=1), *notes])


def median_iqr(values: Sequence[float]) -> tuple[float, float]:
    """Return the median and the interquartile range (linear between the order statistics).

    Raises ValueError where there are no values.
    """
    if not values:
        raise ValueError("got no values, expected at least one to take the median of")
    if len(values) == 1:
        return values[0], 0.0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return middle, high - low


def bench_row(
    name: str,
    values: Sequence[float],
    *,
    unit: str,
    against: str | None = None,
    against_values: Sequence[float] = (),
) -> BenchRow:
    """Return the row of repeated timings; the ratio is the median over the other's median.

    Raises ValueError where there are no values, or the other's median is 0.
    """
    middle, spread = median_iqr(values)
    if against is None:
        return BenchRow(name, middle, spread, unit)
    reference_median, _ = median_iqr(against_values)
    if not reference_median:
        raise ValueError(f"{name}: the median of {against} is 0, expected a positive one")
    return BenchRow(name, middle, spread, unit, against, middle / reference_median)


def _flat(metrics: Metrics) -> Iterator[tuple[str, Number]]:
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            yield from ((f"{name} {inner}", number) for inner, number in value.items())
        else:
            yield name, value


def _check_finite(where: str, metrics: Metrics) -> None:
    """JSON has no NaN or infinity; None says that a metric is not defined."""
    for name, value in _flat(metrics):
        if value is not None and not math.isfinite(value):
            raise ValueError(f"{where}: {name} is {value}, expected a finite number or None")


def _plain(groups: Groups) -> dict[str, dict[str, object]]:
    return {
        group: {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in metrics.items()
        }
        for group, metrics in groups.items()
    }


def _table(columns: Sequence[str], rows: Sequence[_Row]) -> list[str]:
    lines = [["group", "system", *columns]]
    for group, name, values in rows:
        lines.append([group, name, *(_shown(c, values.get(c)) for c in columns)])
    return _aligned(lines, left=2)


def _shown(name: str, value: Number) -> str:
    if value is None:
        return "-"
    if isinstance(value, int) or name.rsplit(" ", 1)[-1] in _COUNTS:
        return str(value)
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:.4g}"


def _aligned(lines: Sequence[Sequence[str]], *, left: int) -> list[str]:
    """Pad cells to columns: the first ``left`` columns to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = (
        [
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        for line in lines
    )
    return ["  ".join(cells).rstrip() for cells in padded]
