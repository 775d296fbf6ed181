"""The command line of an installed ``drt``: runs commands, and remembers which were used.

Knows processes and click's command tree; knows nothing of what the commands should print.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from exercise_forks import LIMIT
from exercise_shared import expect

# What is not called, and why.
NOT_CALLED = {
    "bench --compile": "takes minutes and a C++ compiler",
    "eval calibrate --plot": "needs the extra plot; its sentence is tested instead",
}


class CommandLine:
    """Runs ``drt`` and remembers which commands and options were used.

    A command's first call is the installed program. Its further ones are forks of a process that
    has imported torch already, of which each thread has its own.
    """

    def __init__(self) -> None:
        self.program = Path(sysconfig.get_path("scripts")) / "drt"
        self.options = _options_by_command()
        self.used: set[str] = set()
        self._begun: set[str] = set()
        self._threads = threading.local()

    def __call__(self, line: str, *, code: int = 0, stdin: str = "", **variables: str) -> str:
        """Run ``drt LINE``; return what it printed on standard output."""
        words = shlex.split(line)
        self.note(words)
        new = words[0] not in self._begun
        self._begun.add(words[0])
        run = self._run_program if new else self._run_fork
        ended, output, errors = run(words, stdin, variables)
        seen = f"drt {line}\n{output}{errors}"
        expect(ended == code, f"exit code {ended}, expected {code}: {seen}")
        for sign in ("Traceback", "a mistake of the program", "Warning"):
            expect(sign not in output + errors, f"{sign!r} printed by {seen}")
        if code == 1 and "doctor" not in words and "get" not in words:
            lines = errors.splitlines()
            expect(len(lines) == 1 and lines[0].startswith("drt: "), f"no one sentence: {seen}")
            return errors
        return output

    def _run_program(
        self, words: list[str], stdin: str, variables: dict[str, str]
    ) -> tuple[int, str, str]:
        """Return the exit code, the output and the errors of ``drt WORDS``."""
        ended = subprocess.run(
            [self.program, *words],
            input=stdin.encode(),
            capture_output=True,
            timeout=LIMIT,
            env=os.environ | variables,
            check=False,
        )
        return ended.returncode, ended.stdout.decode(), ended.stderr.decode()

    def _run_fork(
        self, words: list[str], stdin: str, variables: dict[str, str]
    ) -> tuple[int, str, str]:
        """Return the same of a fork."""
        if not hasattr(self._threads, "server"):
            self._threads.folder = Path(tempfile.mkdtemp(dir=Path.cwd()))
            self._threads.server = subprocess.Popen(
                [sys.executable, Path(__file__).with_name("exercise_forks.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        files = {name: self._threads.folder / name for name in ("stdin", "stdout", "stderr")}
        files["stdin"].write_text(stdin, encoding="utf-8")
        request = {name: str(file) for name, file in files.items()}
        server = self._threads.server
        print(json.dumps(request | {"words": words, "variables": variables}), file=server.stdin)
        server.stdin.flush()
        code = int(server.stdout.readline())
        return code, *(files[name].read_bytes().decode() for name in ("stdout", "stderr"))

    def json(self, line: str, **options: Any) -> Any:
        """Run ``drt LINE --json``; return the object."""
        return json.loads(self(f"{line} --json", **options))

    def note(self, words: list[str]) -> None:
        """Remember a command, its options, and what it was given for an argument with choices."""
        name = next(
            " ".join(words[:n])
            for n in (3, 2, 1)
            if " ".join(words[:n]) in self.options or (n == 1 and words[0] == "train")
        )
        name = "train run" if name == "train" else name
        self.used.add(name)
        self.used |= {f"{name} {word.partition('=')[0]}" for word in words if word.startswith("--")}
        self.used |= {f"{name} {word}" for word in words if word in self.options[name]}

    def unused(self) -> set[str]:
        """Return commands, options and choices of arguments that were never used."""
        every = set(self.options)
        every |= {f"{name} {option}" for name, known in self.options.items() for option in known}
        return every - self.used - set(NOT_CALLED)


def _options_by_command() -> dict[str, set[str]]:
    """Return every command with its own options, and with the choices of its arguments."""
    import click

    from drt_cli.main import cli

    shared = {
        name
        for option in cli.params
        if isinstance(option, click.Option)
        for name in (*option.opts, *option.secondary_opts)
    }

    def walk(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[str, set[str]]]:
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                assert below is not None
                yield from walk(below, (*words, name))
            return
        names: set[str] = set()
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                spelt = {*parameter.opts, *parameter.secondary_opts} - shared
                names |= {name for name in spelt if name.startswith("--")}
            elif isinstance(parameter.type, click.Choice):
                names |= set(map(str, parameter.type.choices))
        yield " ".join(words), names

    return dict(walk(cli, ()))
