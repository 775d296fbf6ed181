"""Evaluators of plug-ins: a function that gets an empty library, and returns what it measured."""

from __future__ import annotations

import inspect
import tempfile
import time
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ._assistant import Assistant
from ._errors import ConfigError
from ._plugins import load_plugin

_RESULT = ("data", "n", "metrics", "baselines")


def run_evaluator(name: str, runtime: dict[str, Any], options: dict[str, object]) -> dict[str, Any]:
    """Run the evaluator ``name`` over a new library; return the documented JSON of ``eval``.

    Raises ``ConfigError`` for an unknown option, a value of the wrong type, and a result that is
    not what an evaluator returns.
    """
    function = load_plugin("evaluator", name)
    arguments = _arguments(name, function, options)
    began = time.perf_counter()
    with (
        tempfile.TemporaryDirectory(prefix="drt-eval-") as folder,
        Assistant(Path(folder) / "library", **runtime) as assistant,
    ):
        result = function(assistant, **arguments)
        model = assistant._model_name()  # noqa: SLF001  both are the SDK's own
    if not isinstance(result, Mapping) or not {"data", "n", "metrics"} <= result.keys() <= {
        *_RESULT
    }:
        raise ConfigError(
            f"the evaluator {name!r} returned {result!r:.80}, expected a dict with data, n and"
            " metrics, and baselines where it has some."
        )
    report: dict[str, Any] = {"task": name, "baselines": {}, **result, "model": model}
    return report | {"seconds": time.perf_counter() - began}


def _arguments(name: str, function: Any, options: dict[str, object]) -> dict[str, object]:
    """Return options as the function's annotations want them."""
    parameters = dict(list(inspect.signature(function).parameters.items())[1:])
    hints = typing.get_type_hints(function)
    for key in options:
        if key not in parameters:
            listed = ", ".join(parameters) or "none"
            raise ConfigError(f"{name} has no option {key!r}; its options are: {listed}.")
    for key, parameter in parameters.items():
        if parameter.default is parameter.empty and key not in options:
            raise ConfigError(f"{name} needs the option {key}; write {key}=VALUE.")
    return {
        key: _value(f"{name}.{key}", hints.get(key, str), value) for key, value in options.items()
    }


def _value(where: str, kind: Any, value: object) -> object:
    """Return a value of the command line as an int, a float, a truth value, a path or text."""
    if not isinstance(value, str):
        return value
    if kind is bool and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if kind not in (int, float, Path):
        if kind is bool:
            raise ConfigError(f"{where} is {value!r}, expected true or false.")
        return value
    try:
        return kind(value)
    except ValueError as error:
        raise ConfigError(f"{where} is {value!r}, expected a value of {kind.__name__}.") from error
