"""Training from Python: a config in, a run folder out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from . import _engine
from ._errors import engine_errors


def train(
    config: str | os.PathLike[str], overrides: Sequence[str] = (), *, quiet: bool = False
) -> Path:
    """Train by a TOML config with "key=value" overrides; return the run folder.

    The configs of a folder are trained one after the other, in the order of their names
    (``10`` is after ``9``). Progress is printed on stderr unless ``quiet``.
    """
    with engine_errors(), _engine.silenced(quiet):
        return _engine.train(Path(config), overrides)


def train_tokenizer(
    corpus: Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    vocab_size: int = 16384,
) -> Path:
    """Make a byte-level BPE tokenizer from corpus files; return what was written."""
    with engine_errors():
        return _engine.train_tokenizer(
            [Path(file) for file in corpus], Path(out), vocab_size=vocab_size
        )


def study(
    file: str | os.PathLike[str],
    overrides: Sequence[str] = (),
    *,
    only: Iterable[str] = (),
    results: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Train and measure the models of a study, a TOML file; return its table as a dict.

    What was interrupted goes on where it was. ``only`` names runs; the table, which is also in the
    study's folder as Markdown, JSON and CSV, has all that were measured so far. ``results`` is a
    JSON file that results are added to, with their settings; those in it are not measured again, so
    that rows gather over several machines.
    """
    path = None if results is None else Path(results)
    with engine_errors():
        return _engine.study(Path(file), overrides, only=tuple(only), results=path)
