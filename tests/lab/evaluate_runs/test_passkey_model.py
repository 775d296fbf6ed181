"""A trained model of 0.1 million parameters finds every passkey, thousands of times as far as it
was trained at."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt_lab.evaluate.passkeys.evaluation import PasskeyEvaluation, evaluate_passkey
from drt_lab.lm.runtime import LanguageRuntime

MODEL = Path(__file__).parents[2] / "data" / "passkey-one-hop"


@pytest.fixture(scope="module")
def runtime() -> LanguageRuntime:
    """The model that ``drt train examples/paper/passkey`` makes, trained at up to 128 tokens."""
    return LanguageRuntime.load(MODEL, device="cpu", threads=1, dtype="fp32")


def measure(runtime: LanguageRuntime, folder: Path, *lengths: int, cases: int) -> list[float]:
    """Return the shares of exact answers, and expect what is resident not to grow with length."""
    options = PasskeyEvaluation(lengths=lengths, cases=cases, seed=5, folder=folder)
    metrics = list(evaluate_passkey(runtime, options).metrics.values())
    first, last = (metrics[at]["resident MiB"] for at in (0, -1))
    assert isinstance(first, float) and isinstance(last, float)
    assert last < first + 128
    return [float(str(m["exact"])) for m in metrics]


@pytest.mark.thorough
def test_passkeys_in_4k_and_8k_tokens(runtime: LanguageRuntime, tmp_path: Path) -> None:
    assert measure(runtime, tmp_path, 4096, 8192, cases=2) == [1.0] * 2


@pytest.mark.thorough
def test_every_passkey_in_4k_to_32k_tokens(runtime: LanguageRuntime, tmp_path: Path) -> None:
    assert measure(runtime, tmp_path, 4096, 8192, 32768, cases=5) == [1.0] * 3


@pytest.mark.slow
def test_every_passkey_in_a_million_tokens(runtime: LanguageRuntime, tmp_path: Path) -> None:
    assert measure(runtime, tmp_path, 65536, 1 << 20, cases=5) == [1.0, 1.0]


@pytest.mark.stress  # 9 GiB of chunk memory on disk
def test_every_passkey_in_16_million_tokens(runtime: LanguageRuntime, tmp_path: Path) -> None:
    assert measure(runtime, tmp_path, 65536, 1 << 24, cases=5) == [1.0, 1.0]
