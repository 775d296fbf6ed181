"""Needles, perplexity and summaries over a tiny model."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from drt_engine.answer.result import AnswerResult
from drt_engine.errors import ConfigError
from drt_engine.model.frozen import random_ranking, recent_ranking
from drt_engine.results import Citation, Trace, TraceEntry, TraceGroup
from drt_engine.runtime import Runtime
from drt_engine.store import Store
from drt_lab.data.chunks import to_chunks
from drt_lab.data.needles import NeedleCase, make_needle
from drt_lab.evaluate import needle
from drt_lab.evaluate.metrics.rouge import rouge
from drt_lab.evaluate.needle import length_name, quotes_answer
from drt_lab.evaluate.run import evaluate, token_count
from drt_lab.lm.losses import stream_loss
from tests.lab.evaluate_runs.conftest import LAKE, MINE, WriteLines
from tests.sampling import sampled


def _document(number: int, text: str) -> dict[str, Any]:
    return {"id": str(number), "title": "", "source": "x", "license": "x", "text": text}


@pytest.fixture
def corpus(write_lines: WriteLines) -> Path:
    """Two documents of prose."""
    rng = random.Random(1)
    words = ("river", "stone", "walked", "under", "heavy", "cloud", "while", "seven", "people")
    texts = [
        " ".join(" ".join(rng.choices(words, k=9)).capitalize() + "." for _ in range(count))
        for count in (60, 8)
    ]
    return write_lines("corpus.jsonl", [_document(i, t) for i, t in enumerate(texts)])


@pytest.fixture
def cases(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[NeedleCase]]:
    """Every needle that is made."""
    made: list[NeedleCase] = []

    def remember(*arguments: Any, **options: Any) -> NeedleCase:
        made.append(make_needle(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(needle, "make_needle", remember)
    yield made


@pytest.mark.thorough
def test_needles_are_counted_by_length(
    runtime: Runtime, corpus: Path, cases: list[NeedleCase], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def ask(runtime: Runtime, store: Store, question: str, options: Any) -> AnswerResult:
        """Every second question is answered; of the others only the passage is retrieved."""
        answer = next(case.answer for case in cases if case.question == question)
        (row,) = store.documents()
        text = store.text(row.id, 0, row.characters)
        assert text.count(answer) == 1
        start = text.index(answer)
        asked.append(question)
        right = len(asked) % 2 == 1
        quote = f"the {answer}" if right else text[start - 200 : start + len(answer)]
        entry = TraceEntry(1, row.id, "", start - 5, text[start - 5 : start + 3], 1.0, 1.0, "both")
        citation = Citation(row.id, "", "", 0, 1, quote, None, None, 1.0, quote)
        trace = Trace(question, (TraceGroup(0, 0, (entry,)),))
        return AnswerResult(quote, True, 0.9, "quote", (citation,), 1, trace)

    monkeypatch.setattr(needle, "ask", ask)
    options = {"corpus": str(corpus), "lengths": "2k,600", "needles": 4, "seed": 3}
    result = evaluate(runtime, "needle", options)
    assert list(result["metrics"]) == ["2k", "600"] and result["n"] == 8
    assert len(asked) == len(set(asked)) == 8
    for length, together in (("2k", 2), ("600", 1)):
        assert result["metrics"][length] == {
            "accuracy": 0.5,
            "accuracy_unthresholded": 0.5,
            "retrieved": 1.0,
            "n": 4,
            "needles_per_document": together,
        }
        # The statement shares the entity with the question, which nothing else does.
        assert result["baselines"]["bm25 sentence"][length]["accuracy"] >= 0.75


@pytest.mark.thorough
def test_needle_documents_are_as_long_as_asked(
    runtime: Runtime, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []

    def ask(runtime: Runtime, store: Store, question: str, options: Any) -> AnswerResult:
        lengths.append(store.documents()[0].tokens)
        return AnswerResult("", False, 0.0, "quote", (), 1, Trace(question, ()))

    monkeypatch.setattr(needle, "ask", ask)
    options = {"corpus": str(corpus), "lengths": [2048], "needles": 3, "hops": 2}
    result = evaluate(runtime, "needle", options)
    assert result["metrics"]["2k"]["accuracy"] == 0 and result["metrics"]["2k"]["retrieved"] == 0
    # Two in the first document, one alone in the second.
    assert len(lengths) == 3 and all(abs(tokens - 2048) < 160 for tokens in lengths)


@pytest.mark.thorough
def test_needles_of_the_model(runtime: Runtime, corpus: Path) -> None:
    options = {"corpus": str(corpus), "lengths": [400], "needles": 2}
    result = evaluate(runtime, "needle", options)
    assert 0 <= result["metrics"]["400"]["accuracy"] <= 1
    assert evaluate(runtime, "needle", options)["metrics"] == result["metrics"]


def test_a_quote_holds_the_answer_and_little_else() -> None:
    assert quotes_answer("code is AB-1234.", "AB-1234")
    assert not quotes_answer("x" * 40 + " AB-1234", "AB-1234")
    assert not quotes_answer("1234 coins", "234 coins")


def test_lengths_are_named_as_given() -> None:
    for text in ("4k", "1m", "100", "1500", "256k"):
        assert length_name(token_count(text)) == text


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("system", "how"),
    sampled(
        [
            ("model", {}),
            ("no retrieval", {"retrieval": False}),
            ("random chunks", {"ranking": random_ranking}),
            ("recent chunks", {"ranking": recent_ranking}),
        ],
        {0, 2},
        thorough={1, 3},
        unpack=True,
    ),
)
def test_perplexity_equals_the_models_own_loss(
    runtime: Runtime, corpus: Path, system: str, how: dict[str, Any]
) -> None:
    result = evaluate(runtime, "ppl", {"corpus": str(corpus), "length": 256})
    losses: list[float] = []
    streams = 0
    for line in corpus.read_text().splitlines():
        ids = runtime.tokenizer.encode(json.loads(line)["text"]).ids
        for at in range(0, len(ids), 256):
            chunks, valid = to_chunks(torch.tensor(ids[at : at + 256])[None], 16, 0)
            with torch.inference_mode():
                loss, _ = stream_loss(runtime.model, chunks, valid, **how)
            assert len(loss) == len(ids[at : at + 256]) - 1
            losses += loss.tolist()
            streams += 1
    groups = ({"model": result["metrics"]} | result["baselines"])[system]
    assert groups["all"]["perplexity"] == pytest.approx(math.exp(sum(losses) / len(losses)), 1e-5)
    assert groups["all"]["n"] == len(losses) and result["n"] == streams
    quarters = ["quarter 1", "quarter 2", "quarter 3", "quarter 4"]
    assert [name for name in groups if name != "far copies"] == [*quarters, "all"]
    assert sum(groups[f"quarter {i}"]["n"] for i in range(1, 5)) == len(losses)


def test_a_limit_spreads_over_documents(runtime: Runtime, corpus: Path) -> None:
    options = {"corpus": str(corpus), "length": "64", "limit": 150}
    result = evaluate(runtime, "ppl", options)
    # One stream of each document, then the second of the first, cut short.
    assert result["n"] == 3 and result["metrics"]["all"]["n"] == 63 + 63 + 21


@pytest.mark.thorough
def test_summaries_by_source_and_mode(writing_runtime: Runtime, write_lines: WriteLines) -> None:
    runtime = writing_runtime
    common = {"license": "x", "title": "", "summary": "A captain keeps bees by the lake."}
    data = write_lines(
        "summaries.jsonl",
        [
            {"id": "1", "source": "A", "document": LAKE, **common},
            {"id": "2", "source": "B", "document": MINE, **common},
        ],
    )
    result = evaluate(runtime, "summary", {"data": str(data), "both": True})
    assert list(result["metrics"]) == ["A", "B", "all"] and result["n"] == 2
    assert list(result["metrics"]["all"]) == ["n", "rouge1", "rouge2", "rougeL"]
    assert set(result["baselines"]) == {"lead", "textrank", "abstractive"}
    # The first sentence has as many words as the summary.
    expected = rouge(LAKE.split(". ")[0], str(common["summary"]))
    assert result["baselines"]["lead"]["A"]["rouge1"] == pytest.approx(expected.rouge1)
    some = evaluate(runtime, "summary", {"data": str(data), "source": "B", "mode": "extractive"})
    assert list(some["metrics"]) == ["B", "all"] and set(some["baselines"]) == {"lead", "textrank"}


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("needle", {"lengths": "4x"}, "'4x' is not a number of tokens"),
        ("needle", {"lengths": [100]}, "one or more of 128 or above"),
        ("needle", {"hops": 3}, "hops is 3, expected 1 or 2"),
        ("needle", {"needles": 0}, "needles is 0"),
        ("ppl", {"length": 1}, "length is 1 tokens"),
        ("ppl", {"limit": 1}, "limit is 1 tokens"),
        ("ppl", {"depth": 1}, "unknown key ppl.depth"),
        ("summary", {"data": "x", "mode": "short"}, "summary.mode is 'short'"),
    ],
)
def test_wrong_options_end_in_a_sentence(
    runtime: Runtime, corpus: Path, task: str, options: dict[str, object], message: str
) -> None:
    given = options if task == "summary" else {"corpus": str(corpus), **options}
    with pytest.raises(ConfigError, match=message):
        evaluate(runtime, task, given)
