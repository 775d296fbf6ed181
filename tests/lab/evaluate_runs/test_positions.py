"""Perplexity in segments is that of one pass, for every model, and flat in memory."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from drt_engine.errors import ConfigError
from drt_lab.evaluate import positions
from drt_lab.evaluate.perplexity import PerplexityOptions, evaluate_perplexity, stream_losses
from drt_lab.evaluate.positions import segment_losses
from drt_lab.lm.build import make_model
from drt_lab.lm.runtime import LanguageRuntime
from tests.engine.model.factories import random_ids, tiny
from tests.fakes import byte_tokenizer
from tests.sampling import sampled

TEXT = "The pilot counts the boats. " * 30
TOKENIZER = byte_tokenizer()


def runtime_of(**changes: object) -> LanguageRuntime:
    torch.manual_seed(0)
    model = make_model(tiny(vocab=TOKENIZER.vocab_size, **changes)).eval()
    return LanguageRuntime("tiny", model, TOKENIZER, torch.float32, torch.device("cpu"))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    file = tmp_path / "corpus.jsonl"
    rows = [
        {"id": str(i), "source": "A", "license": "x", "title": "", "text": TEXT} for i in (0, 1)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("changes", "memory"),
    sampled(
        [
            ({}, "device"),
            ({"groups": 2}, "disk"),
            ({"retriever": "random"}, "device"),
            ({"architecture": "base"}, "device"),
        ],
        {1},
        thorough={0, 2, 3},
        unpack=True,
    ),
)
def test_segments_give_the_losses_of_one_pass(
    changes: dict[str, object], memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(positions, "_SEGMENT", 37)  # no multiple of chunk or window
    runtime = runtime_of(**changes)
    ids = random_ids(runtime.config, 203).tolist()
    whole = stream_losses(runtime, ids)
    pieces = list(segment_losses(runtime, ids, memory=memory))  # type: ignore[arg-type]
    assert [len(piece) for piece in pieces] == [37] * 5 + [17]
    torch.testing.assert_close(torch.cat(pieces), whole, atol=2e-5, rtol=1e-4)


def test_lengths_are_cut_from_the_joined_documents(corpus: Path) -> None:
    runtime = runtime_of(architecture="base")
    options = PerplexityOptions(corpus, lengths=(64, 256), limit=512)
    metrics = evaluate_perplexity(runtime, options).metrics
    assert {name: group["n"] for name, group in metrics.items()} == {"64": 8 * 63, "256": 2 * 255}
    ids = TOKENIZER.encode(TEXT).ids[:512]
    losses = torch.cat([stream_losses(runtime, ids[a : a + 256]) for a in (0, 256)])
    expected = float(losses.double().mean().exp())
    assert metrics["256"]["perplexity"] == pytest.approx(expected, rel=1e-4)


def test_the_limit_is_that_of_each_length(corpus: Path) -> None:
    runtime = runtime_of(architecture="base")
    for limit, streams in ((128, [2, 1]), (511, [7, 1]), (None, [4, 1])):
        options = PerplexityOptions(corpus, lengths=(64, 256), limit=limit)
        metrics = evaluate_perplexity(runtime, options).metrics
        assert [metrics["64"]["n"], metrics["256"]["n"]] == [63 * streams[0], 255 * streams[1]]


def test_tokens_take_a_few_bytes_each(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = 1 << 17
    monkeypatch.setattr(positions, "_joined", lambda *_: range(1000, 1000 + tokens))

    def losses(_: object, ids: memoryview, **__: object) -> Iterator[torch.Tensor]:
        assert (ids[0], ids[-1]) == (1000, 999 + tokens)
        yield torch.zeros(len(ids) - 1)

    monkeypatch.setattr(positions, "segment_losses", losses)
    monkeypatch.setattr(positions, "_LONGEST_COUNTED", tokens - 1)  # far copies take more
    tracemalloc.start()
    try:
        positions.perplexity_by_length(runtime_of(), corpus, [tokens], limit=None)
        assert tracemalloc.get_traced_memory()[1] < 8 * tokens
    finally:
        tracemalloc.stop()


def test_a_corpus_that_is_too_short(corpus: Path) -> None:
    options = PerplexityOptions(corpus, lengths=(1 << 20,))
    with pytest.raises(ConfigError, match=r"holds 1,\d\d\d tokens, expected at least 1,048,576"):
        evaluate_perplexity(runtime_of(), options)
