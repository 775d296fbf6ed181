"""From exceptions to one line on stderr and an exit code.

0 done, 1 an error in one sentence, 2 wrong usage, 3 partly done, 130 interrupted.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import click

from ._layout import columns, wrapped
from ._text import printable

DONE, FAILED, USAGE, PARTLY, INTERRUPTED = 0, 1, 2, 3, 130


class CliError(Exception):
    """The command line refuses something itself; its text is one sentence for the user."""


class WrongUsage(CliError):
    """A command line that means something else than it says, with what was probably meant."""


def handle_errors(work: Callable[[], Any], *, debug: bool) -> int:
    """Run ``work`` and return the exit code; with ``debug``, errors keep their traceback."""
    try:
        code = work()
    except click.ClickException as error:
        _show(error)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except Exception as error:
        if debug:
            raise
        report(_sentence(error))
        return USAGE if isinstance(error, WrongUsage) else FAILED
    return code if isinstance(code, int) else DONE


def _show(error: click.ClickException) -> None:
    """Print wrong usage as click does, wrapped at the terminal's width."""
    text = io.StringIO()
    error.show(file=text)
    click.echo(wrapped(text.getvalue().removesuffix("\n"), columns(sys.stderr)), err=True)


def report(sentence: str) -> None:
    """Print an error as the one line that every error has."""
    click.echo(wrapped(f"drt: {printable(sentence)}", columns(sys.stderr)), err=True)


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}."
    if isinstance(error, CliError):
        return str(error)
    # Only a command can raise a DrtError, so its module is loaded by then; --help must not load it.
    sdk = sys.modules.get("drt")
    if sdk is not None and isinstance(error, sdk.DrtError):
        return str(error)
    return (
        f"a mistake of the program, not yours: {type(error).__name__}: {error}; "
        "run it again with --debug for the traceback."
    )
