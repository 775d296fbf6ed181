"""The ``drt`` command: a group whose commands are imported only when they are called.

Help of the group comes from the table below, so that it costs no import; a test compares it with
the commands' own.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator, Sequence

import click

from ._environment import name_variables
from ._errors import CliError, handle_errors
from ._options import with_global_options

COMMANDS: dict[str, tuple[str, str]] = {
    "ingest": ("ingest", "Read documents into the library."),
    "ask": ("ask", "Ask a question; the answer is a quote with its place."),
    "search": ("search", "Find the passages that fit a query best, without an answer."),
    "show": ("show", "Show a cited passage and the text around it."),
    "summarize": ("summarize", "Summarise documents, or what changed in one."),
    "chat": ("chat", "Ask questions at a prompt."),
    "trace": ("trace", "Show what the model retrieves for a question."),
    "serve": ("serve", "Serve the library over HTTP: a page, an API, chat as OpenAI's."),
    "mcp": ("mcp", "Serve the library to assistants and editors (Model Context Protocol)."),
    "library": ("library", "List, show, remove, check, export, import and back up documents."),
    "log": ("log", "List the questions that were asked, the newest first."),
    "session": ("session", "List, search, show, rename, delete and export conversations."),
    "model": ("model", "List, describe, verify and convert models."),
    "formats": ("formats", "List the formats that can be read, and what each needs."),
    "plugins": (
        "plugins",
        "List the plug-ins: readers, writers, evaluators and commands of other packages.",
    ),
    "train": ("train", "Train a model from a config file, or a tokenizer."),
    "study": ("study", "Train and measure several models, and compare them in a table."),
    "eval": ("evaluate", "Measure a model next to its baselines."),
    "bench": ("bench", "Time the parts of the program: ingest, ask, decode, train, pdf and more."),
    "doctor": ("doctor", "Check that drt works here; print what a bug report needs."),
    "warm": ("warm", "Show, start or end the helper process that has the model loaded."),
    "config": ("config", "Get and set the defaults of options."),
    "schema": ("schema", "Print the JSON Schema of a command's output."),
    "completion": ("completion", "Print the completion script of a shell."),
    "man": ("man", "Print the manual page."),
}

# What other programs call these commands.
_OTHER_NAMES = {
    "add": "ingest",
    "import": "ingest",
    "index": "ingest",
    "load": "ingest",
    "open": "ingest",
    "read": "ingest",
    "answer": "ask",
    "qa": "ask",
    "query": "ask",
    "question": "ask",
    "find": "search",
    "grep": "search",
    "summary": "summarize",
    "tldr": "summarize",
    "repl": "chat",
    "explain": "trace",
    "history": "log",
    "delete": "library",
    "documents": "library",
    "list": "library",
    "ls": "library",
    "remove": "library",
    "rm": "library",
    "version": "--version",
}


_ALIASES = {"cite": "show"}


class LazyGroup(click.Group):
    """A group that imports `drt_cli.commands.<module>` when its command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = _command_name(cmd_name)
        if cmd_name not in COMMANDS:
            return _plugin_command(cmd_name)
        module = importlib.import_module(f"drt_cli.commands.{COMMANDS[cmd_name][0]}")
        command = module.command
        assert isinstance(command, click.Command)
        name_variables(command, f"DRT_{cmd_name}")
        if ctx.resilient_parsing:
            from ._complete import with_completion

            return with_completion(cmd_name, command)
        from ._examples import with_examples

        return with_examples(cmd_name, command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = _command_name(args[0])
        if name not in COMMANDS and not name.startswith("-") and _plugin_command(name) is None:
            ctx.fail(f"There is no command {name!r}; {_hint(name)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Invoke the command; where the model is not there, say where its name comes from."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            from ._settings import model_problem

            problem = model_problem(ctx, error)
            if problem is None:
                raise
            raise problem from error

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002  click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


def _command_name(name: str) -> str:
    """Return what another name stands for, unless a plug-in has a command of that name."""
    return _ALIASES[name] if name in _ALIASES and _plugin_command(name) is None else name


def _hint(name: str) -> str:
    """Return the end of a message that says what was probably meant by what is no command."""
    if os.path.exists(name):
        return f'`drt ask "QUESTION" {name}` asks it, `drt ingest {name}` keeps it.'
    from ._groups import meant  # not on the way to --help

    command = meant(name, COMMANDS, _OTHER_NAMES.get(name.lower()))
    return f"did you mean {command!r}?" if command else "`drt --help` lists the commands."


def _plugin_command(name: str) -> click.Command | None:
    """Return the command of a plug-in, which is only looked for where no built-in one has the name.

    Raises ``ConfigError`` for one that cannot be imported.
    """
    from importlib.metadata import entry_points  # not on the way to --help

    if name.startswith("-") or not entry_points(group="drt.commands", name=name):
        return None
    from drt._plugins import load_plugin

    command = load_plugin("command", name)
    assert isinstance(command, click.Command)
    return with_global_options()(command)


SETTINGS = {"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "DRT"}
_TRUE = ("1", "true", "t", "yes", "y", "on")  # as click takes them
WITHOUT_SETTINGS = ("config", "completion", "man", "schema")


@with_global_options(hidden=False)
@click.command(cls=LazyGroup, context_settings=SETTINGS)
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Ask documents of any length, offline, and get quotes exact to the character.

    Options shown here may be given before or after the command. Every option is also an environment
    variable: --threads is DRT_THREADS, --top-k of ask is DRT_ASK_TOP_K.

    \b
    Example: drt ask "Who signs the log?" manual.pdf
    """
    # These must work where the settings file is broken, or does not matter.
    if ctx.invoked_subcommand not in WITHOUT_SETTINGS:
        from ._settings import SETTINGS_PROBLEM, apply_settings

        try:
            apply_settings(ctx)
        except CliError as error:
            if ctx.invoked_subcommand != "doctor":  # which reports what is broken
                raise
            ctx.meta[SETTINGS_PROBLEM] = str(error)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return the exit code."""
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    debug = "--debug" in arguments or os.environ.get("DRT_DEBUG", "").lower() in _TRUE
    with _debug_lines() if debug else contextlib.nullcontext():
        return handle_errors(
            lambda: cli.main(
                args=list(arguments),
                prog_name="drt",
                standalone_mode=False,
                color=False if plain else None,
            ),
            debug=debug,
        )


@contextlib.contextmanager
def _debug_lines() -> Iterator[None]:
    """Show what the engine logs on stderr, for those who debug."""
    import logging  # not on the way to --help

    logger, handler = logging.getLogger("drt"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("drt: %(message)s"))
    before = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def main() -> None:
    """Run the command line of this process, and end it."""
    from ._interrupt import install
    from ._pipe import end_with_reader

    end_with_reader()
    install()
    for output in (sys.stdout, sys.stderr):
        if hasattr(output, "reconfigure"):
            # Documents hold characters that a terminal's encoding may not.
            output.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))
