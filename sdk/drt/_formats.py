"""The formats that can be read here, with the extra that each needs.

Imports no reader and no model.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from . import _engine


@dataclass(frozen=True)
class FormatInfo:
    """One format: its suffixes, what it needs, and whether that is installed.

    `plugin` names the distribution that adds it; `problem` is why a plug-in cannot be used.
    """

    name: str
    label: str
    suffixes: tuple[str, ...]
    installed: bool
    extra: str | None = None
    package: str | None = None
    plugin: str | None = None
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The documented JSON."""
        return asdict(self) | {"suffixes": list(self.suffixes)}


def formats() -> list[FormatInfo]:
    """Every format in the order in which readers are asked, plug-ins first."""
    known, broken = _engine.formats()
    unusable = [
        FormatInfo(
            one.name, one.name, (), installed=False, plugin=one.distribution, problem=one.why
        )
        for one in broken
    ]
    return unusable + [
        FormatInfo(
            one.name,
            one.label,
            one.suffixes,
            installed=one.installed,
            extra=one.extra,
            package=one.package,
            plugin=one.distribution,
        )
        for one in known
    ]
