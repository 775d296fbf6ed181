"""A trained model of 0.2 million parameters follows a link to a passkey, which one group cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt_lab.evaluate.passkeys.evaluation import PasskeyEvaluation, evaluate_passkey
from drt_lab.lm.runtime import LanguageRuntime

MODEL = Path(__file__).parents[2] / "data" / "passkey-two-hops"
OTHERS = 5  # chains that are not asked for; two chunks are read, so that one of three is a guess
LEAST = 0.7  # of 20; docs/paper.md has the shares of more cases


@pytest.fixture(scope="module")
def runtime() -> LanguageRuntime:
    """The model that ``drt train examples/paper/two-hops`` makes, trained at up to 128 tokens."""
    return LanguageRuntime.load(MODEL, device="cpu", threads=1, dtype="fp32")


def measure(runtime: LanguageRuntime, folder: Path, *lengths: int, cases: int = 20) -> list[float]:
    """Return the shares of exact answers over two hops."""
    options = PasskeyEvaluation(
        lengths=lengths, cases=cases, seed=5, folder=folder, answer=1, hops=2, noise=OTHERS
    )
    return [float(str(m["exact"])) for m in evaluate_passkey(runtime, options).metrics.values()]


@pytest.mark.thorough
def test_the_links_of_128_tokens_are_followed(runtime: LanguageRuntime, tmp_path: Path) -> None:
    assert measure(runtime, tmp_path, 128, cases=6)[0] >= LEAST


@pytest.mark.thorough
def test_the_links_of_256_tokens_are_followed_by_the_second_group(
    runtime: LanguageRuntime, tmp_path: Path
) -> None:
    assert measure(runtime, tmp_path, 256)[0] >= LEAST
    # The same weights, with the first group's query in the place of the second's.
    query = runtime.model.scorer.state_query  # type: ignore[union-attr]
    second = query[1].weight.detach().clone()  # type: ignore[index, union-attr]
    query[1].weight.data.copy_(query[0].weight.data)  # type: ignore[index, union-attr]
    try:
        assert measure(runtime, tmp_path, 256)[0] <= 0.4
    finally:
        query[1].weight.data.copy_(second)  # type: ignore[index, union-attr]


@pytest.mark.slow
def test_links_are_followed_in_16k_tokens(runtime: LanguageRuntime, tmp_path: Path) -> None:
    assert min(measure(runtime, tmp_path, 1024, 16384)) >= LEAST
