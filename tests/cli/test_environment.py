"""Every option as an environment variable of its own name, and the engine's debug lines."""

from __future__ import annotations

import logging

import click
import pytest

from drt_cli._manual import all_commands, reference
from drt_cli.main import cli
from tests.cli.conftest import Drt

ALL = {words: command for words, command in all_commands(cli) if words != "drt"}


def contexts(words: str) -> click.Context:
    """The context of a command as calling it makes them, one in the other."""
    context = click.Context(cli, info_name="drt", auto_envvar_prefix="DRT")
    command: click.Command = cli
    for word in words.split()[1:]:
        assert isinstance(command, click.Group)
        found = command.get_command(context, word)
        assert found is not None
        command, context = found, click.Context(found, info_name=word, parent=context)
    return context


@pytest.mark.few(16)
@pytest.mark.parametrize("words", ALL)
def test_a_variable_is_named_like_the_option(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    context = contexts(words)
    table = reference(cli)
    for option in context.command.params:
        if not isinstance(option, click.Option) or option.hidden:
            continue
        spelt = next(name for name in option.opts if name.startswith("--"))
        name = "_".join([*words.split(), spelt.lstrip("-")]).upper().replace("-", "_")
        monkeypatch.setenv(name, "said")
        assert option.resolve_envvar_value(context) == "said", name
        assert f"({name})" in table


def test_json_by_the_environment(
    drt: Drt, handbook: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    drt("ingest", handbook)
    monkeypatch.setenv("DRT_LIBRARY_LIST_JSON", "1")
    assert drt("library", "list").json["documents"][0]["title"] == "handbook.txt"
    monkeypatch.setenv("DRT_LIBRARY_LIST_JSON", "0")
    monkeypatch.setenv("DRT_LIBRARY_LIST_AS_JSON", "1")  # the parameter's name means nothing
    assert not drt("library", "list").out.startswith("{")


@pytest.mark.parametrize("variable", [False, True])
def test_debug_shows_what_the_engine_logs(
    drt: Drt, monkeypatch: pytest.MonkeyPatch, variable: bool
) -> None:
    logger = logging.getLogger("drt")
    monkeypatch.setattr("drt_cli.commands.formats.command.callback", lambda *_, **__: _log(logger))
    if variable:
        monkeypatch.setenv("DRT_DEBUG", "yes")
    said = drt("formats", *([] if variable else ["--debug"]))
    assert said.err == "drt: computing on 2 threads\n"
    monkeypatch.delenv("DRT_DEBUG", raising=False)
    assert drt("formats").err == ""
    assert not logger.handlers and logger.level == logging.NOTSET


def _log(logger: logging.Logger) -> None:
    logger.debug("computing on %d threads", 2)
