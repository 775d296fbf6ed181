"""Studies are checked before they begin, and mistakes are named in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt_engine.errors import ConfigError
from drt_lab.study.run import study
from drt_lab.study.settings import model_settings
from drt_lab.study.spec import load_study
from tests.lab.study.tiny_study import write_study
from tests.tables import each_row


def test_a_run_is_what_the_study_shares_with_its_own_settings_over_it(tmp_path: Path) -> None:
    file = tmp_path / "shared.toml"
    file.write_text("[optim]\nlr = 0.5\nsteps = 9\n")
    change = ('name = "DRT"', f'name = "DRT"\nconfig = "{file}"\nset = {{ "optim.steps" = 7 }}')
    spec = load_study(write_study(tmp_path, change=change), ["train.passkey.batch=3"])
    first, second = (spec.train_config(run, 1) for run in spec.runs)
    assert (first.optim.lr, first.optim.steps, first.passkey.batch) == (0.5, 7, 3)
    assert (second.optim.steps, second.model["architecture"]) == (4, "base")
    assert [(run.name, seed) for run, seed in spec.jobs()] == [
        ("DRT", 1),
        ("DRT", 2),
        ("Base LM", 1),
    ]
    assert first.run.out == tmp_path / "results" / "drt-1"


def test_a_run_starts_from_the_model_of_another_with_the_same_seed(tmp_path: Path) -> None:
    change = ('seeds = [1]\ncompute_of = "DRT"', 'after = "DRT"')
    spec = load_study(write_study(tmp_path, change=change))
    later = spec.runs[1]
    for seed in (1, 2):
        start = spec.train_config(later, seed).start.model
        assert start == tmp_path / "results" / f"drt-{seed}" / "model"
    # How the earlier one is trained is a setting of the later one, too.
    settings = model_settings(spec, later)
    other = load_study(write_study(tmp_path, change=change), ["train.optim.steps=5"])
    assert settings["train"]["after.optim.steps"] == 4
    assert model_settings(other, later) != settings


@each_row(
    ("change", "message"),
    [
        (('title = "Passkeys"', 'titel = "x"'), "unknown key titel; did you mean 'title'"),
        (('preset = "drt-tiny"', 'preset = "drt-tyni"'), "did you mean 'drt-tiny'"),
        (('compute_of = "DRT"', 'compute_of = "DTR"'), "expected a run before it .*; did you mean"),
        (('compute_of = "DRT"', 'after = "DTR"'), "after of 'Base LM' is 'DTR'.*; did you mean"),
        (("seeds = [1, 2]", "seeds = [1, 2, 1]"), r"seeds are \[1, 2, 1\], expected each once"),
        (('"64,128"', '"16"'), "run 'DRT': .*chunks"),
        (
            ('"model.architecture" = "base"', '"start.model" = "no/such/model"'),
            "run 'Base LM': start.model is no/such/model, which does not exist; train it",
        ),
        (('name = "Base LM"', 'name = "drt"'), "has no name of its own"),
        (("seeds = [1, 2]", "seeds = []"), "seeds is empty"),
        (('"model.architecture" = "base"', '"optim.stepz" = 1'), "run 'Base LM': unknown key"),
        (('task = "passkey"', 'task = "pasky"'), "did you mean 'passkey'"),
        (("cases = 4", "case = 4"), "unknown key passkey.case; did you mean 'cases'"),
        (('"64,128"', '"64,x"'), "'x' is not a number of tokens"),
        (('"model.architecture" = "base"', '"model.architecture" = "bass"'), "did you mean 'base'"),
        (('"model.architecture" = "base"', '"model.width" = 33'), "run 'Base LM': width 33"),
    ],
)
def test_mistakes_are_named_before_anything_is_trained(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        study(write_study(tmp_path, change=change))
    assert not (tmp_path / "results").exists()


def test_data_that_is_missing_is_named_with_its_run(tmp_path: Path) -> None:
    settings = '"stream.share" = 1.0, "stream.corpus" = ["books.jsonl"]'
    change = ('"model.architecture" = "base"', f'"passkey.share" = 0.0, {settings}')
    with pytest.raises(ConfigError, match=r"run 'Base LM': .*books.jsonl does not exist"):
        study(write_study(tmp_path, change=change))
    with pytest.raises(ConfigError, match="no run 'DTR', expected one of DRT, Base LM; did you"):
        study(write_study(tmp_path), only=["DTR"])
