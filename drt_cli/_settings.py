"""The settings file: values of options that neither the command line nor the environment sets.

TOML, read with ``tomllib``. Options that every command has are at the top (``threads = 2``), those
of one command in its table (``[ask]``, ``top-k = 12``). A change keeps everything else in the file
as it is, comments included.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from ._errors import CliError
from ._options import Settings

Value = str | int | float | bool | list[str]
GLOBAL = (
    "library",
    "require-all",
    "approximate",
    "model",
    "device",
    "threads",
    "dtype",
    "lock-timeout",
    "log",
    "warm",
    "idle-minutes",
    "quiet",
)
_FROM_FILE = "drt_cli.from_file."  # in a context, before a setting's name: its value
SETTINGS_PROBLEM = "drt_cli.settings_problem"  # in a context: why the settings were not applied
TABLES = ("ask", "search", "chat", "trace", "summarize", "ingest", "show")
_TABLE = re.compile(r"\s*\[\s*(?P<name>[^\[\]]+?)\s*\]\s*(?:#.*)?$")


def settings_path() -> Path:
    """Return ``DRT_CONFIG_FILE`` if set, else a file under the platform's configuration folder."""
    named = os.environ.get("DRT_CONFIG_FILE")
    if named:
        return Path(named)
    from platformdirs import user_config_dir

    return Path(user_config_dir("drt", appauthor=False)) / "config.toml"


def load_settings() -> dict[str, Value]:
    """Return all settings by name, such as ``ask.top-k``; raises ``CliError`` for a broken file."""
    path = settings_path()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeError) as error:
        raise CliError(f"{path} cannot be read ({error}); correct or remove it.") from None
    return dict(_flat(_parsed(text, path)))


def _parsed(text: str, path: Path) -> dict[str, Any]:
    import tomllib  # costs what listing a library may not, and most have no settings

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CliError(f"{path} is not TOML ({error}); correct it, or remove it.") from None
    except RecursionError:
        raise CliError(
            f"{path} is nested too deeply to be settings; correct it, or remove it."
        ) from None


