"""Options shared by commands, and the settings they make.

The global options may stand before or after a command: every command takes them, hidden, and
the later one counts.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ._layout import columns

if TYPE_CHECKING:
    from pathlib import Path

    from drt import Assistant, Library

DATE = re.compile(r"\d{4}(-\d\d){0,2}")
Command = TypeVar("Command", bound=click.Command)
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Settings:
    """What the global options say."""

    library: tuple[str, ...] = ()
    require_all: bool = False
    approximate: bool = False
    model: str = "drt-small-en"
    device: str = "auto"
    threads: int | None = None
    dtype: str = "auto"
    lock_timeout: float = 10.0
    log: bool = True
    warm: str = "auto"
    idle_minutes: float = 10.0
    quiet: bool = False
    debug: bool = False

    def log_path(self) -> Path:
        """Return the file of the question log."""
        from ._state import state_folder

        return state_folder() / "questions.db"

    def open_library(self) -> Library:
        """Return the library without its model."""
        from drt import Library

        return Library(
            self.library or None,
            lock_timeout=self.lock_timeout,
            log=self.log_path(),
            require_all=self.require_all,
        )

    def assistant(self, *, ray: str | None = None, deadline: float | None = None) -> Assistant:
        """Return an assistant on the library; it loads its model when it is first needed."""
        from drt import Assistant

        return Assistant(
            self.library or None,
            model=self.model,
            device=self.device,
            threads=self.threads,
            dtype=self.dtype,
            lock_timeout=self.lock_timeout,
            log=self.log_path() if self.log else None,
            require_all=self.require_all,
            approximate=self.approximate,
            ray=ray,
            deadline=deadline,
        )

    def runtime(self) -> dict[str, Any]:
        """Return the options with which evaluations and benchmarks load a model."""
        return {
            "model": self.model,
            "device": self.device,
            "threads": self.threads,
            "dtype": self.dtype,
        }


def _remember(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    settings = ctx.obj if isinstance(ctx.obj, Settings) else Settings()
    name = parameter.name
    assert name is not None
    ctx.obj = settings if value is None or value == () else replace(settings, **{name: value})


def _print_version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from drt import __version__

        click.echo(f"drt {__version__}")
        ctx.exit()


class LibraryType(click.Path):
    """A library's folder, or a list file; a variable may name several, as PATH does."""

    def split_envvar_value(self, rv: str) -> list[str]:
        """Return what a variable names: one path where there is such a one."""
        if os.pathsep not in rv:  # drt is imported by few commands, and this is for all
            return [rv]
        from drt._paths import named_libraries

        return list(map(str, named_libraries(rv)))


def _global_options(*, hidden: bool) -> list[click.Option]:
    def option(*names: str, **attributes: Any) -> click.Option:
        return click.Option(
            names, expose_value=False, callback=_remember, hidden=hidden, **attributes
        )

    return [
        option(
            "--library",
            metavar="DIR",
            type=LibraryType(readable=False),  # opening it says what is wrong
            multiple=True,
            help="Library folder (or DRT_LIBRARY; default under the data directory); repeated, or"
            " with a list file, several are read as one.",
        ),
        option(
            "--require-all",
            is_flag=True,
            default=None,
            help="Fail if one of several libraries cannot be read, instead of leaving it out.",
        ),
        option(
            "--approximate/--exact",
            default=None,
            help="Let questions of a whole library scan only what its approximate index (drt"
            " library index) has near them, or everything.  [default: exact]",
        ),
        option("--model", metavar="NAME|DIR", help="Model, by name or folder."),
        option("--device", type=click.Choice(["auto", "cpu", "cuda"]), help="Where to compute."),
        option("--threads", metavar="N", type=click.IntRange(min=1), help="CPU threads."),
        option(
            "--dtype",
            type=click.Choice(["auto", "bf16", "fp32", "int8"]),
            help="Type to compute in; auto is bf16 where that is faster, else fp32. int8 (CPU): "
            "faster than fp32, and a little less exact.",
        ),
        option(
            "--lock-timeout",
            metavar="SECONDS",
            type=click.FloatRange(min=0),
            help="How long to wait for another process that writes to the library.",
        ),
        option(
            "--log/--no-log",
            default=None,
            help="Keep questions and answers in the log that drt log shows (default).",
        ),
        option(
            "--warm",
            type=click.Choice(["auto", "on", "off"]),
            help="Keep the model in memory in a helper process, from which the next commands"
            " answer at once (drt warm); auto does so on a terminal.  [default: auto]",
        ),
        option(
            "--idle-minutes",
            metavar="MINUTES",
            type=click.FloatRange(min=0, min_open=True),
            help="When the helper process ends without commands.  [default: 10]",
        ),
        option("--quiet", is_flag=True, default=None, help="Show no progress and no notes."),
        option(
            "--debug",
            is_flag=True,
            default=None,
            help="Show tracebacks, and the engine's debug lines.",
        ),
    ]


