"""A decoder inside a model's folder answers where there is no reader pass."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from drt_engine.answer import decoder_quotes, judge
from drt_engine.answer.ask import ask
from drt_engine.answer.judge import calibration_name
from drt_engine.answer.options import AskOptions
from drt_engine.answer.places import ask_all
from drt_engine.config.model import ReaderConfig
from drt_engine.decoder import slices
from drt_engine.decoder.model import DeepMemory, Reading, RetrievalDecoder
from drt_engine.decoder.saved import save_decoder
from drt_engine.decoder.slices import Opened
from drt_engine.errors import WeightsError
from drt_engine.model.calibration import Calibration, QuoteCalibration, QuoteFeatures
from drt_engine.runtime import Runtime
from drt_engine.store import Store
from tests.engine.decoder.tiny import tiny_decoder, tiny_tokenizer
from tests.model_folder import MANUAL, library, model_folder, read

QUESTION = "Who keeps the key of the store?"


READER = ReaderConfig(layers=1, heads=4, mlp=48, positions=128, margin=4, longest_question=20)


def with_decoder(folder: Path, **changes: object) -> Runtime:
    shutil.copytree(model_folder(**changes), folder)
    save_decoder(tiny_decoder(), tiny_tokenizer(), folder / "decoder", dtype=torch.float32)
    return Runtime.load(folder, device="cpu", threads=1, dtype="fp32")


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return with_decoder(tmp_path / "model")


@pytest.fixture
def store(tmp_path: Path, runtime: Runtime) -> Iterator[Store]:
    (tmp_path / "manual.md").write_text(MANUAL, encoding="utf-8")
    with library(tmp_path / "library", runtime) as opened:
        read(opened, tmp_path / "manual.md", runtime)
        yield opened


@pytest.mark.thorough
def test_quotes_are_the_decoders_and_slices_of_the_document(runtime: Runtime, store: Store) -> None:
    options = AskOptions(reread=False, threshold=0.0, sources=frozenset({"reader"}))
    answer = ask(runtime, store, QUESTION, options)
    (row,) = store.documents()
    assert answer.citations
    for citation in answer.citations:
        assert store.text(row.id, citation.start, citation.end) == citation.quote
    assert calibration_name(runtime, reads_passages=False) == "decoder"
    shutil.rmtree(runtime.folder / "decoder")
    assert calibration_name(runtime, reads_passages=False) == "stored"
    without = ask(runtime, store, QUESTION, options)
    assert without.signals != answer.signals  # the quote head, whose memory has another reader


def test_a_chunk_without_an_answer_is_read_with_no_weight(
    runtime: Runtime, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings: list[Reading] = []
    opened = decoder_quotes.open_answer

    def open_answer(model: RetrievalDecoder, prompt: Sequence[int], reading: Reading) -> Opened:
        readings.append(reading)
        return opened(model, prompt, reading)

    def judged(model: RetrievalDecoder, memory: DeepMemory, *_: object) -> torch.Tensor:
        return torch.tensor([-40.0, 40.0]).repeat(len(memory.mask))[: len(memory.mask)]

    monkeypatch.setattr(decoder_quotes, "open_answer", open_answer)
    monkeypatch.setattr(slices, "judged", judged)
    ask(runtime, store, QUESTION, AskOptions(reread=False, sources=frozenset({"reader"})))
    weights = readings[0].log_weight[0].exp()
    assert len(weights) > 1 and weights.sum() == pytest.approx(1.0)
    assert all(weight < 1e-9 for weight in weights[0::2].tolist())


@pytest.mark.thorough
def test_every_place_is_the_decoders_too(runtime: Runtime, store: Store) -> None:
    found = ask_all(runtime, store, QUESTION, AskOptions(reread=False, threshold=0.0))
    assert found.groups


@pytest.mark.thorough
def test_a_broken_decoder_is_a_sentence(runtime: Runtime, store: Store) -> None:
    (runtime.folder / "decoder" / "model.safetensors").write_bytes(b"x")
    with pytest.raises(WeightsError, match="get it again"):
        ask(runtime, store, QUESTION, AskOptions(reread=False))


def test_a_quote_of_the_reader_loads_no_decoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"reread": False, "reread_relevance": False, "reread_layers": 0}
    loaded = with_decoder(tmp_path / "model", **changes, reader=READER)
    unheard = Calibration(quote=QuoteCalibration({"memory": 0.0}))
    model = replace(loaded, calibration={"reread": unheard})
    opened: list[Runtime] = []
    monkeypatch.setattr(judge, "passage_reader", opened.append)
    (tmp_path / "manual.md").write_text(MANUAL, encoding="utf-8")
    with library(tmp_path / "library", model) as store:
        read(store, tmp_path / "manual.md", model)
        ask(model, store, QUESTION, AskOptions(threshold=0.0))
        assert opened == []
        ask(model, store, QUESTION, AskOptions(threshold=0.0, reread=False))
        assert opened


@pytest.mark.thorough
def test_the_decoders_evidence_stands_beside_the_readers(tmp_path: Path) -> None:
    changes = {"reread": False, "reread_relevance": False, "reread_layers": 0}
    runtime = with_decoder(tmp_path / "model", **changes, reader=READER)
    (tmp_path / "manual.md").write_text(MANUAL, encoding="utf-8")
    heard: list[QuoteFeatures] = []
    alone: list[QuoteFeatures] = []
    with library(tmp_path / "library", runtime) as store:
        read(store, tmp_path / "manual.md", runtime)
        for features in (heard, alone):
            answer = ask(runtime, store, QUESTION, AskOptions(threshold=0.0))
            features += [form.features for quote in answer.candidates for form in quote]
            shutil.rmtree(runtime.folder / "decoder", ignore_errors=True)
    assert heard and {form.memory for form in alone} == {0.0}
    assert all(form.memory for form in heard)
    assert [form._replace(memory=0.0) for form in heard] == alone
