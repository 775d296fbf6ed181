"""The positive control: the model of ``examples/paper/control.toml`` chooses better than chance."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt_lab.evaluate.run import evaluate
from drt_lab.lm.runtime import LanguageRuntime

MODEL = Path(__file__).parents[2] / "data" / "control"
LONGEST = 256  # tokens of the longest rows of its training
GUESS = 4.16  # nats: 64 values


@pytest.mark.thorough
def test_a_learnt_choice_beats_chance_at_four_times_the_training_length() -> None:
    runtime = LanguageRuntime.load(MODEL, device="cpu", threads=1, dtype="fp32")
    options = {"lengths": [4 * LONGEST], "rows": 1, "choices": ["own", "random", "oracle"]}
    result = evaluate(runtime, "records", options)
    nats = [
        groups["1k"]["nats"]
        for groups in (
            result["metrics"],
            result["baselines"]["random chunks"],
            result["baselines"]["oracle chunks"],
        )
    ]
    own, random, oracle = nats
    assert own < min(random, GUESS) - 1
    assert own - oracle < 0.1 * (min(random, GUESS) - oracle)