class _HelpFormatter(click.HelpFormatter):
    """Help that leaves room for its words on a narrow terminal, too."""

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        super().write_dl(list(rows), min(col_max, self.width // 3), col_spacing)


class _Context(click.Context):
    formatter_class = _HelpFormatter

    def make_formatter(self) -> click.HelpFormatter:
        """Return a formatter for the terminal: click's own is never narrower than 50 columns."""
        screen = columns(sys.stdout)
        width = self.terminal_width or (screen - 2 if screen and screen < 52 else None)
        return self.formatter_class(width=width, max_width=self.max_content_width)


def with_global_options(*, hidden: bool = True) -> Callable[[Command], Command]:
    """Give a command the global options; hidden ones are left out of its help.

    An option of the command's own counts before a global one of the same name.
    """

    def decorate(command: Command) -> Command:
        names = {name for parameter in command.params for name in parameter.opts}
        options = _global_options(hidden=hidden)
        command.params.extend(item for item in options if names.isdisjoint(item.opts))
        command.context_class = _Context
        if not hidden:
            command.params.append(
                click.Option(
                    ["--version"],
                    is_flag=True,
                    is_eager=True,
                    expose_value=False,
                    callback=_print_version,
                    help="Show the version and exit.",
                )
            )
        return command

    return decorate


def json_option(function: Function) -> Function:
    """Add ``--json``, passed to the command as ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(function)


def jsonl_option(function: Function) -> Function:
    """Add ``--jsonl``, passed to the command as ``as_lines``."""
    return click.option(
        "--jsonl", "as_lines", is_flag=True, help="Print one JSON object a line, as they come."
    )(function)


class PagesType(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """Pages as A-B or A, passed to the command as the first and the last."""

    name = "pages"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Return both numbers; fail with a sentence for anything else."""
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", str(value).strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last:
            self.fail(f"{value!r} is not a page or pages, such as 7 or 3-5.", param, ctx)
        return first, last


class CountType(click.IntRange):
    """A whole number, with a sentence that says which ones are expected."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; fail with a sentence for anything else."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not a whole number from {self.min} to {self.max}.", param, ctx)


class TokensType(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """A number of tokens, from 64 up; k, M and B stand for thousands, millions and billions."""

    name = "tokens"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number; fail with a sentence for anything else."""
        match = re.fullmatch(r"(\d{1,12})([kMB]?)", str(value).strip())
        tokens = int(match[1]) * _MULTIPLES[match[2]] if match else 0
        if tokens < 64:
            self.fail(
                f"{value!r} is not a number of tokens from 64 up, such as 4096 or 16M.", param, ctx
            )
        return tokens


_MULTIPLES = {"": 1, "k": 1_000, "M": 1_000_000, "B": 1_000_000_000}


_tag_option = click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="NAME",
    help="Only documents with this tag; with all of them if repeated.",
)
_type_option = click.option(
    "--type",
    "types",
    multiple=True,
    metavar="FORMAT",
    help="Only documents of this format, such as pdf or .md; may be repeated.",
)


def _date(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is None or DATE.fullmatch(value):
        return value
    raise click.BadParameter(f"{value!r} is not a date, expected YYYY, YYYY-MM or YYYY-MM-DD.")


_since_option = click.option(
    "--since",
    callback=_date,
    metavar="DATE",
    help="Only documents of this day, month or year (YYYY-MM-DD) or later: by the date that they"
    " name, or else by the day they were read.",
)


def document_options(function: Function) -> Function:
    """Add the filters of whole documents."""
    return _tag_option(_type_option(_since_option(function)))


def part_options(function: Function) -> Function:
    """Add the filters of documents and their parts that need no more words for a summary."""
    for decorate in (
        _tag_option,
        _type_option,
        click.option(
            "--pages", type=PagesType(), metavar="A-B", help="Only these pages of documents."
        ),
    ):
        function = decorate(function)
    return function


def filter_options(function: Function) -> Function:
    """Add the options of which part of the library counts."""
    for decorate in (
        _since_option,
        part_options,
        click.option(
            "--section",
            metavar="NAME",
            help="Only sections whose name, or that of a section around them, begins with this.",
        ),
        click.option(
            "--doc",
            "documents",
            multiple=True,
            metavar="DOC",
            help="Only this document, by id, title or source; may be repeated.",
        ),
    ):
        function = decorate(function)
    return function


def retrieval_options(function: Function) -> Function:
    """Add the options of how the library is searched, and which part of it."""
    for decorate in (
        click.option(
            "--reread/--no-reread",
            default=True,
            help="With the reader pass (default), or from chunk memory alone.",
        ),
        click.option(
            "--retriever",
            type=click.Choice(["hybrid", "landmark", "lexical"]),
            default="hybrid",
            show_default=True,
            help="How to find candidate chunks: by landmarks, by words (BM25), or by both.",
        ),
        click.option(
            "--top-k",
            type=CountType(1, 64),
            help="Chunks retrieved at a time.  [default: the model's own number]",
        ),
        filter_options,
    ):
        function = decorate(function)
    return function


def answer_options(function: Function) -> Function:
    """Add the options of how a question is answered."""
    for decorate in (
        click.option(
            "--max-tokens",
            type=click.IntRange(min=1),
            default=96,
            show_default=True,
            help="Longest text in free mode.",
        ),
        click.option(
            "--threshold",
            type=click.FloatRange(0, 1),
            help="Confidence from which an answer counts as found.",
        ),
        click.option(
            "--mode",
            type=click.Choice(["quote", "free"]),
            default="quote",
            show_default=True,
            help="Answer with quotes, or with text the model writes.",
        ),
    ):
        function = decorate(function)
    return function
