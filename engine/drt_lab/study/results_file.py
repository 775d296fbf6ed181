"""Results of a study in one small file, so that its rows gather over several sittings or machines.

A study's folder has models and checkpoints and is never shared; the file has what was measured,
with the settings that it was measured with. Runs in it are not trained again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from drt_engine.errors import ConfigError
from drt_lab.data.durable import alone_with, write_whole
from drt_lab.study.settings import expect_settings, result_settings
from drt_lab.study.spec import StudySpec
from drt_lab.study.stored import Measured, Places, expect_groups


class ResultsFile:
    """The file of a study: ``read`` gives the results of the study's runs, ``write`` adds to it.

    Runs and seeds of the file that the study does not have stay in it. Raises ``ConfigError`` for
    a file of something else, and for results that were measured with other settings.
    """

    def __init__(self, path: Path, study: StudySpec) -> None:
        self._path, self._study = path, study
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path} is a folder, expected a file for the results of a study")

    def read(self) -> dict[tuple[str, int, str], Measured]:
        """Return the results that the file has for the study, by run, seed and evaluation."""
        entries = self._entries()
        places = {}
        for run, seed in self._study.jobs():
            for evaluation in self._study.evaluations:
                entry = entries.get((run.name, seed, evaluation.label))
                if entry is not None:
                    expect_settings(
                        entry["settings"],
                        result_settings(self._study, run, evaluation),
                        f"{self._path}: {run.name!r}, seed {seed}, was measured",
                        "another file for its results",
                    )
                    measured = Measured(entry["settings"], entry["result"])
                    places[run.name, seed, evaluation.label] = measured
        return places

    def write(self, places: Places) -> None:
        """Write the file with these results beside those that it has."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with alone_with(self._path):  # another study may add to it now
            entries = self._entries()
            for (name, seed, label), measured in places.items():
                entries[name, seed, label] = {
                    "run": name,
                    "seed": seed,
                    "evaluation": label,
                    "settings": dict(measured.settings),
                    "result": dict(measured.result),
                }
            content = {"title": self._study.title, "results": list(entries.values())}
            write_whole(self._path, json.dumps(content, indent=1) + "\n")

    def _entries(self) -> dict[tuple[str, int, str], dict[str, Any]]:
        if not self._path.exists():
            return {}
        try:
            entries = json.loads(self._path.read_text(encoding="utf-8"))["results"]
            by_place = {(e["run"], e["seed"], e["evaluation"]): e for e in entries}
            for place, entry in by_place.items():
                expect_groups(entry["result"], f"the result of {place}")
            if not all(isinstance(e["settings"], dict) for e in entries):
                raise ValueError("a result has no settings")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
            raise ConfigError(
                f"{self._path} holds no results of a study ({type(error).__name__}: {error}); name "
                "another file, which is made"
            ) from None
        return by_place
