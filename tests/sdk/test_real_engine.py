"""The SDK over the engine itself, with an untrained model of the smallest size.

Nothing is said about how good an answer is, only that every part fits the next.
"""

from __future__ import annotations

import asyncio
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from drt import (
    Assistant,
    AsyncAssistant,
    ConfigError,
    LibraryError,
    ModelError,
    QuestionError,
    bench,
    evaluate,
    train_tokenizer,
    verify_model,
)
from tests.engine.decoder.tiny import tiny_decoder
from tests.sampling import sampled

WORDS = "The keeper of the lamp signs the log at dusk and at dawn, in ink, on page {n}. "


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch

    from drt_engine.config.model import preset
    from drt_engine.decoder.saved import save_decoder
    from drt_engine.model.drt import DRT
    from drt_engine.model.weights import save_model
    from drt_engine.text.tokenizer import Tokenizer
    from tests.engine.decoder.tiny import tiny_decoder, tiny_tokenizer

    folder = tmp_path_factory.mktemp("tiny")
    corpus = folder / "corpus.txt"
    corpus.write_text(WORDS * 50)
    tokenizer = Tokenizer.load(train_tokenizer([corpus], folder, vocab_size=400))
    torch.manual_seed(0)
    config = preset(
        "drt-tiny",
        vocab=tokenizer.vocab_size,
        pad_id=tokenizer.pad_id,
        landmark_id=tokenizer.landmark_id,
        answer_id=tokenizer.answer_id,
        end_id=tokenizer.end_id,
        quote_head=True,
    )
    save_model(DRT(config), tokenizer, folder / "model")
    save_decoder(tiny_decoder(), tiny_tokenizer(), folder / "model" / "decoder")
    return folder / "model"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "rules.txt"
    file.write_text("".join(WORDS.format(n=n) for n in range(60)), encoding="utf-8")
    return file


@pytest.mark.thorough
def test_reading_asking_and_summarising_fit_together(
    model: Path, text: Path, tmp_path: Path
) -> None:
    whole = text.read_text(encoding="utf-8")
    with Assistant(tmp_path / "library", model=model, device="cpu", threads=1) as assistant:
        document = assistant.ingest(text)
        assert document.new and document.characters == len(whole)
        assert not assistant.ingest(text).new
        answer = assistant.ask("Who signs the log?", threshold=0.0)
        assert answer.citations
        for citation in answer.citations:
            assert whole[citation.start : citation.end] == citation.quote
        assert assistant.trace("Who signs the log?").groups
        stream = assistant.stream("Who signs the log?", threshold=0.0)
        assert "".join(stream) == answer.text
        assert stream.answer is not None and stream.answer.citations == answer.citations
        assert assistant.ask("Who signs the log?", mode="free", max_tokens=3).mode == "free"
        summary = assistant.summarize(document)
        assert summary.sentences
        with pytest.raises(QuestionError):
            assistant.ask("?")
        assert assistant.library.check() == []


@pytest.mark.thorough
def test_a_session_goes_on_after_a_restart(model: Path, text: Path, tmp_path: Path) -> None:
    path = tmp_path / "library"
    questions = ["Who signs the log?", "And when?"]
    with Assistant(path, model=model, device="cpu", threads=1) as assistant:
        assistant.ingest(text)
        unbroken = assistant.session()
        at_once = [unbroken.ask(one, threshold=0.0) for one in questions]
    broken = []
    for question in questions:
        with Assistant(path, model=model, device="cpu", threads=1) as assistant:
            broken.append(assistant.session("kept").ask(question, threshold=0.0))
    assert [one.confidence for one in broken] == [one.confidence for one in at_once]
    assert [one.citations for one in broken] == [one.citations for one in at_once]
    with Assistant(path, model=model, device="cpu") as assistant:
        assert [turn.question for turn in assistant.session("kept").turns] == questions


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", sampled(["fp32", "bf16"], {1}))
def test_the_compute_type_is_the_one_asked_for(
    model: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    options: dict[str, Any] = {"model": model, "device": "cpu", "threads": 1, "dtype": dtype}
    with Assistant(tmp_path / "library", **options) as assistant:
        assistant.ingest(text)
        answer = assistant.ask("Who signs the log?", threshold=0.0)
        assert answer.citations[0].quote in text.read_text(encoding="utf-8")

    async def ask() -> None:
        async with AsyncAssistant(tmp_path / "library", **options) as other:
            again = await other.ask("Who signs the log?", threshold=0.0)
            assert again.citations == answer.citations

    asyncio.run(ask())
    from drt_lab.bench import ingest, parts

    # The type is that of this process; a process for its memory takes two seconds.
    monkeypatch.setattr(ingest, "run_process", lambda command: parts.ProcessTimes(1.0, 1.0, None))
    monkeypatch.setattr(parts, "_SIDE", 64)
    bits = bench("ingest", tokens=200, repetitions=1, **options)["calibration"]["matmul_bits"]
    assert bits == (16 if dtype == "bf16" else 32)


def test_another_compute_type_is_refused(model: Path, text: Path, tmp_path: Path) -> None:
    with (
        Assistant(tmp_path / "library", model=model, dtype="fp16") as assistant,
        pytest.raises(ConfigError, match="dtype is 'fp16', expected auto, bf16, fp32 or int8"),
    ):
        assistant.ingest(text)
    for work in (partial(bench, "kernels"), partial(evaluate, "ppl", corpus=text)):
        with pytest.raises(ConfigError, match="dtype is 'fp16', expected auto, bf16, fp32 or int8"):
            work(model=model, dtype="fp16")


def test_verifying_counts_the_parameters(model: Path) -> None:
    info = verify_model(model)
    decoder = sum(p.numel() for p in tiny_decoder().parameters())
    assert info.parameters and info.parameters > decoder and info.fingerprint
    without = model.with_name("without")
    shutil.copytree(model, without, ignore=shutil.ignore_patterns("decoder"))
    assert verify_model(without).parameters == info.parameters - decoder
    weights = model / "decoder" / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:1000])
    try:
        with pytest.raises(ModelError, match=r"decoder.model\.safetensors cannot be read"):
            verify_model(model)
    finally:
        weights.write_bytes(whole)


