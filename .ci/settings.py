"""Asks the handbook's questions under every setting that changes how a processor computes.

Run it with the Python of an environment that has nothing but the wheel, in an empty folder, as
``python settings.py EXAMPLES [EVERY]``; needs the standard library only. The handbook is read in
fp32 on one thread, and in bf16. Each setting is a process of its own, which asks every third
question (or every ``EVERY``-th) in a copy of that library, and goes through what else computes,
with a document that it reads itself. Settings that compute as another one does, and differ by
threads or by a variable alone, are asked a third of these questions, and where it is a variable,
nothing else. Those whose variables choose AVX2 where the processor has nothing better compute the
same, so that a ninth shows that the variable does no harm. Where bf16 is emulated, which takes
twenty times as long, its settings are asked a ninth, and the first of them reads a short document
in place of the handbook. The answers of any two settings must agree in at least 97
of 100 (one of up to 33 questions may differ), and every quote must be the document's text. Prints
one table, whose counts are those that agree with the first row.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

AGREEMENT = 0.97
EVERY = 3
QUESTION = "How much notice must a member give after the ship has sailed?"
ANSWER = "sixty days"


@dataclass(frozen=True)
class Setting:
    """A type, a number of threads, and variables; ``needs`` are flags of the processor.

    ``reads`` is true where the setting reads the handbook itself; the others share one reading. Of
    the questions every ``every``-th is asked. ``emulated`` is true where all but questions would
    take minutes, since its variables let bf16 be emulated. ``command_line`` adds runs of ``drt``
    itself, and ``home_is_read_only`` a home in which nothing can be made.
    """

    name: str
    dtype: str = "fp32"
    threads: int = 1
    variables: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    reads: bool = False
    every: int = 1
    emulated: bool = False
    command_line: bool = False
    home_is_read_only: bool = False

    @property
    def only_asks(self) -> bool:
        """Whether it goes through nothing but questions."""
        return self.emulated or (self.every > 1 and bool(self.variables) and not self.reads)


AVX2, AVX512 = ("avx2",), ("avx512f", "avx512vl", "avx512bw", "avx512dq")
FAST_BF16 = "avx512_bf16"
SETTINGS = (
    Setting("fp32, 1 thread"),
    Setting("bf16", "bf16", reads=True),
    Setting("auto, 2 threads", "auto", threads=2, every=3),
    Setting("int8", "int8", reads=True, every=3),
    Setting(
        "int8, oneDNN AVX2",
        "int8",
        variables={"ONEDNN_MAX_CPU_ISA": "AVX2"},
        needs=AVX2,
        every=3,
    ),
    Setting(
        "fp32, ATen default, C, read-only home",
        variables={"ATEN_CPU_CAPABILITY": "default", "LC_ALL": "C"},
        command_line=True,
        home_is_read_only=True,
    ),
    Setting("fp32, ATen avx2", variables={"ATEN_CPU_CAPABILITY": "avx2"}, needs=AVX2, every=3),
    # What such a processor takes for fp32 in any case: the variable must do no harm.
    Setting(
        "fp32, ATen avx512", variables={"ATEN_CPU_CAPABILITY": "avx512"}, needs=AVX512, every=3
    ),
    Setting("fp32, oneDNN AVX2", variables={"ONEDNN_MAX_CPU_ISA": "AVX2"}, needs=AVX2, every=3),
    Setting(
        "fp32, oneDNN AVX512_CORE",
        variables={"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
        needs=AVX512,
        every=3,
    ),
    Setting(
        "bf16, ATen avx2, oneDNN AVX2",
        "bf16",
        variables={"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
        needs=AVX2,
        every=9,
        emulated=True,
    ),
    Setting(
        "bf16, oneDNN AVX512_CORE",
        "bf16",
        variables={"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
        needs=AVX512,
        every=9,
        emulated=True,
    ),
)
SHARED = "shared.library"  # the handbook, read as the first setting computes


@dataclass(frozen=True)
class Result:
    """What one setting gave: its answers in order, and seconds of computing."""

    setting: Setting
    answers: list[dict[str, Any]]
    seconds: float
    lacking: str = ""


# the child: one setting


def read_handbook(examples: Path, library: Path) -> None:
    """Read the handbook in fp32 on one thread."""
    from drt import Assistant

    with Assistant(library, threads=1, dtype="fp32") as assistant:
        assistant.ingest(examples / "handbook.md")


def compute(request: dict[str, Any]) -> dict[str, Any]:
    """Ask all questions, and go through what else computes; return the answers."""
    from drt import Assistant

    examples, library = Path(request["examples"]), Path(request["library"])
    handbook = examples / "handbook.md"
    text = handbook.read_text(encoding="utf-8")
    options = {"threads": request["threads"], "dtype": request["dtype"]}
    with Assistant(library, **options) as assistant:
        document = assistant.ingest(handbook)
        if document.new != request["reads"]:
            raise SystemExit(f"the handbook was read: {document.new}")
        answers = list(assistant.ask_many(request["questions"], documents=document))
        exact = all(
            text[one.start : one.end] == one.quote for each in answers for one in each.citations
        )
        if not request["only_asks"]:
            _compute_the_rest(assistant, examples)
    return {
        "exact": exact,
        "answers": [_described(answer) for answer in answers],
    }


def _described(answer: Any) -> dict[str, Any]:
    place = [answer.citations[0].start, answer.citations[0].end] if answer.found else None
    return {"found": answer.found, "text": answer.text, "place": place}


def _compute_the_rest(assistant: Any, examples: Path) -> None:
    """Conversation, stream, free text, summaries and a trace, on a short document."""
    agreement = assistant.ingest(examples / "agreement.md")
    text = (examples / "agreement.md").read_text(encoding="utf-8")
    session = assistant.session("talk")
    answer = session.ask(QUESTION, documents=agreement)
    _expect(ANSWER in answer.text, f"session: {answer}")
    stream = assistant.session("talk").stream("And in what form?", documents=agreement)
    _expect("".join(stream) == stream.answer.text, "a stream")
    free = assistant.ask(QUESTION, documents=agreement, mode="free", max_tokens=8, threshold=0.0)
    _expect(free.mode == "free", f"free text: {free}")
    for mode in ("extractive", "abstractive"):
        summary = assistant.summarize(agreement, mode=mode, words=40)
        _expect(summary.text and summary.sentences, f"{mode}: {summary}")
        for one in summary.sentences:
            _expect(text[one.start : one.end] == one.quote, f"a sentence that is not exact: {one}")
    trace = assistant.trace(QUESTION, documents=agreement)
    _expect(ANSWER in trace.answer.text and trace.as_html(), "a trace")
    _expect(assistant.library.check() == [], "the library")


def _expect(condition: object, message: str) -> None:
    if not condition:
        raise SystemExit(f"settings: {message}")


# the parent


def main() -> None:
    """Run every setting, print the table, and fail where one differs."""
    examples = Path(sys.argv[1]).resolve()
    every = int(sys.argv[2]) if len(sys.argv) > 2 else EVERY
    questions = _questions(examples / "handbook-questions.jsonl")[::every]
    flags = _processor_flags()
    settings = [adapt(setting, flags) for setting in SETTINGS]
    # Two at a time, so that settings of one thread have a core each. While one reads for all, a
    # setting that reads for itself is run; those that emulate take longest, and come next.
    order = sorted(settings, key=lambda each: (not each.reads, not each.emulated))
    with ThreadPoolExecutor(2) as pool:
        reading = pool.submit(share_reading, examples)

        def run_when_read(setting: Setting) -> Result:
            if not setting.reads:
                reading.result()
            return run(setting, examples, questions, flags)

        runs = {setting.name: pool.submit(run_when_read, setting) for setting in order}
        results = [runs[setting.name].result() for setting in settings]
    print(table(results))
    for one, other in combinations([result for result in results if not result.lacking], 2):
        agreeing, total = _agreement(one, other)
        # One may differ where 97 of 100 of so few would be all.
        _expect(
            total - agreeing <= max(1, (1 - AGREEMENT) * total),
            f"{agreeing} of {total} answers of {one.setting.name} and {other.setting.name} agree, "
            f"expected {AGREEMENT:.0%}",
        )


def adapt(setting: Setting, flags: set[str] | None) -> Setting:
    """Ask less where this processor computes as under another setting, or emulates bf16."""
    if flags is None:
        return setting
    same = setting.needs == AVX2 and not flags.issuperset(AVX512)
    if setting.dtype == "bf16" and FAST_BF16 not in flags:
        return replace(setting, reads=False, every=9)
    return replace(setting, every=9) if same else setting


def share_reading(examples: Path) -> None:
    """Read the handbook for all settings that do not read it themselves."""
    environment = _environment(SETTINGS[0], Path.cwd())
    command = [sys.executable, "-P", __file__, "--read", str(examples), SHARED]
    subprocess.run(command, env=environment, timeout=1200, check=True)


def run(setting: Setting, examples: Path, questions: list[str], flags: set[str] | None) -> Result:
    """Run one setting in a process of its own, unless the processor lacks what it needs."""
    lacking = set() if flags is None else set(setting.needs) - flags
    if lacking or (flags is None and setting.needs):
        return Result(setting, [], 0.0, ", ".join(sorted(lacking)) or "x86")
    folder = Path(setting.name.replace(", ", "-").replace(" ", "-")).absolute()
    folder.mkdir()
    library = folder / "library"
    if not setting.reads:
        shutil.copytree(SHARED, library)
    request = {
        "examples": str(examples),
        "library": str(library),
        "questions": questions[:: setting.every],
        "dtype": setting.dtype,
        "threads": setting.threads,
        "reads": setting.reads,
        "only_asks": setting.only_asks,
    }
    environment = _environment(setting, folder)
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-P", __file__, "--setting", json.dumps(request)],
        env=environment,
        capture_output=True,
        timeout=1200,
        check=False,
    )
    seconds = time.monotonic() - began
    _expect(
        ended.returncode == 0 and ended.stdout, f"under {setting.name}: {ended.stderr.decode()}"
    )
    result = json.loads(ended.stdout)
    _expect(result["exact"], f"a quote that is not the handbook's text under {setting.name}")
    if setting.command_line:
        run_commands(setting, folder, examples, environment)
    return Result(setting, result["answers"], seconds)


def run_commands(
    setting: Setting, folder: Path, examples: Path, environment: dict[str, str]
) -> None:
    """Ask, chat, show and summarise from the command line under one setting."""
    library = ["--library", str(folder / "commands.library")]
    agreement = str(examples / "agreement.md")
    for words, typed, printed in (
        (["ask", QUESTION, agreement, *library], "", ANSWER),
        (["ask", "--session", "café", QUESTION, *library], "", ANSWER),
        (["chat", "--session", "café", *library], f"{QUESTION}\n/quit\n", ANSWER),
        (["session", "list", *library], "", "turns"),
        (["summarize", agreement, "--words", "40", *library], "", "[1]"),
        (["doctor", *library], "", "OK"),
    ):
        ended = subprocess.run(
            [Path(sysconfig.get_path("scripts")) / "drt", *words],
            env=environment,
            input=typed.encode(),
            capture_output=True,
            timeout=300,
            check=False,
        )
        output = ended.stdout.decode() + ended.stderr.decode()
        sound = ended.returncode == 0 and printed in output and "Traceback" not in output
        _expect(sound, f"drt {words} under {setting.name} ended with {ended.returncode}: {output}")


def _environment(setting: Setting, folder: Path) -> dict[str, str]:
    variables = {
        "OMP_NUM_THREADS": str(setting.threads),
        "HOME": str(_read_only_home(folder) if setting.home_is_read_only else folder),
    }
    cleared = ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "LANG")
    kept = {name: value for name, value in os.environ.items() if name not in cleared}
    return kept | variables | setting.variables


def _read_only_home(folder: Path) -> Path:
    """Return a folder in which this user can make nothing."""
    if os.geteuid() == 0 and Path("/proc/sys").is_dir():
        return Path("/proc/sys")  # modes do not bind root, the kernel's own folders do
    home = folder / "home"
    home.mkdir(mode=0o555)
    return home


def _questions(path: Path) -> list[str]:
    """Return the questions that one place answers, or none."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [row["question"] for row in rows if row["kind"] != "abstractive"]


