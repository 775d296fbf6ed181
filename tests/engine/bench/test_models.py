"""`drt bench models`: every model of the paper beside the base LM."""

from __future__ import annotations

from unittest import mock

import pytest

from drt_engine.bench import models
from drt_engine.bench.run import bench
from drt_engine.config.model import EncoderConfig

TINY = {
    "width": 16,
    "heads": 2,
    "kv_heads": 2,
    "mlp": 24,
    "lower_layers": 1,
    "upper_layers": 2,
    "chunk": 8,
    "window": 16,
    "state_tokens": 4,
    "vocab": 64,
    "encoder": EncoderConfig(layers=1, heads=2, mlp=24, positions=16),
}


pytestmark = pytest.mark.slow  # sixteen models; .ci/exercise.py runs them, too


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, object]]:
    """The rows of two lengths at a tiny shape, by name."""
    options = {"tokens": 256, "repetitions": 1, "device": "cpu", "threads": 1}
    with mock.patch.object(models, "_SMALL", TINY), mock.patch.object(models, "SHORTEST", 64):
        return {row["name"]: row for row in bench("models", options)["rows"]}


def test_every_model_has_its_rows(rows: dict[str, dict[str, object]]) -> None:
    for name in models.MODELS:
        for length in ("64", "256"):
            token, kept = (
                rows[f"{name}, a token after {length}"],
                rows[f"{name}, kept after {length}"],
            )
            assert (token["unit"], kept["unit"]) == ("ms", "MiB")
            if name != models.BASE:
                base = rows[f"base LM, a token after {length}"]
                assert token["against"] == base["name"]
                assert token["ratio"] == pytest.approx(token["median"] / base["median"])  # type: ignore[operator]
    assert rows["DRT x2, training on 256, memory"]["ratio"] > 1  # type: ignore[operator]
    assert "DRT x1, memory on disk, training on 64" not in rows


def test_what_is_kept_grows_with_the_prompt_where_nothing_is_offloaded(
    rows: dict[str, dict[str, object]],
) -> None:
    def growth(name: str) -> float:
        after = [float(str(rows[f"{name}, kept after {n}"]["median"])) for n in ("64", "256")]
        return after[1] - after[0]

    assert growth("base LM") == 0 == growth("Block-Recurrent")
    # Chunk memory is 2 * 8 rows of 16 numbers, a landmark one row; Landmark keeps all in 3 layers.
    assert 0 < 9 * growth("DRT x1, memory on disk") < growth("DRT x1")
    assert growth("DRT x1, memory on disk") == growth("DRT x1, memory on the CPU")
    assert growth("Landmark Attention") > 2 * growth("DRT x1")
