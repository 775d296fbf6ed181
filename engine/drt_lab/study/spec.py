"""What a study is: runs, seeds, evaluations; read strictly from TOML and checked before it begins.

A run is a training configuration: the section ``train`` of the study, over it the file that the run
names, over it what the run sets. Knows nothing of how a run is trained or measured.
"""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drt_engine.config.model import PRESETS
from drt_engine.errors import ConfigError
from drt_lab.config.load import build, load_table
from drt_lab.config.train import TrainConfig


@dataclass(frozen=True)
class RunSpec:
    """A row of the table: a model, and what it is trained on.

    ``config``: a file as for ``drt train``; ``set``: settings over it by dotted key; ``after``: a
    run before this one, from whose model with the same seed this one starts;
    ``compute_of``: a run before this one with steps of its own, whose FLOPs this one takes instead
    of the steps of its configuration; ``seeds``: in place of the study's; ``paper``: what the paper
    reports, by column.
    """

    name: str
    config: Path | None = None
    set: dict[str, Any] = field(default_factory=dict)
    after: str | None = None
    compute_of: str | None = None
    seeds: tuple[int, ...] = ()
    paper: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class EvaluationSpec:
    """One measurement of every run; ``metric`` of its groups are columns of the table.

    ``task``: an evaluation of ``drt eval``, or a measurement of a model that need not be trained
    (``MEASURES``); ``options``: as for the task; ``groups``: those that are shown, in place of all.
    """

    task: str
    metric: str
    name: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    groups: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What its columns and files are called."""
        return self.name or self.task


@dataclass(frozen=True)
class QuotedSpec:
    """A row that is not measured here: numbers of a publication, and which."""

    name: str
    source: str
    values: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class StudySpec:
    """A study: its runs, each with every seed, and what is measured of them.

    ``train`` holds what the training configurations of all runs share.
    """

    title: str
    out: Path
    runs: tuple[RunSpec, ...]
    evaluations: tuple[EvaluationSpec, ...]
    seeds: tuple[int, ...] = (1,)
    train: dict[str, Any] = field(default_factory=dict)
    quoted: tuple[QuotedSpec, ...] = ()

    def __post_init__(self) -> None:
        if not self.runs or not self.evaluations:
            raise ConfigError("a study has no runs or no evaluations, expected one of each or more")
        if not all(run.seeds or self.seeds for run in self.runs):
            raise ConfigError("seeds is empty, expected at least one number")
        for seeds in (self.seeds, *(run.seeds for run in self.runs)):
            if len(set(seeds)) < len(seeds):
                raise ConfigError(f"seeds are {list(seeds)}, expected each once")
        for kind, names in (
            ("runs", [run.name for run in self.runs]),
            ("evaluations", [evaluation.label for evaluation in self.evaluations]),
        ):
            folders = [slug(name) for name in names]
            for name, folder in zip(names, folders, strict=True):
                if not folder or folders.count(folder) > 1:
                    raise ConfigError(
                        f"{name!r} among the {kind} has no name of its own, expected letters or "
                        "digits that differ"
                    )
        for number, run in enumerate(self.runs):
            before = [r.name for r in self.runs[:number]]
            if run.after is not None and run.after not in before:
                raise ConfigError(
                    f"after of {run.name!r} is {run.after!r}, expected a run before it"
                    + nearest(run.after, before)
                )
            # The steps of a run whose steps are themselves counted are not in its configuration.
            earlier = [r.name for r in self.runs[:number] if r.compute_of is None]
            if run.compute_of is not None and run.compute_of not in earlier:
                raise ConfigError(
                    f"compute_of of {run.name!r} is {run.compute_of!r}, expected a run before it "
                    "that has steps of its own" + nearest(run.compute_of, earlier)
                )

    def jobs(self) -> Iterator[tuple[RunSpec, int]]:
        """Yield every run with every seed, in the order in which they are trained."""
        for run in self.runs:
            for seed in run.seeds or self.seeds:
                yield run, seed

    def reference(self, run: RunSpec) -> RunSpec | None:
        """Return the run whose compute a run takes, if it takes that of one."""
        return next((r for r in self.runs if r.name == run.compute_of), None)

    def folder(self, run: RunSpec, seed: int) -> Path:
        """Return where a run with a seed is kept."""
        return self.out / f"{slug(run.name)}-{seed}"

    def train_config(self, run: RunSpec, seed: int) -> TrainConfig:
        """Return the training configuration of a run.

        Raises ``ConfigError``, which names the run, for one that cannot be.
        """
        data = copy.deepcopy(self.train)
        if run.config is not None:
            _merge(data, load_table(run.config))
        for key, value in run.set.items():
            *path, last = key.split(".")
            _merge(data, _nested(path, {last: value}))
        if run.after is not None:
            earlier = next(r for r in self.runs if r.name == run.after)
            _merge(data, {"start": {"model": str(self.folder(earlier, seed) / "model")}})
        _merge(data, {"run": {"out": str(self.folder(run, seed)), "seed": seed}})
        name = str(data.get("model", {}).get("preset", ""))
        if name and name not in PRESETS:
            raise ConfigError(
                f"run {run.name!r}: model.preset is {name!r}, expected one of "
                f"{', '.join(PRESETS)}{nearest(name, PRESETS)}"
            )
        try:
            return build(TrainConfig, data)
        except ConfigError as error:
            raise ConfigError(f"run {run.name!r}: {error}") from None


def load_study(path: Path, overrides: Collection[str] = ()) -> StudySpec:
    """Read a study; ``overrides`` are ``key=value``. Raises ``ConfigError``.

    Every run is given its configuration once, so that a mistake is reported before the first
    trains.
    """
    study = build(StudySpec, load_table(path, overrides))
    for run, seed in study.jobs():
        study.train_config(run, seed)
    return study


def expect_runs(study: StudySpec, names: Collection[str]) -> None:
    """Raise ``ConfigError`` for a name that is no run's."""
    runs = [run.name for run in study.runs]
    for name in names:
        if name not in runs:
            raise ConfigError(
                f"the study has no run {name!r}, expected one of {', '.join(runs)}"
                + nearest(name, runs)
            )


def nearest(name: str, known: Collection[str]) -> str:
    """Return the end of a message that names what was probably meant, if anything."""
    matches = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {matches[0]!r}?" if matches else ""


def slug(name: str) -> str:
    """Return a name as a file's: letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _nested(path: list[str], value: dict[str, Any]) -> dict[str, Any]:
    for key in reversed(path):
        value = {key: value}
    return value


def _merge(data: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Put ``changes`` over ``data``, table by table."""
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(data.get(key), dict):
            _merge(data[key], value)
        else:
            data[key] = copy.deepcopy(dict(value)) if isinstance(value, Mapping) else value