def _processor_flags() -> set[str] | None:
    """Return the instruction sets of this processor, None where it is not an x86."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return None
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return set(next((line for line in lines if line.startswith("flags")), "").split())


def _agreement(result: Result, other: Result) -> tuple[int, int]:
    """Return how many of the questions that both were asked have equal answers, and their count."""
    step = max(result.setting.every, other.setting.every)
    pairs = list(
        zip(
            result.answers[:: step // result.setting.every],
            other.answers[:: step // other.setting.every],
            strict=True,
        )
    )
    return sum(answer == another for answer, another in pairs), len(pairs)


def table(results: list[Result]) -> str:
    """Return one row for each setting: answers that agree with the first row's, and seconds."""
    return "\n".join(_rows(results))


def _rows(results: list[Result]) -> Iterator[str]:
    first = results[0]
    yield f"{'setting':<38} {'answers that agree':>18} {'found':>6} {'exact':>6} {'seconds':>8}"
    for result in results:
        if result.lacking:
            yield f"{result.setting.name:<38} skipped: this processor lacks {result.lacking}"
            continue
        count, total = _agreement(result, first)
        found = sum(answer["found"] for answer in result.answers)
        agree = f"{count} of {total}"
        yield (
            f"{result.setting.name:<38} {agree:>18} {found:>6} {'all':>6} {result.seconds:>8.1f}"
        )


if __name__ == "__main__":
    if sys.argv[1] == "--setting":
        print(json.dumps(compute(json.loads(sys.argv[2]))))
    elif sys.argv[1] == "--read":
        read_handbook(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        main()