@pytest.mark.thorough
def test_between_the_pieces_of_a_stream_torch_is_the_callers(
    model: Path, text: Path, tmp_path: Path
) -> None:
    import torch

    with Assistant(tmp_path / "library", model=model, device="cpu", threads=1) as assistant:
        assistant.ingest(text)
        for _ in assistant.stream("Who signs the log?", threshold=0.0):
            assert not torch.is_inference_mode_enabled()
            assert not torch.is_autocast_enabled("cpu")


@pytest.mark.thorough
def test_results_of_an_approximate_index_say_so(model: Path, text: Path, tmp_path: Path) -> None:
    from tests.engine.store.test_index import plan

    library = tmp_path / "library"
    with Assistant(library, model=model, threads=1, approximate=True) as assistant:
        assistant.ingest(text)
        exact = assistant.search("the keeper of the lamp")
        assert exact.scan is not None and "no approximate index" in exact.scan.notes[0]
        with assistant._opened.working() as (_, store), store.snapshot() as view:
            store.make_index(view, plan(view), probes=2)
        answer = assistant.ask("Who signs the log?")
        assert answer.scan is not None and answer.to_dict()["scan"] == {
            "approximate": True,
            "probed_lists": 2,
            "lists": 5,
            "notes": [],
        }
        every = assistant.ask_all("Who signs the log?")
        assert every.scan is not None and every.scan.approximate
        named = assistant.ask("Who signs the log?", documents="rules.txt")
        assert named.scan is not None and "were named" in named.scan.notes[0]
        rows = assistant.library.index_recall(model=model, threads=1, questions=3, probes=[5])
        assert [row.recall for row in rows] == [1.0]
        assistant.library.set_index_probes(5)
        assert assistant.search("the keeper of the lamp").hits == exact.hits
    with Assistant(library, model=model, threads=1) as assistant:
        assert assistant.search("the keeper of the lamp").scan is None
        assistant.library.remove("rules.txt")
        with pytest.raises(LibraryError, match="no sentence to measure the index with"):
            assistant.library.index_recall(model=model, threads=1)


@pytest.mark.thorough
def test_siblings_answer_at_once_as_one_after_the_other(
    model: Path, text: Path, tmp_path: Path
) -> None:
    questions = [f"Who signs the log on page {n}?" for n in range(0, 40, 5)]

    def answers(assistant: Assistant) -> list[dict[str, Any]]:
        values = [assistant.ask(question, threshold=0.0).to_dict() for question in questions]
        return [{**value, "seconds": 0} for value in values]

    with Assistant(tmp_path / "library", model=model, device="cpu", threads=1) as assistant:
        assistant.ingest(text)
        alone = answers(assistant)
        sibling = assistant._sibling()
        with ThreadPoolExecutor(2) as pool:
            together = list(pool.map(answers, (assistant, sibling)))
        assert together == [alone, alone]
        sibling._opened.release()  # what is idle keeps nothing open, and opens it again
        assert answers(sibling) == alone
        sibling.close()
        assert assistant.library.check() == []
