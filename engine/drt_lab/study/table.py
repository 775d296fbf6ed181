"""The table of a study: a row for each run, a column for each measured group, over all seeds."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drt_engine.errors import ConfigError
from drt_lab.study.spec import EvaluationSpec, StudySpec, nearest

Results = Mapping[tuple[str, int, str], Mapping[str, Any]]  # by run, seed and evaluation


@dataclass(frozen=True)
class Column:
    """``metric`` of one ``group`` of an evaluation."""

    evaluation: str
    group: str
    metric: str

    @property
    def name(self) -> str:
        """What the column is called, in ``paper`` and ``quoted`` values too."""
        return f"{self.evaluation} {self.group}"


@dataclass(frozen=True)
class Cell:
    """What each seed of the row measured, in the order of its seeds; ``None`` before it did."""

    values: tuple[float | None, ...] = ()
    paper: float | None = None

    @property
    def measured(self) -> tuple[float, ...]:
        """The values that there are."""
        return tuple(value for value in self.values if value is not None)

    @property
    def mean(self) -> float | None:
        """The mean over seeds."""
        return statistics.fmean(self.measured) if self.measured else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation over seeds (n - 1); none for fewer than two."""
        return statistics.stdev(self.measured) if len(self.measured) > 1 else None

    def shown(self) -> str:
        """Return mean and deviation as text, and what the paper reports."""
        text = "-" if self.mean is None else _number(self.mean)
        if self.deviation is not None:
            text += f" ± {_number(self.deviation)}"
        return text if self.paper is None else f"{text} (paper {self.paper:g})"


@dataclass(frozen=True)
class Row:
    """The cells of one run; ``source`` for a row that is quoted."""

    name: str
    cells: tuple[Cell, ...]
    seeds: tuple[int, ...] = ()
    source: str | None = None


@dataclass(frozen=True)
class Table:
    """All rows of a study."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def as_markdown(self) -> str:
        """Return the title and a Markdown table: means, with the deviation over seeds."""
        lines = [f"# {self.title}", "", _line(["run", *(c.name for c in self.columns)])]
        lines.append("| --- |" + " ---: |" * len(self.columns))
        for row in self.rows:
            name = row.name if row.source is None else f"{row.name} (quoted: {row.source})"
            lines.append(_line([name, *(cell.shown() for cell in row.cells)]))
        metrics = {c.evaluation: c.metric for c in self.columns}
        counts = sorted({len(row.seeds) for row in self.rows if row.source is None})
        seeds = " to ".join(map(str, dict.fromkeys([counts[0], counts[-1]])))
        notes = [f"{evaluation}: {metric}" for evaluation, metric in metrics.items()]
        notes.append(f"mean ± standard deviation over {seeds} seed{'s' if seeds != '1' else ''}")
        return "\n".join([*lines, "", "; ".join(notes) + ".", ""])

    def as_csv(self) -> str:
        """Return a line for every number: run, seed, evaluation, group, metric, value."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["run", "seed", "evaluation", "group", "metric", "value"])
        for row in self.rows:
            for column, cell in zip(self.columns, row.cells, strict=True):
                place = (column.evaluation, column.group, column.metric)
                # A row that is quoted has neither.
                for seed, value in zip(row.seeds, cell.values, strict=True):
                    if value is not None:
                        writer.writerow([row.name, seed, *place, repr(value)])
                if cell.paper is not None:
                    source = "paper" if row.source is None else row.source
                    writer.writerow([row.name, source, *place, repr(cell.paper)])
        return file.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {
            "title": self.title,
            "columns": [
                {"evaluation": c.evaluation, "group": c.group, "metric": c.metric}
                for c in self.columns
            ],
            "rows": [
                {
                    "run": row.name,
                    "source": row.source,
                    "seeds": list(row.seeds),
                    "cells": [
                        {
                            "mean": cell.mean,
                            "deviation": cell.deviation,
                            "values": list(cell.values),
                            "paper": cell.paper,
                        }
                        for cell in row.cells
                    ],
                }
                for row in self.rows
            ],
        }


def make_table(study: StudySpec, results: Results) -> Table:
    """Return the table of the results that there are."""
    columns = [
        Column(evaluation.label, group, evaluation.metric)
        for evaluation in study.evaluations
        for group in _groups(evaluation, results)
    ]
    rows = []
    for run in study.runs:
        seeds = [
            seed
            for seed in run.seeds or study.seeds
            if any((run.name, seed, e.label) in results for e in study.evaluations)
        ]
        cells = [
            Cell(_values(results, run.name, seeds, column), run.paper.get(column.name))
            for column in columns
        ]
        rows.append(Row(run.name, tuple(cells), tuple(seeds)))
    for quoted in study.quoted:
        cells = [Cell(paper=quoted.values.get(column.name)) for column in columns]
        rows.append(Row(quoted.name, tuple(cells), source=quoted.source))
    return Table(study.title, tuple(columns), tuple(rows))


def _groups(evaluation: EvaluationSpec, results: Results) -> list[str]:
    """Return the groups to show: those asked for, or all that have the metric, as measured.

    Raises ``ConfigError`` where there are results and none of them has the metric or the groups.
    """
    measured: dict[str, set[str]] = {}  # metrics by group
    for (_, _, label), result in results.items():
        if label == evaluation.label:
            for group, metrics in result["metrics"].items():
                measured.setdefault(group, set()).update(metrics)
    found = [group for group, metrics in measured.items() if evaluation.metric in metrics]
    if measured and not found:
        metrics = sorted(set().union(*measured.values()))
        raise ConfigError(
            f"evaluation {evaluation.label!r}: metric is {evaluation.metric!r}, expected one of "
            f"{', '.join(metrics)}{nearest(evaluation.metric, metrics)}"
        )
    if found and evaluation.groups and not set(found) & set(evaluation.groups):
        raise ConfigError(
            f"evaluation {evaluation.label!r}: groups are {', '.join(evaluation.groups)}, expected "
            f"some of {', '.join(found)}"
        )
    return list(evaluation.groups) or found


def _values(
    results: Results, run: str, seeds: Sequence[int], column: Column
) -> tuple[float | None, ...]:
    values: list[float | None] = []
    for seed in seeds:
        groups = results.get((run, seed, column.evaluation), {}).get("metrics", {})
        value = groups.get(column.group, {}).get(column.metric)
        values.append(None if value is None else float(value))
    return tuple(values)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _number(value: float) -> str:
    """Return a number with four significant digits, large ones with commas."""
    if abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 0.01 or not value else f"{value:.2g}"
