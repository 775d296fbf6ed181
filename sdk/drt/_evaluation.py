"""Evaluations and benchmarks from Python: options in, the documented JSON out as a dict."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, get_args

from . import _engine
from ._errors import engine_errors
from ._evaluators import run_evaluator
from ._plugins import plugin_names
from ._tasks import BenchName, EvaluationTask


def evaluate(
    task: EvaluationTask | str,
    *,
    model: str | os.PathLike[str] = "drt-small-en",
    device: str = "auto",
    threads: int | None = None,
    dtype: str = "auto",
    quiet: bool = False,
    **options: object,
) -> dict[str, Any]:
    """Measure a model on one task, next to the task's baselines.

    Options: qa, retrieval and calibrate take qa and docs, each a file or a list of files, limit,
    source and retriever; qa also takes reread, both and given_chunk, retrieval judged, calibrate
    out, the model folder that gets calibration.json, plot, a file to draw the reliability to, also
    and files, further pairs, and among, a library of those files; files takes questions, folder,
    file, limit, retriever, lexical, joint, among and reread; needle takes corpus, lengths, needles,
    hops, seed, retriever
    and reread; passkey takes lengths, cases, answer, hops, noise, seed and folder; records takes
    lengths, rows, names, values, apart, seed and choices; ppl takes corpus, length, limit, lengths,
    memory, choices and window; summary takes data, limit, source, mode and both, and summary-lm
    data, limit, source, chunks, longest and write. qa, retrieval and needle take records, "int8" or
    "bf16": how chunk memory is kept while they run. A terminal on stderr sees a bar unless
    ``quiet``. The task may be an evaluator of a plug-in, too, with its own options.
    """
    if task not in get_args(EvaluationTask) and task in plugin_names("evaluator"):
        shared = {"model": model, "device": device, "threads": threads, "dtype": dtype}
        return run_evaluator(task, shared, _set_options(options))
    with engine_errors(), _engine.silenced(quiet):
        runtime = _engine.load_runtime(
            _named(model), device=device, threads=threads, dtype=dtype, task=task
        )
        return _engine.evaluate(runtime, task, _set_options(options))


def bench(
    name: BenchName,
    *,
    model: str | os.PathLike[str] = "drt-small-en",
    device: str = "auto",
    threads: int | None = None,
    dtype: str = "auto",
    **options: object,
) -> dict[str, Any]:
    """Time one part of the program, next to something timed in the same run.

    Options: repetitions, tokens of made-up text, or file, a document to read, and question;
    questions, a file with a question on each line, for ask; shape, "small" or "128m", of what
    kernels, decode, train and models time; compile, for one more row of train; pages, of the PDF
    files that pdf makes; files, the number of small ones that library reads again, of the largest
    library of documents, or of uploads to serve; results, a file that keeps the rows of models,
    which then goes on where it was, and the minutes that it may take; clients, seconds, steps,
    workers (servers) and max_wait of serve, which also takes a file with its question, and needs
    the extra serve.
    """
    shared: dict[str, object] = {
        "model": _named(model),
        "device": device,
        "threads": threads,
        "dtype": dtype,
    }
    if name == "serve":
        from ._serving import bench_server

        return bench_server(shared, _set_options(options))
    with engine_errors():
        return _engine.bench(name, shared | _set_options(options))


def trace_stream(
    file: str | os.PathLike[str],
    *,
    tokens: int = 16384,
    model: str | os.PathLike[str] = "drt-small-en",
    device: str = "auto",
    threads: int | None = None,
    dtype: str = "auto",
) -> dict[str, Any]:
    """Return which earlier chunks each chunk of a plain text retrieves, by group of layers.

    Reads the first ``tokens`` tokens. ``stream_view`` makes text or a page of it.
    """
    with engine_errors():
        runtime = _engine.load_runtime(
            _named(model), device=device, threads=threads, dtype=dtype, task="ppl"
        )
        return _engine.trace_stream(runtime, Path(file), tokens=tokens)  # type: ignore[arg-type]


def stream_view(trace: dict[str, Any], form: Literal["text", "html"] = "text") -> str:
    """Return the result of ``trace_stream`` as a listing, or as a page of HTML."""
    return _engine.stream_page(trace) if form == "html" else _engine.stream_text(trace)


def report_table(result: dict[str, Any]) -> str:
    """Return the result of ``evaluate`` or ``bench`` as a table."""
    return _engine.report_table(result)


def _named(model: str | os.PathLike[str]) -> str | Path:
    return model if isinstance(model, str) else Path(model)


def _set_options(options: dict[str, object]) -> dict[str, object]:
    """Return the options that were set: None stands for the engine's own default."""
    return {key: value for key, value in options.items() if value is not None}
