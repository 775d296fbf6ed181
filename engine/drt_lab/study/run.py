"""Runs a study: each model is trained, then measured, and the table is written after each."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from drt_lab.data.durable import alone_with, write_whole
from drt_lab.study.check import check_study
from drt_lab.study.job import Job
from drt_lab.study.plot import draw_plots
from drt_lab.study.results_file import ResultsFile
from drt_lab.study.spec import StudySpec, expect_runs, load_study
from drt_lab.study.stored import (
    expect_same_study,
    put_missing,
    read_measured,
    read_results,
)
from drt_lab.study.table import Table, make_table


def study(
    path: Path,
    overrides: Sequence[str] = (),
    *,
    only: Collection[str] = (),
    results: Path | None = None,
) -> dict[str, Any]:
    """Run the study of a TOML file; return the folder of its results and the table as JSON."""
    spec = load_study(path, overrides)
    return {"folder": str(spec.out), **run_study(spec, only=only, results=results).to_dict()}


def run_study(
    study: StudySpec, *, only: Collection[str] = (), results: Path | None = None
) -> Table:
    """Train and measure what has no result yet, and write the table; return it.

    ``only`` names runs; the table has all that were measured so far. ``results`` is a file that
    every result is added to, and whose runs are not trained again. Raises ``ConfigError`` before
    anything is trained where something cannot be measured, or was measured with other settings.
    """
    expect_runs(study, only)
    file = None if results is None else ResultsFile(results, study)
    gathered = {} if file is None else file.read()
    check_study(study, only=only)
    expect_same_study(study)
    jobs = [(run, seed) for run, seed in study.jobs() if not only or run.name in only]
    study.out.mkdir(parents=True, exist_ok=True)
    put_missing(study, gathered)
    if file is not None:
        file.write(read_measured(study))
    for number, (run, seed) in enumerate(jobs, start=1):
        Job(study, run, seed, place=f"{number} of {len(jobs)}").finish()
        write_tables(study)
        if file is not None:
            file.write(read_measured(study))
    return write_tables(study)


def write_tables(study: StudySpec) -> Table:
    """Write the table of what was measured so far as Markdown, JSON and CSV, and its plots."""
    table = make_table(study, read_results(study))
    with alone_with(study.out / "table.md"):  # another sitting of the study may write it now
        for name, text in (
            ("table.md", table.as_markdown()),
            ("table.json", json.dumps(table.to_dict(), indent=1) + "\n"),
            ("table.csv", table.as_csv()),
        ):
            write_whole(study.out / name, text)
        draw_plots(table, study.out)
    return table
