"""Rows of a long benchmark over several sittings: what is measured already, and the time left.

Knows nothing of what is measured.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drt_engine.errors import ConfigError
from drt_engine.progress import report
from drt_lab.data.durable import alone_with, write_whole
from drt_lab.evaluate.report import BenchRow

_KEYS = {"setting", "unit", "rows"}


class Sitting:
    """One sitting at a benchmark whose parts are called units.

    ``path`` keeps the rows of every unit as JSON, ``None``: nothing does; units of another
    ``setting`` (shape, device, ..) stay in it, and are no part of this one. ``minutes`` is how long
    it may take, ``None``: as long as it needs. Raises ``ConfigError`` for a file of something else.
    """

    def __init__(
        self, path: Path | None, setting: Mapping[str, Any], *, minutes: float | None
    ) -> None:
        self._path, self._setting = path, dict(setting)
        self._units: list[dict[str, Any]] = []
        self._read_again()
        self._end = None if minutes is None else time.monotonic() + 60 * minutes

    @property
    def seconds_left(self) -> float:
        """The time that is left, in seconds; infinity where it is not limited."""
        return float("inf") if self._end is None else self._end - time.monotonic()

    def measured(self, unit: str) -> list[BenchRow] | None:
        """Return the rows of a unit that another sitting measured, ``None`` if none did."""
        self._read_again()
        for entry in self._units:
            if entry["unit"] == unit and entry["setting"] == self._setting:
                rows = [BenchRow(**row) for row in entry["rows"]]
                _show(rows, f" (from {self._path})")
                return rows
        return None

    def add(self, unit: str, rows: Sequence[BenchRow]) -> None:
        """Keep the rows of a unit beside those of sittings that run now, and report them."""
        entry = {"setting": self._setting, "unit": unit, "rows": [row.to_dict() for row in rows]}
        if self._path is None:
            self._units.append(entry)
        else:
            with alone_with(self._path):
                self._read_again()
                self._units.append(entry)
                write_whole(self._path, json.dumps({"units": self._units}, indent=1) + "\n")
        _show(rows)

    def _read_again(self) -> None:
        if self._path is not None and self._path.exists():
            self._units = _read(self._path)


def _read(path: Path) -> list[dict[str, Any]]:
    """Return the units of a file; ``ConfigError`` where it is none."""
    try:
        units: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["units"]
        for entry in units:
            if set(entry) != _KEYS:
                raise ValueError(f"a unit has the keys {sorted(entry)}")
            for row in entry["rows"]:
                BenchRow(**row)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} holds no rows of a benchmark ({error}); name another file, which is made"
        ) from None
    return units


def _show(rows: Sequence[BenchRow], note: str = "") -> None:
    for row in rows:
        ratio = "" if row.ratio is None else f", {row.ratio:.3f} of {row.against}"
        report(f"{row.name}: {row.median:.4g} {row.unit}{ratio}{note}")
