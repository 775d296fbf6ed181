"""The studies of the paper's tables are read, and every run and evaluation in them is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt_engine.evaluate.run import check_options
from drt_engine.study.measures import MEASURES
from drt_engine.study.spec import load_study

FILES = sorted((Path(__file__).parents[3] / "examples" / "paper").glob("*.toml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_study_of_the_paper_can_be_read(file: Path) -> None:
    study = load_study(file)
    for evaluation in study.evaluations:
        if evaluation.task in MEASURES:
            MEASURES[evaluation.task].options(evaluation.options)
        else:
            check_options(evaluation.task, evaluation.options)
