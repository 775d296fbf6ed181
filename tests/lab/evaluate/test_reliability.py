"""The table of a reliability plot, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt_engine.errors import ConfigError
from drt_lab.evaluate.metrics.reliability import (
    Bin,
    expected_error,
    plot_reliability,
    reliability,
)
from tests.tables import each_row


def test_bins_hold_what_was_predicted_and_what_came_true() -> None:
    bins = reliability([0.0, 0.12, 0.18, 0.5, 1.0], [False, True, False, True, True])
    assert [b.n for b in bins] == [1, 2, 0, 0, 0, 1, 0, 0, 0, 1]
    assert (bins[1].predicted, bins[1].observed) == (pytest.approx(0.15), 0.5)
    assert (bins[1].low, bins[1].high, bins[1].name) == (0.1, 0.2, "0.10-0.20")
    assert bins[9] == Bin(0.9, 1.0, 1, 1.0, 1.0)
    assert (bins[2].predicted, bins[2].observed) == (None, None)


def test_the_noise_of_a_bin_is_the_standard_error_of_its_share() -> None:
    quarter = reliability([0.25] * 48, [True] * 24 + [False] * 24)[2]
    assert quarter.noise == pytest.approx(0.0625)  # sqrt(0.25 x 0.75 / 48)
    assert quarter.row == {"predicted": 0.25, "observed": 0.5, "noise": quarter.noise, "n": 48}
    assert reliability([1.0], [True])[9].noise == 0.0
    assert reliability([1.0], [True])[0].noise is None


def test_the_error_is_weighed_by_the_numbers() -> None:
    # Two at 0.2 of which one is true, and a sure one: 0.3 twice, 0 once, over three.
    bins = reliability([0.2, 0.2, 1.0], [True, False, True])
    assert expected_error(bins) == pytest.approx(0.2)
    assert expected_error(reliability([0.0, 1.0], [False, True])) == 0.0


@each_row(("probabilities", "labels"), [([1.5], [True]), ([0.5], []), ([-0.1], [1])])
def test_what_is_no_probability_is_refused(probabilities: list[float], labels: list[bool]) -> None:
    with pytest.raises(ValueError, match="as many labels as probabilities"):
        reliability(probabilities, labels)


def test_a_file_that_matplotlib_cannot_write_is_a_sentence(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    tables = {"stored": reliability([0.2], [True])}
    with pytest.raises(ConfigError, match=r"plot\.odd cannot be drawn .* name a \.png or \.svg"):
        plot_reliability(tables, tmp_path / "plot.odd", title="t")
