"""Reading and asking on a GPU: what the CPU gives, in every mode. Run with ``-m gpu``.

The model has the shape of the shipped one and random weights.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from drt_engine.answer.ask import ask
from drt_engine.answer.options import AskOptions
from drt_engine.answer.session import SessionState
from drt_engine.documents import Source
from drt_engine.generate.decode import Decoder
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.model.drt import DRT
from drt_engine.model.folder import model_folder
from drt_engine.model.weights import load_config, save_model
from drt_engine.retrieval.sources import StreamSource
from drt_engine.runtime import Runtime
from drt_engine.store import Store
from drt_engine.summary.options import SummaryOptions
from drt_engine.summary.summarize import summarize
from drt_engine.text.tokenizer import Tokenizer
from drt_kernels.testing import assert_close
from drt_lab.bench.parts import generated_text

pytestmark = pytest.mark.gpu
QUESTION = "Which words are said of the harbour at the market?"
DTYPES = pytest.mark.parametrize("dtype", ["fp32", "bf16"])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with all parts of the shipped model."""
    shipped, folder = model_folder("drt-small-en"), tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    tokenizer = Tokenizer.load(shipped / "tokenizer.json")
    save_model(DRT(load_config(shipped)), tokenizer, folder, dtype=torch.float32)
    shutil.copy(shipped / "calibration.json", folder)
    return folder


@pytest.fixture(scope="module")
def cpu(model: Path) -> Runtime:
    return Runtime.load(model, device="cpu", dtype="fp32")


@pytest.fixture(scope="module")
def library(cpu: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A library of some hundred chunks, read on the CPU."""
    folder = tmp_path_factory.mktemp("library")
    with opened(cpu, folder) as store:
        yield store


def opened(runtime: Runtime, folder: Path) -> Store:
    """A new library with one document."""
    store = Store.open(
        folder / "library", fingerprint=runtime.fingerprint, layout=runtime.layout, create=True
    )
    file = folder / "text.txt"
    file.write_text(generated_text(6000), encoding="utf-8")
    ingest_source(runtime, store, Source.from_path(file))
    return store


@pytest.mark.parametrize(("dtype", "ratio"), [("fp32", 1e-3), ("bf16", 5e-2)])
def test_what_is_read_is_what_the_cpu_reads(
    model: Path, cpu: Runtime, dtype: str, ratio: float
) -> None:
    ids = torch.randint(1000, cpu.config.vocab, (150, cpu.config.chunk))
    valid = torch.rand(ids.shape) < 0.9
    here = Runtime.load(model, device="cuda", dtype=dtype)
    wanted, actual = (runtime.read(ids, valid, skip=3) for runtime in (cpu, here))
    for name in ("landmarks", "keys", "values"):
        reference, value = (getattr(memory, name) for memory in (wanted, actual))
        shown = actual.mask if name != "landmarks" else slice(None)
        assert_close(name, reference[shown].float(), value[shown].float(), ratio)


@DTYPES
def test_a_library_is_read_and_asked(model: Path, dtype: str, tmp_path: Path) -> None:
    runtime = Runtime.load(model, device="cuda", dtype=dtype)
    with opened(runtime, tmp_path) as store:
        for mode in ("quote", "free"):
            options = AskOptions(mode=mode, max_tokens=8, threshold=0.0, record=True)  # type: ignore[arg-type]
            assert ask(runtime, store, QUESTION, options).trace.tokens
        name = store.documents()[0].id
        for mode in ("extractive", "abstractive"):
            summary = summarize(runtime, store, name, SummaryOptions(mode=mode))  # type: ignore[arg-type]
            assert summary.text
        session = SessionState(runtime, store, "asked")
        for mode in ("quote", "free"):
            options = AskOptions(mode=mode, max_tokens=8, threshold=0.0)  # type: ignore[arg-type]
            ask(runtime, store, QUESTION, options, session=session)
        session.save()
        restored = SessionState.restore(runtime, store, "asked")
        ask(runtime, store, QUESTION, AskOptions(threshold=0.0), session=restored)


def test_an_answer_is_that_of_the_cpu(model: Path, cpu: Runtime, library: Store) -> None:
    here = Runtime.load(model, device="cuda", dtype="fp32")
    options = AskOptions(threshold=0.0)
    wanted, actual = (ask(runtime, library, QUESTION, options) for runtime in (cpu, here))
    assert actual.text == wanted.text
    assert actual.confidence == pytest.approx(wanted.confidence, abs=1e-3)


@DTYPES
def test_steps_of_a_graph_are_steps_without(model: Path, dtype: str) -> None:
    runtime = Runtime.load(model, device="cuda", dtype=dtype)
    ids = torch.randint(1000, runtime.config.vocab, (5 * runtime.config.chunk + 9,)).tolist()
    states = []
    with runtime.computing():
        for graph in (False, True):
            source = StreamSource(runtime.config.retrieved)
            decoder = Decoder(runtime.model, source, dtype=runtime.dtype, graph=graph)
            states.append(torch.cat([decoder.feed([token]) for token in ids]))
    assert_close("states", *states, 1e-3 if dtype == "fp32" else 5e-2)
