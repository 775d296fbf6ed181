"""Choices of the chunks that a DRT reads, in one pass and in segments; the class of far copies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from drt_engine.errors import ConfigError
from drt_engine.model.drt import DRT
from drt_lab.data.far_copies import SharedTrigrams, far_copies
from drt_lab.evaluate.choices import BASELINES, NAMES, Choice, as_choices, reading
from drt_lab.evaluate.perplexity import PerplexityOptions, evaluate_perplexity, stream_losses
from drt_lab.evaluate.positions import segment_losses
from drt_lab.evaluate.run import evaluate
from drt_lab.lm.losses import stream_loss
from tests.engine.model.factories import random_ids
from tests.lab.evaluate_runs.test_positions import TEXT, TOKENIZER, runtime_of
from tests.sampling import sampled
from tests.tables import each_row

CHOICES: tuple[Choice, ...] = BASELINES


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    file = tmp_path / "corpus.jsonl"
    record = {"id": "1", "source": "A", "license": "x", "title": "", "text": TEXT}
    file.write_text(json.dumps(record) + "\n")
    return file


@pytest.mark.few(1)
@pytest.mark.parametrize("choice", sampled(CHOICES, {3}, thorough={0, 1, 2}))
@pytest.mark.parametrize("architecture", ["drt", "rpt"])
def test_segments_read_what_one_pass_reads(choice: Choice, architecture: str) -> None:
    retriever = "random" if architecture == "rpt" else "landmark"
    runtime = runtime_of(groups=2, architecture=architecture, retriever=retriever)
    half = random_ids(runtime.config, 90).tolist()
    ids = [*half, *half, 9]
    whole = stream_losses(runtime, ids, choice=choice)
    how = reading(choice, ids, runtime.config.chunk)
    pieces = torch.cat(list(segment_losses(runtime, ids, how=how)))
    torch.testing.assert_close(pieces, whole, atol=2e-5, rtol=1e-4)
    # A random retriever's own choice is a random one.
    is_own = architecture == "rpt" and choice == "random"
    assert torch.allclose(whole, stream_losses(runtime, ids), atol=1e-4) == is_own


def test_the_oracle_reads_the_chunk_that_comes_again() -> None:
    runtime = runtime_of(retrieved=1)
    size = runtime.config.chunk
    passage = random_ids(runtime.config, 6 * size).tolist()
    ids = [*passage, *passage[size : 2 * size]]
    ranking = SharedTrigrams(ids, size).ranking(0, torch.arange(6), 7)
    assert ranking[5][:5].argmax() == 1  # chunk 6, read by what chunk 5 chose, is chunk 1
    losses = stream_losses(runtime, ids, choice="oracle")
    model = runtime.model
    assert isinstance(model, DRT)
    chunks = torch.tensor(ids).view(1, 7, size)
    valid = torch.ones_like(chunks, dtype=torch.bool)
    oracle = SharedTrigrams(ids, size).ranking

    def with_last(chunk: int) -> torch.Tensor:
        """The losses where the last chunk reads this one, and the others what the oracle says."""

        def ranking(group: int, rows: torch.Tensor, count: int) -> torch.Tensor:
            ranks = oracle(group, rows, count)
            ranks[5, chunk] = 1e3
            return ranks

        with torch.inference_mode():
            return stream_loss(model, chunks, valid, ranking=ranking)[0]

    torch.testing.assert_close(losses, with_last(1))
    assert not torch.allclose(losses, with_last(2))


def test_scores_are_recorded_for_each_group() -> None:
    model = runtime_of(groups=2).model
    assert isinstance(model, DRT)
    chunks = random_ids(model.config, 2, 5, model.config.chunk)
    scores: list[torch.Tensor] = []
    stream_loss(model, chunks, torch.ones_like(chunks, dtype=torch.bool), scores=scores)
    assert [s.shape for s in scores] == [(2, 5, 5)] * 2


@pytest.mark.thorough
@pytest.mark.parametrize("lengths", [(), (256,)])
def test_far_copies_are_a_class_of_their_own(corpus: Path, lengths: tuple[int, ...]) -> None:
    runtime = runtime_of()
    options = PerplexityOptions(
        corpus, length=256, limit=256, lengths=lengths, choices=("own", "oracle")
    )
    report = evaluate_perplexity(runtime, options)
    ids = TOKENIZER.encode(TEXT).ids[:256]
    far = far_copies(ids, window=runtime.config.window, chunk=runtime.config.chunk)[1:]
    assert 20 < int(far.sum()) < 255  # the sentence is longer than the window
    for groups, choice in ((report.metrics, "own"), (report.baselines["oracle chunks"], "oracle")):
        expected = float(stream_losses(runtime, ids, choice=choice)[far].double().mean().exp())  # type: ignore[arg-type]
        if lengths:
            assert groups["256"]["far copies"] == pytest.approx(expected, rel=1e-4)
            assert groups["256"]["far copies n"] == int(far.sum())
        else:
            assert groups["far copies"] == {
                "perplexity": pytest.approx(expected, rel=1e-4),
                "n": int(far.sum()),
            }


def test_far_copies_of_another_window(corpus: Path) -> None:
    # The sentence of 28 bytes comes again and again: nothing is beyond a window of 30.
    options = PerplexityOptions(corpus, length=256, limit=256, choices=("none",), window=30)
    report = evaluate_perplexity(runtime_of(), options)
    assert "far copies" not in report.metrics and report.baselines == {}


def test_only_a_drt_has_choices(corpus: Path) -> None:
    base = runtime_of(architecture="base")
    assert not evaluate_perplexity(base, PerplexityOptions(corpus, limit=64)).baselines
    options = PerplexityOptions(corpus, limit=64, choices=("own", "oracle"))
    with pytest.raises(ConfigError, match=r"choices has 'oracle', expected 'own' alone: tiny"):
        evaluate_perplexity(base, options)


def test_wrong_choices_end_in_a_sentence(corpus: Path) -> None:
    with pytest.raises(ConfigError, match="choices has 'best', expected some of own, none"):
        PerplexityOptions(corpus, choices=("best",))
    with pytest.raises(ConfigError, match="each once"):
        as_choices(("own", "own"))
    with pytest.raises(ConfigError, match="window is -1 tokens"):
        PerplexityOptions(corpus, window=-1)


@pytest.mark.thorough
def test_records_by_choice() -> None:
    runtime = runtime_of()
    result = evaluate(runtime, "records", {"lengths": "128,256", "rows": 2, "names": 5})
    assert list(result["metrics"]) == ["128", "256"] and result["n"] == 4
    assert list(result["baselines"]) == [NAMES[choice] for choice in BASELINES]
    groups = [result["metrics"], *result["baselines"].values()]
    counts = {group["256"]["n"] for group in groups}
    assert len(counts) == 1 and counts.pop() > 20  # the same copies for every choice
    assert all(0 < group["256"]["nats"] < 20 for group in groups)
    one = evaluate(
        runtime, "records", {"lengths": [128], "rows": 2, "names": 5, "choices": ["recent"]}
    )
    assert one["metrics"]["128"] == result["baselines"]["recent chunks"]["128"]
    assert one["baselines"] == {}


@each_row(
    ("options", "message"),
    [
        ({"lengths": [1]}, r"lengths are \[1\] tokens and rows is 8"),
        ({"names": 2}, "records.names is 2, expected 4 to"),
        ({"lengths": [24]}, "records of 24 tokens hold no copy beyond a window of 16"),
    ],
)
def test_records_that_cannot_be(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        evaluate(runtime_of(), "records", options)
