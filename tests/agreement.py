"""Whether the shipped model gives the same answers in every compute type and on every processor.

``python tests/agreement.py`` asks the handbook's questions in one process for each setting,
compares the answers with those of the first, and prints a table; the exit code is 1 where fewer
than 97 of 100 agree, or a quote is not exact. ``--questions 20`` asks only so many, ``--only bf16``
takes the settings whose name holds the word, besides the first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).parents[1]
HANDBOOK = ROOT / "examples" / "handbook.md"
QUESTIONS = ROOT / "examples" / "handbook-questions.jsonl"
LEAST_AGREEMENT = 0.97


@dataclass(frozen=True)
class Setting:
    """A compute type, a number of threads, and what tells the kernels which processor this is."""

    name: str
    dtype: str = "fp32"
    threads: int = 1
    environment: dict[str, str] = field(default_factory=dict)


SETTINGS = (
    Setting("fp32, 1 thread"),
    Setting("fp32, 2 threads", threads=2),
    Setting("bf16, 1 thread", "bf16"),
    Setting("bf16, 2 threads", "bf16", threads=2),
    *(
        Setting(f"{dtype}, {variable}={value}", dtype, environment={variable: value})
        for dtype in ("fp32", "bf16")
        for variable, values in (
            ("ATEN_CPU_CAPABILITY", ("default", "avx2", "avx512")),
            ("ONEDNN_MAX_CPU_ISA", ("AVX2", "AVX512_CORE")),
        )
        for value in values
    ),
)


@dataclass(frozen=True)
class Outcome:
    """What one setting answered, and how long a question took it, in seconds."""

    answers: list[str]
    inexact: int
    seconds: float


def disagrees(outcome: Outcome, first: Outcome) -> bool:
    """Whether too few answers are those of the first setting, or a quote is not exact."""
    return outcome.inexact > 0 or _equal(outcome, first) < LEAST_AGREEMENT * len(first.answers)


def _equal(outcome: Outcome, first: Outcome) -> int:
    return sum(a == b for a, b in zip(outcome.answers, first.answers, strict=True))


def measure(setting: Setting, questions: Path) -> Outcome:
    """Read the handbook and ask all questions with this setting, in a process of its own."""
    environment = os.environ | setting.environment | {"OMP_NUM_THREADS": str(setting.threads)}
    command = [sys.executable, __file__, "--answer", setting.dtype, str(setting.threads)]
    done = subprocess.run(
        [*command, str(questions)], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return Outcome(**json.loads(done.stdout))


def answer(dtype: str, threads: int, questions: Sequence[str]) -> dict[str, Any]:
    """Return the answers and citations in this process, as the fields of an ``Outcome``."""
    from drt import Assistant

    text = HANDBOOK.read_text(encoding="utf-8")
    answers: list[str] = []
    inexact, begun = 0, 0.0
    options: dict[str, Any] = {"device": "cpu", "dtype": dtype, "threads": threads}
    with (
        tempfile.TemporaryDirectory(prefix="drt-agreement-") as folder,
        Assistant(Path(folder) / "library", **options) as assistant,
    ):
        assistant.ingest(HANDBOOK)
        begun = time.perf_counter()
        for result in assistant.ask_many(questions):
            answers.append(result.text)
            inexact += sum(text[c.source_start : c.source_end] != c.quote for c in result.citations)
        seconds = (time.perf_counter() - begun) / len(questions)
    return {"answers": answers, "inexact": inexact, "seconds": seconds}


@click.command()
@click.option("--questions", "count", type=click.IntRange(min=1), help="Ask only the first.")
@click.option("--only", default="", help="Settings whose name holds this, and the first.")
def main(count: int | None, only: str) -> None:
    """Print how many answers each setting has in common with the first."""
    lines = QUESTIONS.read_text(encoding="utf-8").splitlines()[:count]
    asked = [json.loads(line)["question"] for line in lines]
    settings = [s for s in SETTINGS if s is SETTINGS[0] or only in s.name]
    click.echo("| setting | answers equal | quotes not exact | ms a question |\n|---|---|---|---|")
    failed = False
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(asked, file)
        file.flush()
        for number, setting in enumerate(settings):
            outcome = measure(setting, Path(file.name))
            if number == 0:
                first = outcome
            failed |= disagrees(outcome, first)
            cells = (setting.name, f"{_equal(outcome, first)} of {len(asked)}", outcome.inexact)
            click.echo(f"| {' | '.join(map(str, cells))} | {1000 * outcome.seconds:.0f} |")
    sys.exit(failed)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--answer"]:
        _, _, chosen_dtype, chosen_threads, path = sys.argv
        asked_here = json.loads(Path(path).read_text(encoding="utf-8"))
        print(json.dumps(answer(chosen_dtype, int(chosen_threads), asked_here)))
    else:
        main()
