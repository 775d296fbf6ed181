"""The formats that can be read here, with the extra that each needs.

Imports no reader and no model.
"""

from __future__ import annotations

from . import _engine
from ._types import FormatInfo


def formats() -> list[FormatInfo]:
    """Return every format in the order in which readers are asked, plug-ins first."""
    readable, broken = _engine.formats()
    unusable = [
        FormatInfo(
            plugin.name,
            plugin.name,
            (),
            installed=False,
            plugin=plugin.distribution,
            problem=plugin.why,
        )
        for plugin in broken
    ]
    return unusable + [
        FormatInfo(
            entry.name,
            entry.label,
            entry.suffixes,
            installed=entry.installed,
            extra=entry.extra,
            package=entry.package,
            plugin=entry.distribution,
        )
        for entry in readable
    ]
