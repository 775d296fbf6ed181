"""The commands described: as a manual page (roff) and as a reference (Markdown), from their help.

Knows click's commands and nothing else; the text is the commands' own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

EXIT_CODES = (
    ("0", "done"),
    ("1", "an error, explained in one sentence"),
    ("2", "wrong usage"),
    ("3", "partly done"),
    ("130", "interrupted"),
)
FILES = (
    ("$DRT_LIBRARY", "the library; by default a folder under the platform's data directory"),
    ("$DRT_CONFIG_FILE", "the settings file; by default the one that `drt config path` prints"),
    ("$DRT_STATE_DIR", "where the last answer's citations and the history of chat are kept"),
    ("$NO_COLOR", "if set, nothing is printed bold or underlined"),
)


def all_commands(
    command: click.Command, words: tuple[str, ...] = ("drt",)
) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and every command below it, with the words that call each."""
    yield " ".join(words), command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=words[-1])
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from all_commands(below, (*words, name))


def _paragraphs(command: click.Command) -> tuple[list[str], str | None]:
    """Return the paragraphs of a command's help, each on one line, and its example."""
    text = f"{command.help or ''}\n\n{command.epilog or ''}".replace("\b\n", "")
    parts = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]
    examples = [part.removeprefix("Example: ") for part in parts if part.startswith("Example: ")]
    paragraphs = [part for part in parts if not part.startswith("Example: ")]
    return paragraphs, examples[0] if examples else None


def _usage(words: str, command: click.Command) -> str:
    context = click.Context(command, info_name=words)
    pieces = [piece for piece in command.collect_usage_pieces(context) if piece]
    return " ".join([words, *pieces])


def _options(words: str, command: click.Command) -> list[tuple[str, str]]:
    """Return names and help of the options of a command, with their environment variables."""
    context = click.Context(command, info_name=words)
    rows = []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record is not None and not parameter.is_eager:
            variable = parameter.envvar or "_".join([*words.split(), parameter.name or ""])
            variable = str(variable).upper().replace("-", "_")
            rows.append((record[0], f"{' '.join(record[1].split())} ({variable})"))
    return rows


# roff


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"(?m)^([.'])", r"\\&\1", escaped)


def manual_page(root: click.Command, version: str) -> str:
    """Return the manual page of all commands."""
    lines = [f'.TH DRT 1 "" "drt {version}" "User Commands"', ".SH NAME"]
    paragraphs, example = _paragraphs(root)
    lines += [f"drt \\- {_roff(paragraphs[0].rstrip('.'))}", ".SH SYNOPSIS"]
    lines += [f".B {_roff(_usage('drt', root))}", ".SH DESCRIPTION"]
    for paragraph in paragraphs:
        lines += [_roff(paragraph), ".PP"]
    lines += _roff_example(example)
    lines += [".SH OPTIONS", *_roff_options("drt", root), ".SH COMMANDS"]
    for words, command in all_commands(root):
        if command is not root:
            lines += _roff_command(words, command)
    for title, rows in (("EXIT STATUS", EXIT_CODES), ("ENVIRONMENT AND FILES", FILES)):
        lines.append(f".SH {title}")
        for name, text in rows:
            lines += [".TP", f".B {_roff(name)}", _roff(text)]
    return "\n".join(lines) + "\n"


def _roff_command(words: str, command: click.Command) -> list[str]:
    paragraphs, example = _paragraphs(command)
    lines = [f".SS {_roff(_usage(words, command))}"]
    for paragraph in paragraphs:
        lines += [_roff(paragraph), ".PP"]
    lines += _roff_options(words, command)
    return lines + _roff_example(example)


def _roff_example(example: str | None) -> list[str]:
    return [] if example is None else [".PP", "Example:", ".PP", ".EX", _roff(example), ".EE"]


def _roff_options(words: str, command: click.Command) -> list[str]:
    lines: list[str] = []
    for names, text in _options(words, command):
        lines += [".TP", f".B {_roff(names)}", _roff(text)]
    return lines


# Markdown


def reference(root: click.Command) -> str:
    """Return all commands as Markdown."""
    lines = ["# Commands", "", "Made from the help of the commands by `drt_cli/_manual.py`.", ""]
    for words, command in all_commands(root):
        lines += _markdown_command(words, command)
    for title, rows in (("Exit codes", EXIT_CODES), ("Environment and files", FILES)):
        lines += [f"## {title}", "", "| | |", "| --- | --- |"]
        lines += [f"| `{name}` | {text} |" for name, text in rows] + [""]
    return "\n".join(lines).rstrip() + "\n"


def _markdown_command(words: str, command: click.Command) -> Iterator[str]:
    paragraphs, example = _paragraphs(command)
    yield f"## {words}"
    yield ""
    for paragraph in (f"`{_usage(words, command)}`", *paragraphs):
        yield from (paragraph, "")
    rows = _options(words, command)
    if rows:
        yield from ("| option | |", "| --- | --- |")
        for names, text in rows:
            cells = [f"`{names}`", text]
            yield " | ".join(["", *(cell.replace("|", "\\|") for cell in cells), ""]).strip()
        yield ""
    if example is not None:
        yield from ("```sh", example, "```", "")
