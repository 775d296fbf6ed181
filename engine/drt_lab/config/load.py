"""TOML and ``key=value`` overrides into frozen dataclasses, strictly, and back."""

from __future__ import annotations

import difflib
import json
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from drt_engine.errors import ConfigError

T = TypeVar("T")
# A study builds hundreds of the same few classes.
_hints: Callable[[type], dict[str, Any]] = cache(typing.get_type_hints)


def load_config(kind: type[T], path: Path, overrides: Sequence[str] = ()) -> T:
    """Return ``kind`` from a TOML file, ``section.key=value`` overrides merged over it.

    Raises ``ConfigError`` for a missing or broken file, an unknown key (naming the nearest), or a
    wrong type.
    """
    return build(kind, load_table(path, overrides))


def load_table(path: Path, overrides: Iterable[str] = ()) -> dict[str, Any]:
    """Return a TOML file as nested dicts, overrides merged over it; raises ``ConfigError``."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist, expected a TOML configuration") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    for override in overrides:
        _override(data, override)
    return data


def build(kind: type[T], data: Mapping[str, Any], where: str = "") -> T:
    """Return a dataclass from nested mappings, checking keys and types."""
    hints = _hints(kind)
    names = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    values = {}
    for key, value in data.items():
        if key not in names:
            matches = difflib.get_close_matches(key, names, n=1)
            listing = f"; known keys: {', '.join(names)}"
            hint = f"; did you mean {matches[0]!r}?" if matches else listing
            raise ConfigError(f"unknown key {where}{key}{hint}")
        values[key] = _convert(hints[key], value, f"{where}{key}")
    try:
        return kind(**values)
    except TypeError as error:
        raise ConfigError(f"{where or 'the configuration'} lacks a value: {error}") from error


def dump(config: Any) -> str:
    """Return a dataclass as JSON, paths as text."""
    return json.dumps(asdict(config), indent=1, default=str) + "\n"


def _override(data: dict[str, Any], override: str) -> None:
    key, separator, text = override.partition("=")
    if not separator:
        raise ConfigError(f"override {override!r} has no '='; expected section.key=value")
    *path, last = key.split(".")
    for part in path:
        data = data.setdefault(part, {})
        if not isinstance(data, dict):
            raise ConfigError(f"override {override!r}: {part} is a value and has no keys")
    # What is not a TOML value, as a path or a name without quotes, is text.
    try:
        data[last] = tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        data[last] = text


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    # ``T | None``: None stays, anything else has to be a T.
    if origin in (types.UnionType, typing.Union):
        inner = [a for a in args if a is not type(None)]
        return None if value is None else _convert(inner[0], value, where)
    if is_dataclass(hint) and isinstance(hint, type) and isinstance(value, Mapping):
        return build(hint, value, where + ".")
    if origin is dict and isinstance(value, Mapping):
        return {k: _convert(args[1], v, f"{where}.{k}") for k, v in value.items()}
    if origin is tuple and args[0] is Path and isinstance(value, str):
        return (_convert(Path, value, where),)  # one file needs no list
    if origin is tuple and isinstance(value, list):
        return tuple(_convert(args[0], v, where) for v in value)
    if origin is typing.Literal and value in args:
        return value
    if hint is Path and isinstance(value, str):
        return Path(value).expanduser()
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is int and isinstance(value, bool):
        raise ConfigError(f"{where} is {value!r}, expected int")
    if hint is Any or (isinstance(hint, type) and isinstance(value, hint)):
        return value
    if origin is typing.Literal:
        matches = difflib.get_close_matches(
            str(value), [a for a in args if isinstance(a, str)], n=1
        )
        hint = f"; did you mean {matches[0]!r}?" if matches else ""
        raise ConfigError(f"{where} is {value!r}, expected one of {args}{hint}")
    raise ConfigError(f"{where} is {value!r}, expected {getattr(hint, '__name__', hint)}")
