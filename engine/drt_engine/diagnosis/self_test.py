"""The child process of ``diagnose``: loads the model, reads a small text, asks it, and compares.

Started as ``python -m drt_engine.diagnosis.self_test REQUEST``, a JSON object. Every step prints a
line of JSON before it begins and one for each thing it learned, so that the parent knows where a
process that is killed by a signal was.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drt_engine.runtime import Runtime

QUESTION = "How many days of notice must a keeper give?"
QUOTE = "forty-five"
TEXT = """\
Rules of the lighthouse

The lamp is lit at sunset and put out at sunrise. The keeper on watch writes the hour, the wind and
the height of the tide into the log, and signs it.

A keeper who wants to leave the service must give notice of forty-five days in writing. Nobody may
leave before the relief boat has come, whatever the weather.

In fog the bell is rung every ninety seconds. When the bell is broken, the gun is fired twice an
hour until the fog has gone.
"""


def main(request: dict[str, Any]) -> None:
    """Run the steps in turn; the first that fails ends them."""
    steps: tuple[tuple[str, Callable[[dict[str, Any]], None]], ...] = (
        ("importing PyTorch", _import_torch),
        ("choosing where to compute", _describe_computing),
        ("loading the model", _load),
        ("reading and asking a text", _read_and_ask),
    )
    state = dict(request)
    for name, step in steps:
        _print(step=name)
        try:
            step(state)
        except Exception as error:  # the parent tells the user; a traceback tells less
            _print(error=f"{type(error).__name__}: {error}", known=_is_known(error))
            return
    _print(done=True)


def _import_torch(_state: dict[str, Any]) -> None:
    import torch

    capability = torch.backends.cpu.get_cpu_capability()
    _print(check="PyTorch", value=f"{torch.__version__}, its kernels use {capability}")


def _describe_computing(state: dict[str, Any]) -> None:
    import torch

    from drt_engine.runtime import choose_device, choose_dtype
    from drt_engine.threads import choose_threads

    device = choose_device(state["device"])
    dtype = choose_dtype(state["dtype"], device)
    name = "bf16" if dtype == torch.bfloat16 else "fp32"
    name = "int8" if state["dtype"] == "int8" else name
    _print(check="type", value=f"{name}: {_type_reason(state['dtype'], device.type, name)}")
    threads = choose_threads(state["threads"])
    _print(check="threads", value=f"{threads.count}: {threads.reason}")
    if device.type == "cuda":
        seen = torch.cuda.get_device_name(device)
    elif state["device"] == "cpu":
        seen = "asked for"
    else:
        seen = "PyTorch finds no CUDA device"
    _print(check="device", value=f"{device.type}: {seen}")


def _type_reason(requested: str, device: str, dtype_name: str) -> str:
    if requested != "auto":
        return "asked for"
    if device == "cuda":
        return "a GPU computes fastest in it"
    if dtype_name == "bf16":
        return "this processor multiplies matrices faster in bf16 (AMX, or AVX512-BF16 on AMD)"
    return "this processor has no instructions that make bf16 faster"


def _load(state: dict[str, Any]) -> None:
    from drt_engine.runtime import Runtime

    began = time.perf_counter()
    runtime = Runtime.load(
        _model(state), device=state["device"], threads=state["threads"], dtype=state["dtype"]
    )
    seconds = time.perf_counter() - began
    size = sum(file.stat().st_size for file in runtime.folder.glob("*.safetensors")) / 1e6
    value = f"{runtime.name}, {size:.1f} MB, {runtime.fingerprint[:12]}, loaded in {seconds:.1f} s"
    _print(check="model", value=value)
    state["runtime"] = runtime


def _read_and_ask(state: dict[str, Any]) -> None:
    from drt_engine.model.folder import shipped_models

    runtime: Runtime = state["runtime"]
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="drt-doctor-") as folder:
        text, quotes = _ask(runtime, Path(folder))
    seconds = time.perf_counter() - began
    if not quotes:
        _print(check="self-test", problem="the question got no quote")
    elif any(text[start:end] != quote for start, end, quote in quotes):
        _print(check="self-test", problem=f"a quote is not the document's text: {quotes[0]}")
    elif runtime.folder in shipped_models().values() and QUOTE not in quotes[0][2]:
        problem = f"asked {QUESTION!r}, expected {QUOTE!r}, the quote is {quotes[0][2]!r}"
        _print(check="self-test", problem=problem)
    else:
        value = f'OK: read a text, asked it, and got "{quotes[0][2]}" in {seconds:.1f} s'
        _print(check="self-test", value=value)


def _ask(runtime: Runtime, folder: Path) -> tuple[str, list[tuple[int, int, str]]]:
    """Read the text into a library of its own; return what was read, and the answer's quotes."""
    from drt_engine.answer.ask import ask
    from drt_engine.answer.options import AskOptions
    from drt_engine.documents import Source
    from drt_engine.ingest.pipeline import ingest_source
    from drt_engine.store import Store

    file = folder / "rules.txt"
    file.write_text(TEXT, encoding="utf-8")
    with Store.open(
        folder / "library", fingerprint=runtime.fingerprint, layout=runtime.layout, create=True
    ) as store:
        row, _ = ingest_source(runtime, store, Source.from_path(file))
        text = "".join(store.iter_text(row.id))
        result = ask(runtime, store, QUESTION, AskOptions(threshold=0.0))
    return text, [(citation.start, citation.end, citation.quote) for citation in result.citations]


def _model(state: dict[str, Any]) -> str | Path:
    return Path(state["model"]) if state["model_is_path"] else str(state["model"])


def _is_known(error: Exception) -> bool:
    """Return whether an error is a sentence for the user, of drt or of the system."""
    from drt_engine.errors import EngineError

    return isinstance(error, EngineError)


def _print(**values: Any) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
