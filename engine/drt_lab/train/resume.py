"""Which settings a resumed run may change, and the comparison with those of its checkpoint.

A resumed run goes on as the unbroken run would have. So only settings may change that say how long
it goes on, how often it reports, where its files are, and what it computes on.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from drt_engine.errors import ConfigError

# Files may have moved; those that ``start`` names are not read into a resumed run at all but for
# the tokenizer. More steps stretch the schedule of the learning rate.
CHANGEABLE = frozenset(
    {
        "optim.steps",
        "optim.average",
        "run.out",
        "run.threads",
        "run.device",
        "run.minutes",
        "run.limit_minutes",
        "run.log_every",
        "run.workers",
        "run.reader_bits",
        "run.recompute",
        "run.parallel",
        "start.warm_start",
        "start.model",
        "start.tokenizer",
        "questions.qa",
        "questions.docs",
        "questions.teacher",
        "passages.qa",
        "passages.docs",
        "passages.ranks",
        "passages.teachers",
        "needles.corpus",
        "cloze.corpus",
        "reader_cloze.corpus",
        "stream.corpus",
        "stream.tokens",
    }
)


def settings_of(config: Any, prefix: str = "") -> dict[str, Any]:
    """Return the values of nested dataclasses as JSON would hold them, by dotted key."""
    settings: dict[str, Any] = {}
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            settings |= settings_of(value, f"{prefix}{field.name}.")
        else:
            settings[prefix + field.name] = json.loads(json.dumps(value, default=str))
    return settings


def expect_resumable(
    state: Path,
    saved: Mapping[str, Any],
    current: Mapping[str, Any],
    changeable: Collection[str] = CHANGEABLE,
) -> None:
    """Raise ``ConfigError`` naming every key that may not change and is not the checkpoint's.

    A key that the checkpoint does not have is of a newer version of drt and is not compared.
    """
    changes = [
        f"{key} was {saved[key]!r} and is {current.get(key)!r}"
        for key in saved
        if key not in changeable and current.get(key) != saved[key]
    ]
    if changes:
        raise ConfigError(
            f"{state} cannot be resumed with other settings: {'; '.join(changes)}; set what was, "
            "or give the run another folder with run.out"
        )
