"""The door to all evaluations: a task's name and its options in, the documented JSON out."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drt_engine.errors import ConfigError
from drt_engine.runtime import Runtime
from drt_engine.store.types import ENCODINGS, Encoding
from drt_lab.config.load import build
from drt_lab.evaluate.calibrate import CalibrateOptions, evaluate_calibrate
from drt_lab.evaluate.files import FilesOptions, evaluate_files
from drt_lab.evaluate.needle import NeedleEvaluation, evaluate_needle
from drt_lab.evaluate.passkeys.evaluation import PasskeyEvaluation, evaluate_passkey
from drt_lab.evaluate.perplexity import PerplexityOptions, evaluate_perplexity
from drt_lab.evaluate.qa import QAOptions, evaluate_qa
from drt_lab.evaluate.records import RecordsEvaluation, evaluate_records
from drt_lab.evaluate.report import EvalReport
from drt_lab.evaluate.retrieval import RetrievalOptions, evaluate_retrieval
from drt_lab.evaluate.summaries import SummaryEvaluation, evaluate_summary
from drt_lab.evaluate.written_summaries import WrittenSummaries, evaluate_written_summaries
from drt_lab.lm.runtime import LanguageRuntime

_FILE_LISTS = ("qa", "docs")  # one file may be given without a list
_UNITS = {"k": 1024, "m": 1024 * 1024}


@dataclass(frozen=True)
class _Task:
    options: type
    run: Callable[[Any, Any], EvalReport]
    stores: bool = False  # in libraries, so ``records`` can be chosen
    streams: bool = False  # needs a language model alone, of any architecture


TASKS: dict[str, _Task] = {
    "qa": _Task(QAOptions, evaluate_qa, stores=True),
    "files": _Task(FilesOptions, evaluate_files, stores=True),
    "retrieval": _Task(RetrievalOptions, evaluate_retrieval, stores=True),
    "needle": _Task(NeedleEvaluation, evaluate_needle, stores=True),
    "ppl": _Task(PerplexityOptions, evaluate_perplexity, streams=True),
    "passkey": _Task(PasskeyEvaluation, evaluate_passkey, streams=True),
    "records": _Task(RecordsEvaluation, evaluate_records, streams=True),
    "summary": _Task(SummaryEvaluation, evaluate_summary),
    "summary-lm": _Task(WrittenSummaries, evaluate_written_summaries, streams=True),
    "calibrate": _Task(CalibrateOptions, evaluate_calibrate),
}


def load_for(task: str, model: str | Path, **options: Any) -> Runtime | LanguageRuntime:
    """Load a model by name or folder as ``task`` needs it; ``options`` as for ``Runtime.load``.

    Raises ``WeightsError`` for a model that cannot be used for the task.
    """
    if task in TASKS and TASKS[task].streams:
        return LanguageRuntime.load(model, **options)
    return Runtime.load(model, **options)


def evaluate(
    runtime: Runtime | LanguageRuntime, task: str, options: dict[str, object]
) -> dict[str, Any]:
    """Measure a model on one task; the fields of the task's dataclass are its options.

    ``qa`` and ``docs`` are a file or a list of files. Lengths may be numbers or text such as
    "4k,1m". qa, files, retrieval and needle also take ``records``, int8 or bf16: how chunk memory
    is kept. Raises ``ConfigError`` for an unknown task or option, a wrong value, and data that
    cannot be used.
    """
    if task not in TASKS:
        raise ConfigError(f"no evaluation is called {task!r}; there are {', '.join(TASKS)}")
    entry = TASKS[task]
    arguments = plain_options(options)
    if entry.streams and isinstance(runtime, Runtime):
        runtime = LanguageRuntime.of(runtime)
    if entry.stores and "records" in arguments and isinstance(runtime, Runtime):
        runtime = runtime.keeping(_records(task, arguments.pop("records")))
    return entry.run(runtime, build(entry.options, arguments, f"{task}.")).to_dict()


def check_options(task: str, options: Mapping[str, object], *, also: Iterable[str] = ()) -> None:
    """Raise ``ConfigError`` for a task or options that ``evaluate`` would not take.

    ``also`` are names of other measurements that a message lists.
    """
    if task not in TASKS:
        names = [*TASKS, *also]
        matches = difflib.get_close_matches(task, names, n=1)
        hint = f"; did you mean {matches[0]!r}?" if matches else ""
        raise ConfigError(f"no evaluation is called {task!r}; there are {', '.join(names)}{hint}")
    arguments = plain_options(options)
    if TASKS[task].stores and "records" in arguments:
        _records(task, arguments.pop("records"))
    build(TASKS[task].options, arguments, f"{task}.")


def plain_options(options: Mapping[str, object]) -> dict[str, object]:
    """Return options as the strict reader of configurations takes them: lengths as numbers."""
    return {key: _plain(key, value) for key, value in options.items()}


def _plain(key: str, value: object) -> object:
    """Return an option as the strict reader of configurations takes it."""
    if key in _FILE_LISTS and isinstance(value, str | Path):
        return [_plain("", value)]
    if key == "lengths" and isinstance(value, str):
        return [token_count(part) for part in value.split(",")]
    if key == "length" and isinstance(value, str):
        return token_count(value)
    if isinstance(value, tuple | list):
        return [_plain("", item) for item in value]
    return value


def _records(task: str, value: object) -> Encoding:
    for encoding in ENCODINGS:
        if value == encoding:
            return encoding
    raise ConfigError(f"{task}.records is {value!r}, expected one of {ENCODINGS}")


def token_count(text: str) -> int:
    """Return a number of tokens out of 4096, 4k or 1m; raises ConfigError for anything else."""
    number, unit = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    if not number.isdecimal() or int(number) == 0:
        raise ConfigError(f"{text!r} is not a number of tokens; write 4096, 64k or 1m")
    return int(number) * unit
