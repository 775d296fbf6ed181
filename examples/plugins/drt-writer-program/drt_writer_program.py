"""A program of yours as the writer: it reads the prompt, and prints the answer.

``drt ask QUESTION --writer program --writer-model "ollama run llama3.2"``
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator

from drt import WriterOptions


def write(messages: list[dict[str, str]], options: WriterOptions) -> Iterator[str]:
    """Yield the lines that the program prints; what is raised is the reason of the failure."""
    command = shlex.split(options.model)
    if not command:
        raise ValueError('--writer-model names no program, such as "ollama run llama3.2"')
    prompt = "\n\n".join(message["content"] for message in messages)
    ended = subprocess.run(
        command, input=prompt, capture_output=True, text=True, timeout=options.timeout, check=False
    )
    if ended.returncode:
        raise RuntimeError(f"{command[0]} ended with {ended.returncode}: {ended.stderr[-200:]}")
    yield from ended.stdout.splitlines(keepends=True)
