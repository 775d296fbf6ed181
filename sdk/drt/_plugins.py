"""Plug-ins of other distributions, found by entry points: readers, writers, evaluators, commands.

Names are read from the metadata of what is installed; a plug-in is imported when it is used, and
one that cannot be imported is a sentence, never the end of the program. Annotations are evaluated
here: those of results are resolved in the namespace of ``drt``.
"""

import contextlib
import sys
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from . import _engine
from ._errors import ConfigError
from ._tasks import EvaluationTask

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PluginKind = Literal["reader", "writer", "evaluator", "command"]
PluginState = Literal["ready", "failed", "shadowed"]


@dataclass(frozen=True)
class PluginInfo:
    """One plug-in and the distribution that brings it.

    ``state`` is "ready", "failed" (it cannot be imported, or is not what its kind should be) or
    "shadowed" (its name is that of something built in, or of an earlier plug-in); ``problem`` says
    why it is not used, empty where it is.
    """

    kind: PluginKind
    name: str
    package: str
    version: str
    state: PluginState
    problem: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the plug-in as plain values."""
        return asdict(self)


def plugins(*, commands: Collection[str] = ()) -> list[PluginInfo]:
    """Import every plug-in and return what it is, by kind and name; none raises.

    ``commands`` are the names of built-in commands, which a plug-in's must not shadow.
    """
    names_in_use = {
        (kind, name)
        for kind, names in (("command", commands), ("evaluator", get_args(EvaluationTask)))
        for name in names
    }
    infos: list[PluginInfo] = []
    for kind in get_args(PluginKind):
        for point in _points(kind):
            state, problem = _checked(kind, point, shadowed=(kind, point.name) in names_in_use)
            names_in_use.add((kind, point.name))
            version = "" if point.dist is None else point.dist.version
            infos.append(PluginInfo(kind, point.name, _package(point), version, state, problem))
    return infos


def plugin_names(kind: PluginKind) -> list[str]:
    """Return the names of the plug-ins of a kind, without importing any."""
    return list(dict.fromkeys(point.name for point in _points(kind)))


def load_plugin(kind: PluginKind, name: str) -> Any:
    """Return what a plug-in provides; raises ``ConfigError`` where there is none, or it is broken.

    Of several with one name the first by package counts.
    """
    for point in _points(kind):
        if point.name == name:
            value, problem = _loaded(kind, point)
            if problem:
                raise ConfigError(
                    f"the {kind} {name!r} of the package {_package(point)} cannot be used:"
                    f" {problem}; drt plugins lists all, and pip uninstall removes one."
                )
            return value
    raise ConfigError(f"there is no plug-in {name!r} that is a {kind}; drt plugins lists them.")


def _points(kind: str) -> "list[EntryPoint]":
    from importlib.metadata import entry_points  # slow to import, and seldom needed

    return sorted(
        entry_points(group=f"drt.{kind}s"), key=lambda point: (point.name, _package(point))
    )


def _package(point: "EntryPoint") -> str:
    return point.value if point.dist is None else point.dist.name


def _checked(kind: str, point: "EntryPoint", *, shadowed: bool) -> tuple[PluginState, str]:
    if shadowed:
        return "shadowed", f"there is another {kind} of this name, which is used"
    problem = _loaded(kind, point)[1]
    return ("failed", problem) if problem else ("ready", "")


def _loaded(kind: str, point: "EntryPoint") -> tuple[Any, str]:
    """Return what an entry point names, and why it cannot be used, empty where it can."""
    try:
        with contextlib.redirect_stdout(sys.stderr):  # which may be JSON
            value = point.load()
    except (Exception, SystemExit) as error:  # whatever another distribution's module raises
        return None, f"{type(error).__name__}: {error}"
    if kind == "reader" and not isinstance(value, _engine.Format):
        return None, f"{point.value} is a {type(value).__name__}, a Format was expected"
    if kind == "command" and not hasattr(value, "make_context"):
        return None, f"{point.value} is a {type(value).__name__}, a click command was expected"
    if not callable(value) and kind != "reader":
        return None, f"{point.value} is a {type(value).__name__}, a function was expected"
    return value, ""


PluginInfo.__module__ = "drt"  # where users import it from
