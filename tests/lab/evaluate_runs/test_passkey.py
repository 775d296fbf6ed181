"""`drt eval passkey`: contexts read in segments from disk give what one pass over them gives."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from drt_engine.errors import ConfigError
from drt_engine.model.protocol import LanguageModel
from drt_lab.data.passkeys import PasskeyContext, PasskeyLayout, symbol_tokenizer
from drt_lab.evaluate.passkeys import evaluation, long_context
from drt_lab.evaluate.passkeys.evaluation import PasskeyEvaluation, evaluate_passkey
from drt_lab.evaluate.passkeys.long_context import LongContext
from drt_lab.lm.build import make_model as make_language_model
from drt_lab.lm.disk_memory import DiskMemory
from drt_lab.lm.runtime import LanguageRuntime
from tests.engine.model.factories import full, make_model, tiny
from tests.tables import each_row

LAYOUT = PasskeyLayout(vocab=48, chunk=8)


def runtime_of(model: LanguageModel) -> LanguageRuntime:
    tokenizer = symbol_tokenizer(model.config.vocab)
    return LanguageRuntime("tiny", model, tokenizer, torch.float32, torch.device("cpu"))


@pytest.mark.thorough
@pytest.mark.parametrize("groups", [1, 2])
def test_a_context_in_segments_is_predicted_as_in_one_pass(
    groups: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_context, "_TOKENS_AT_ONCE", 5 * 8)
    model = make_model(tiny(vocab=48, upper_layers=2, groups=groups))
    memory = DiskMemory(tmp_path, model.config)
    reader = LongContext(model, memory)
    with torch.inference_mode():
        for seed in (1, 2, 3):  # the second and third are read only where they differ
            context = PasskeyContext(LAYOUT, 41, seed=seed, filler=9)
            reader.read(context)
            ids = context.tokens(0, 41)[None]
            expected = model.logits(model(ids, full(ids))[0, -1, :3])
            torch.testing.assert_close(reader.logits(3), expected, atol=2e-5, rtol=1e-4)
    memory.close()


@pytest.mark.parametrize("architecture", ["drt", "base"])
def test_the_report_has_each_length(architecture: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = make_language_model(tiny(vocab=48, architecture=architecture)).eval()
    options = PasskeyEvaluation(lengths=(64, 256), cases=3, folder=tmp_path)
    report = evaluate_passkey(runtime_of(model), options)
    assert list(report.metrics) == ["64", "256"]
    assert report.n == 6
    assert report.metrics["64"]["exact"] == 0.0  # nothing was learnt
    assert os.listdir(tmp_path) == []


def test_a_model_that_knows_the_answers_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LongContext, "read", lambda reader, context: setattr(reader, "c", context))
    answers = {0: lambda c: c.answer, 1: lambda c: (c.answer[0], 0, 0)}
    for number, (exact, right) in enumerate([(1.0, 1.0), (0.0, 1 / 3)]):

        def logits(reader: LongContext, count: int, number: int = number) -> torch.Tensor:
            answer = torch.tensor(answers[number](reader.c))  # type: ignore[attr-defined]
            return torch.nn.functional.one_hot(answer, 48).float()

        monkeypatch.setattr(LongContext, "logits", logits)
        report = evaluate_passkey(
            runtime_of(make_model(tiny(vocab=48))), PasskeyEvaluation(lengths=(64,), cases=4)
        )
        assert report.metrics["64"]["exact"] == exact
        assert report.metrics["64"]["tokens right"] == pytest.approx(right)


@each_row(
    ("options", "message"),
    [
        ({"lengths": ()}, "lengths are"),
        ({"cases": 0}, "cases 0"),
        ({"folder": Path("/nowhere")}, "/nowhere is not a folder"),
        ({"hops": 3}, "hops is 3, expected 1 or 2"),
        ({"lengths": (16,)}, "2 chunks of 8 tokens, expected at least 4"),
    ],
)
def test_what_cannot_be_measured(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        evaluate_passkey(runtime_of(make_model(tiny(vocab=48))), PasskeyEvaluation(**options))  # type: ignore[arg-type]


def test_a_full_disk_is_seen_before_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(evaluation.shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(ConfigError, match="the chunk memory of this length takes"):
        evaluate_passkey(runtime_of(make_model(tiny(vocab=48))), PasskeyEvaluation(lengths=(4096,)))
