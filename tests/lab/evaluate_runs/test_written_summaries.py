"""`drt eval summary-lm`: perplexity of summaries, and ROUGE of what a language model writes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from unittest import mock

import pytest
import torch

from drt_engine.errors import ConfigError
from drt_lab.data.summary_streams import summary_losses, summary_streams
from drt_lab.evaluate import written_summaries
from drt_lab.evaluate.written_summaries import WrittenSummaries, evaluate_written_summaries
from drt_lab.lm.build import make_model
from drt_lab.lm.losses import stream_loss
from drt_lab.lm.runtime import LanguageRuntime
from tests.engine.model.factories import tiny
from tests.fakes import byte_tokenizer
from tests.tables import each_row

TOKENIZER = byte_tokenizer()
SUMMARY = "Bees hum here."


@pytest.fixture(params=["drt", "base"])
def runtime(request: pytest.FixtureRequest) -> LanguageRuntime:
    ids = {
        name: getattr(TOKENIZER, name) for name in ("pad_id", "landmark_id", "answer_id", "end_id")
    }
    torch.manual_seed(0)
    model = make_model(tiny(vocab=TOKENIZER.vocab_size, architecture=request.param, **ids)).eval()
    return LanguageRuntime("tiny", model, TOKENIZER, torch.float32, torch.device("cpu"))


def write(folder: Path, documents: list[str]) -> Path:
    file = folder / "summaries.jsonl"
    rows = (
        {"id": "1", "source": name, "license": "x", "title": "", "document": d, "summary": SUMMARY}
        for name, d in zip("AB", documents, strict=False)
    )
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_perplexity_is_that_of_all_tokens_of_the_summaries(
    runtime: LanguageRuntime, tmp_path: Path
) -> None:
    documents = ["The ferry leaves at seven.", "The mine gave copper."]
    report = evaluate_written_summaries(runtime, WrittenSummaries(write(tmp_path, documents)))
    assert list(report.metrics) == ["A", "B", "all"] and report.n == 2
    losses = []
    summary = [TOKENIZER.answer_id, *TOKENIZER.encode(SUMMARY).ids, TOKENIZER.end_id]
    for document in documents:
        streams = summary_streams([(TOKENIZER.encode(document).ids, summary)], runtime.config)
        with torch.inference_mode():
            stream = stream_loss(runtime.model, streams.chunks, streams.valid)
        losses.append(summary_losses(*stream, streams))
    expected = math.exp(float(torch.cat(losses).mean()))
    assert report.metrics["all"]["perplexity"] == pytest.approx(expected, rel=1e-4)
    assert "rouge1" not in report.metrics["all"]


def test_what_is_written_is_the_most_likely_token_each_time(
    runtime: LanguageRuntime, tmp_path: Path
) -> None:
    document = TOKENIZER.encode("The ferry leaves at seven.").ids
    with torch.inference_mode():
        text = written_summaries._write(runtime, document, longest=5)
        tokens = [TOKENIZER.answer_id]
        for _ in range(5):  # the same from one pass over all that was written so far
            streams = summary_streams([(document, tokens)], runtime.config)
            states = runtime.model(streams.chunks, streams.valid)[:, :, :-1]
            last = states[streams.predicts][-1]
            tokens.append(int(runtime.model.logits(last).argmax()))
    assert text == TOKENIZER.decode(tokens[1:])


def test_rouge_of_what_is_written(runtime: LanguageRuntime, tmp_path: Path) -> None:
    options = WrittenSummaries(write(tmp_path, ["The ferry."]), write=True)
    with mock.patch.object(written_summaries, "_write", lambda *_, **__: "Bees hum there."):
        metrics = evaluate_written_summaries(runtime, options).metrics["all"]
    assert metrics["rouge1"] == pytest.approx(2 / 3)


@each_row("options", [{"limit": 0}, {"chunks": 0}, {"longest": 1}])
def test_options_that_cannot_be(options: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="expected at least 1, 1 and 2"):
        WrittenSummaries(Path("x"), **options)