def _flat(data: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    for name, value in data.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{key.replace('_', '-')}", entry) for key, entry in value.items())
        else:
            yield name.replace("_", "-"), value


def option_of(root: click.Command, name: str) -> click.Option:
    """Return the option that a setting is about; raises ``CliError`` if there is none."""
    table, _, key = name.replace("_", "-").rpartition(".")
    command: click.Command | None = None
    if not table and key in GLOBAL:
        command = root
    elif table in TABLES and isinstance(root, click.Group):
        command = root.get_command(click.Context(root), table)
    for option in command.params if command is not None else ():
        if isinstance(option, click.Option) and f"--{key}" in option.opts and not option.hidden:
            return option
    close = difflib.get_close_matches(name.replace("_", "-"), _setting_names(root), n=1)
    if close:
        raise CliError(f"there is no setting {name!r}; did you mean {close[0]!r}?")
    raise CliError(
        f"there is no setting {name!r}; settings are {', '.join(GLOBAL)}, and the options of "
        f"{', '.join(TABLES)}, such as ask.top-k."
    )


def _setting_names(root: click.Command) -> list[str]:
    """Return the names of all settings."""
    names = list(GLOBAL)
    if not isinstance(root, click.Group):
        return names
    for table in TABLES:
        command = root.get_command(click.Context(root), table)
        for option in command.params if command is not None else ():
            if isinstance(option, click.Option) and not option.hidden:
                names += [f"{table}.{spelt[2:]}" for spelt in option.opts if spelt[:2] == "--"]
    return names


def value_without_setting(ctx: click.Context, option: click.Option, name: str) -> str:
    """Return what holds where a setting is not in the file, in words."""
    variable = f"DRT_{name}".upper().replace("-", "_").replace(".", "_")
    if variable in os.environ:
        return f"the variable {variable} holds, {os.environ[variable]}"
    default = getattr(Settings(), option.name or "", None)
    if default in (None, ()):
        default = option.get_default(ctx)
    shown = f", {toml_value(default)}" if isinstance(default, str | int | float) else ""
    return f"the default holds{shown}"


def apply_settings(ctx: click.Context) -> None:
    """Make the settings the defaults of this command line's options."""
    tables: dict[str, dict[str, Any]] = {}
    for name, value in load_settings().items():
        try:
            option = option_of(ctx.command, name)
        except CliError as error:
            raise CliError(f"{settings_path()}: {error}") from None
        assert option.name is not None
        table, _, _ = name.rpartition(".")
        if table in ("", ctx.invoked_subcommand):
            try:
                setting = converted(ctx, option, name, value)
            except CliError as error:
                raise CliError(_with_source(str(error), name)) from None
        if table:
            tables.setdefault(table, {})[option.name] = value
        elif ctx.get_parameter_source(option.name) is click.core.ParameterSource.DEFAULT:
            option.handle_parse_result(ctx, {option.name: setting}, [])
            ctx.meta[_FROM_FILE + name] = setting
    ctx.default_map = tables


def model_problem(ctx: click.Context, error: Exception) -> CliError | None:
    """Return an error about a model that is not there with where its name was set.

    None for other errors, and where it was typed.
    """
    sdk = sys.modules.get("drt")
    if sdk is None or not isinstance(error, sdk.ModelError):
        return None
    from_file = ctx.meta.get(_FROM_FILE + "model")
    if from_file is not None and from_file in str(error):
        return CliError(_with_source(str(error), "model"))
    typed = ctx.get_parameter_source("model")
    if typed is click.core.ParameterSource.ENVIRONMENT:
        return CliError(f"{str(error).removesuffix('.')} (set by the variable DRT_MODEL).")
    return None


def _with_source(sentence: str, name: str) -> str:
    """Return a sentence about a setting's value with where it is set, and how to unset it."""
    return (
        f"{sentence.removesuffix('.')} (set in {settings_path()}; drt config unset {name}"
        " removes it)."
    )


def converted(ctx: click.Context, option: click.Option, name: str, value: Value) -> Any:
    """Convert a setting's value as its option does; raises ``CliError`` if it does not take it."""
    if option.multiple and isinstance(value, str):
        value = [value]
    try:
        return option.type_cast_value(ctx, value)
    except click.BadParameter as error:
        raise CliError(f"setting {name}: {error.format_message()}") from None


def parsed_value(option: click.Option, text: str) -> Value:
    """Return what a user typed, in the type that the file gets."""
    if option.is_flag:
        if text.lower() not in ("true", "false"):
            raise CliError(f"{text!r} is neither true nor false; say one of them.")
        return text.lower() == "true"
    if option.multiple:
        return [text]
    for kind in (int, float):
        if isinstance(option.type, _NUMBERS[kind]):
            try:
                return kind(text)
            except ValueError:
                return text  # the option's own sentence says what is wrong
    return text


_NUMBERS: dict[type, tuple[type, ...]] = {
    int: (click.types.IntParamType,),
    float: (click.types.FloatParamType,),
}


def write_setting(name: str, value: Value | None) -> bool:
    """Set a setting, or with None remove it; return whether the file changed."""
    import tomllib

    path = settings_path()
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    before = _parsed(text, path)
    table, _, key = name.replace("_", "-").rpartition(".")
    lines = _without(text.splitlines(), table, key)
    if value is not None:
        lines = _with(lines, table, f"{key} = {toml_value(value)}")
    new = "\n".join(lines).strip("\n") + "\n" if lines else ""
    after = _expected(before, table, key, value)
    if after == before:
        return False
    try:
        right = tomllib.loads(new) == after
    except tomllib.TOMLDecodeError:
        right = False
    if not right:
        raise CliError(f"{path} is laid out in a way that drt cannot change; edit it by hand.")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_text(new, encoding="utf-8")
    draft.replace(path)
    return True


def _expected(data: Mapping[str, Any], table: str, key: str, value: Value | None) -> dict[str, Any]:
    """Return what the file should hold afterwards; a table that is empty now may stay."""
    after: dict[str, Any] = {k: dict(v) if isinstance(v, dict) else v for k, v in data.items()}
    place = after.setdefault(table, {}) if table else after
    for spelt in [k for k in place if k.replace("_", "-") == key]:
        del place[spelt]
    if value is not None:
        place[key] = value
    elif table and table not in data:
        del after[table]
    return after


def _without(lines: list[str], table: str, key: str) -> list[str]:
    """Return the lines without a table's key, which is on one line."""
    spelling = "[-_]".join(map(re.escape, key.split("-")))
    spelt = re.compile(rf"\s*\"?{spelling}\"?\s*=")
    current, remaining = "", []
    for line in lines:
        if (header := _TABLE.match(line)) is not None:
            current = header["name"]
        if current != table or not spelt.match(line):
            remaining.append(line)
    return remaining


def _with(lines: list[str], table: str, entry: str) -> list[str]:
    """Return the lines with one more entry at the end of a table, which may have to be made."""
    headers = [i for i, line in enumerate(lines) if _TABLE.match(line)]
    if not table:
        at = headers[0] if headers else len(lines)
    else:
        named = [
            i for i in headers if (header := _TABLE.match(lines[i])) and header["name"] == table
        ]
        if not named:
            return [*lines, *([""] if lines else []), f"[{table}]", entry]
        at = next((i for i in headers if i > named[0]), len(lines))
    while at > 0 and not lines[at - 1].strip():
        at -= 1
    gap = [""] if not table and headers and at == headers[0] else []
    return [*lines[:at], entry, *gap, *lines[at:]]


def toml_value(value: Value) -> str:
    """Return a value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, str):
        # JSON's strings are TOML's, but for one character and lone surrogates.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
