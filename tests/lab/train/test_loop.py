"""The loop: it learns, writes what it measured, and a resumed run gives the same next losses."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import os
import signal
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from drt_engine.errors import ConfigError, EngineError
from drt_engine.model.weights import load_model, save_model
from drt_lab.config.train import (
    NeedlesConfig,
    OptimConfig,
    QuestionsConfig,
    RunConfig,
    StartConfig,
    StreamConfig,
    TrainConfig,
)
from drt_lab.train import checkpoint
from drt_lab.train.checkpoint import find_state, load_state, save_state
from drt_lab.train.loop import Loop
from drt_lab.train.metrics import Metrics, plot, read_metrics
from drt_lab.train.optim import make_optimizer, rate, set_rate
from drt_lab.train.run import start, train
from tests.engine.model.factories import fresh_model, make_model, small_like, tiny
from tests.fakes import byte_tokenizer
from tests.lab.train.corpora import ARTICLE, write_corpus, write_questions
from tests.sampling import sampled
from tests.tables import each_row

TOKENIZER = byte_tokenizer()
MODEL = small_like(chunk=32, vocab=TOKENIZER.vocab_size)


def stream_config(folder: Path, **optim: object) -> TrainConfig:
    corpus = write_corpus(folder, ARTICLE[:60], "x", ARTICLE[60:])
    return TrainConfig(
        optim=OptimConfig(**{"steps": 4, "lr": 3e-3, **optim}),  # type: ignore[arg-type]
        stream=StreamConfig(share=1.0, corpus=(corpus,), chunks=4, batch=2),
        run=RunConfig(out=folder / "run", bf16=False, log_every=2),
    )


def questions_config(folder: Path) -> TrainConfig:
    qa, docs = write_questions(folder)
    questions = QuestionsConfig(
        share=1.0, qa=(qa,), docs=(docs,), questions=4, window=4, pool=8, retrieved=2
    )
    return replace(stream_config(folder), stream=StreamConfig(), questions=questions)


def mixed_config(folder: Path) -> TrainConfig:
    both = stream_config(folder, accumulate=2)
    return replace(both, questions=questions_config(folder).questions)


MAKERS = {"stream": stream_config, "questions": questions_config, "mixed": mixed_config}


def loop(config: TrainConfig) -> Loop:
    return Loop(config, fresh_model(MODEL), TOKENIZER)


@pytest.fixture(autouse=True)
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes longer than training; one test of its own does it."""
    monkeypatch.setattr("drt_lab.train.loop.plot", lambda run: None)


@each_row(("fast", "asked"), [(True, True), (False, True), (True, False)])
def test_bf16_is_left_to_processors_that_are_fast_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fast: bool, asked: bool
) -> None:
    """Emulated bf16 takes ten times as long as fp32."""
    monkeypatch.setattr("drt_lab.train.loop.fast_bf16", lambda: fast)
    config = stream_config(tmp_path, steps=1)
    made = loop(replace(config, run=replace(config.run, bf16=asked)))
    enabled = []
    loss = made.tasks.loss

    def records(*arguments: object) -> object:
        enabled.append(torch.is_autocast_enabled("cpu"))
        return loss(*arguments)  # type: ignore[arg-type]

    made.tasks.loss = records  # type: ignore[method-assign,assignment]
    made.run()
    assert enabled == [fast and asked]


# Mixed batches hold those of the other two.
@pytest.mark.thorough
@pytest.mark.parametrize("make", sampled(MAKERS.values(), {2}), ids=MAKERS)
def test_a_resumed_run_gives_the_same_next_losses(tmp_path: Path, make: object) -> None:
    assert callable(make)
    folders = [tmp_path / name for name in ("whole", "cut")]
    for folder in folders:
        folder.mkdir()
    whole = loop(make(folders[0]))
    losses = whole.run()
    cut = make(folders[1])
    first = loop(cut).run(until=2)
    resumed = loop(cut)
    assert resumed.step == 2
    second = resumed.run()
    assert first + second == losses  # equal bits: another batch or state would show
    assert len(losses) == 4
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name]), name
    assert loop(cut).run() == []  # nothing is left to do


@pytest.mark.thorough
def test_batches_made_ahead_are_the_same(tmp_path: Path) -> None:
    config = mixed_config(tmp_path)
    config = replace(config, optim=replace(config.optim, steps=3))
    wanted = loop(config).run()
    ahead = replace(config, run=replace(config.run, out=tmp_path / "ahead", workers=2))
    run = loop(ahead)
    assert run.run(until=2) + loop(ahead).run() == wanted
    assert run.prefetcher._pool is None  # nothing is left behind
    with pytest.raises(ConfigError, match=r"run\.workers is -1, expected 0 or more"):
        RunConfig(workers=-1)


@pytest.mark.thorough
def test_the_seed_decides_the_batches(tmp_path: Path) -> None:
    config = questions_config(tmp_path)
    one = loop(config).run(until=2)
    other = replace(config, run=replace(config.run, seed=1, out=tmp_path / "other"))
    assert loop(other).run(until=2) != one


# tests/lab/lm/test_training.py learns from a stream, too.
@pytest.mark.slow
def test_the_loss_of_a_memorisable_stream_goes_down(tmp_path: Path) -> None:
    config = stream_config(tmp_path, steps=30, lr=2e-2, encoder_scale=1.0)
    losses = loop(config).run()
    assert losses[0] > 0.8 * math.log(TOKENIZER.vocab_size)
    assert sum(losses[-5:]) / 5 < 0.6 * losses[0]


@pytest.mark.thorough
def test_the_loss_of_questions_goes_down(tmp_path: Path) -> None:
    config = questions_config(tmp_path)
    optim = OptimConfig(steps=12, lr=1e-2, encoder_scale=1.0)
    losses = loop(replace(config, optim=optim)).run()
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


@pytest.mark.thorough
def test_the_finished_model_is_the_mean_with_those_of_other_runs(tmp_path: Path) -> None:
    other = fresh_model(MODEL)
    for parameter in other.parameters():
        parameter.data.add_(1.0)
    save_model(other, TOKENIZER, tmp_path / "other")
    config = stream_config(tmp_path, steps=2, average=(tmp_path / "other",))
    run = loop(config)
    for until, divisor in ((1, 1), (2, 2)):  # unfinished, it is what was trained
        run.run(until=until)
        saved = load_model(config.run.out / "model")[0].state_dict()
        for name, tensor in run.model.state_dict().items():
            shift = other.state_dict()[name].to(torch.bfloat16).float() - tensor
            expected = tensor + (divisor - 1) / divisor * shift
            assert torch.allclose(saved[name].float(), expected, rtol=2e-2, atol=2e-2), name
    lacking = stream_config(tmp_path, steps=2, average=(tmp_path / "nothing",))
    with pytest.raises(EngineError, match="nothing"):
        loop(lacking).run()


def test_metrics_are_written_as_json_lines(tmp_path: Path) -> None:
    run = loop(stream_config(tmp_path))
    losses = run.run()
    rows = [json.loads(line) for line in run.metrics.path.read_text().splitlines()]
    assert [row["step"] for row in rows] == [2, 4]
    assert rows[0]["lm"] == pytest.approx(sum(losses[:2]) / 2, abs=1e-4)
    assert all({"lr", "norm", "seconds"} <= row.keys() for row in rows)


def test_a_run_folder_holds_config_model_and_state(tmp_path: Path) -> None:
    config = stream_config(tmp_path)
    run = loop(config)
    run.run(until=2)
    saved = json.loads((run.folder / "config.json").read_text())
    assert saved["optim"]["lr"] == 3e-3
    model, tokenizer = load_model(run.folder / "model")
    assert tokenizer.encode("log") == TOKENIZER.encode("log")
    trained = run.model.state_dict()["embedding.weight"]
    torch.testing.assert_close(model.embedding.weight, trained, rtol=1e-2, atol=1e-3)


@pytest.mark.thorough
def test_a_run_that_fails_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = stream_config(tmp_path)
    whole = loop(replace(config, run=replace(config.run, out=tmp_path / "whole"))).run()
    run = loop(config)
    step = run._one_step
    monkeypatch.setattr(run, "_one_step", lambda: step() if run.step < 2 else 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run.run()
    resumed = loop(config)
    assert resumed.step == 2
    assert resumed.run() == whole[2:]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("where", "ends"),
    sampled(
        itertools.product(["loss", "clip", "zero_grad"], [KeyboardInterrupt, ZeroDivisionError]),
        {2, 5},
        thorough=range(6),
        unpack=True,
    ),
)
def test_a_step_that_ends_in_its_middle_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, ends: type[BaseException]
) -> None:
    """Ctrl-C waits for the end of its step; an error leaves the state of the last whole one."""
    config = mixed_config(tmp_path)
    whole = loop(replace(config, run=replace(config.run, out=tmp_path / "whole"))).run()
    run = loop(config)
    owner: Any = {"loss": run.tasks, "clip": run.parallel, "zero_grad": run.optimizer}[where]
    function = getattr(owner, where)

    def ending(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if run.step == (2 if where == "zero_grad" else 1):  # it comes after the update
            monkeypatch.undo()
            monkeypatch.setattr("drt_lab.train.loop.plot", lambda run: None)
            if ends is ZeroDivisionError:
                raise ZeroDivisionError
            os.kill(os.getpid(), signal.SIGINT)
        return result

    monkeypatch.setattr(owner, where, ending)
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job may ignore it
    try:
        with pytest.raises(ends):
            run.run()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, inherited)
    resumed = loop(config)
    done = 1 if where != "zero_grad" and ends is ZeroDivisionError else 2
    assert resumed.step == run.step == done
    assert resumed.run() == whole[done:]


def test_a_step_without_a_finite_gradient_changes_nothing(tmp_path: Path) -> None:
    run = loop(stream_config(tmp_path))
    before = {k: v.clone() for k, v in run.model.state_dict().items()}
    run.model.embedding.weight.register_hook(lambda gradient: gradient * float("nan"))
    run.run(until=1)
    after = run.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


class Interrupted(Exception):
    """Stands for the power going out."""


@each_row("at", ["write", "first rename", "second rename"])
def test_an_interrupted_save_leaves_a_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    model = make_model()
    optimizer = make_optimizer(model, OptimConfig())
    folder = tmp_path / "state"
    save_state(folder, model, optimizer, {"step": 1})
    wanted = model.embedding.weight.detach().clone()
    with torch.no_grad():
        model.embedding.weight.add_(1.0)
    renames = 0

    def stop(*args: object, **kwargs: object) -> None:
        raise Interrupted

    def rename(self: Path, target: Path, real=Path.rename) -> Path:  # type: ignore[no-untyped-def]
        nonlocal renames
        renames += 1
        if renames == (1 if at == "first rename" else 2):
            raise Interrupted
        return real(self, target)

    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        if at == "write":
            patch.setattr(checkpoint, "save_file", stop)
        else:
            patch.setattr(Path, "rename", rename)
        save_state(folder, model, optimizer, {"step": 2})
    found = find_state(tmp_path)
    assert found is not None
    other = make_model(seed=8)
    extra = load_state(found, other, make_optimizer(other, OptimConfig()))
    assert extra == {"step": 1}
    assert torch.equal(other.embedding.weight, wanted)
    save_state(folder, model, optimizer, {"step": 3})  # and the next save goes through
    assert json.loads((folder / "state.json").read_text()) == {"step": 3}
    assert [p.name for p in tmp_path.iterdir()] == ["state"]


def test_optimiser_state_comes_back_in_equal_bits(tmp_path: Path) -> None:
    run = loop(stream_config(tmp_path))
    run.run(until=2)
    again = loop(run.config)
    one, other = run.optimizer.state_dict(), again.optimizer.state_dict()
    assert one["state"].keys() == other["state"].keys()
    for number, slots in one["state"].items():
        for name, value in slots.items():
            assert torch.equal(value, other["state"][number][name]), (number, name)


def test_a_state_of_another_model_is_a_sentence(tmp_path: Path) -> None:
    model, other = make_model(MODEL), make_model(tiny())
    save_state(tmp_path / "state", model, make_optimizer(model, OptimConfig()), {})
    with pytest.raises(ConfigError, match="another model configuration"):
        load_state(tmp_path / "state", other, make_optimizer(other, OptimConfig()))
    assert find_state(tmp_path / "none") is None


def test_parameter_groups() -> None:
    model = fresh_model(small_like())
    config = OptimConfig(lr=1.0, encoder_scale=0.25, weight_decay=0.1)
    optimizer = make_optimizer(model, config)
    assert set_rate(optimizer, config, config.steps) == pytest.approx(config.floor)
    settings = {
        id(p): (g["lr"] / config.floor, g["weight_decay"])
        for g in optimizer.param_groups
        for p in g["params"]
    }
    assert len(settings) == len(list(model.parameters()))
    for name, parameter in model.named_parameters():
        scale = 0.25 if name.startswith(("encoder.", "embedding.")) else 1.0
        scale = scale if parameter.dim() else 10.0
        wanted = (scale, 0.1 if parameter.dim() > 1 else 0.0)
        assert settings[id(parameter)] == pytest.approx(wanted), name


def test_the_schedule_warms_up_and_falls_to_the_floor() -> None:
    config = OptimConfig(steps=100, warm_up=0.1, floor=0.05)
    rates = [rate(config, step) for step in range(101)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == rates[10] == 1.0
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[55] == pytest.approx(0.525)
    assert rates[100] == pytest.approx(0.05)


def test_plot_draws_when_matplotlib_is_there(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    metrics = Metrics(tmp_path)
    for step in (1, 2):
        metrics.add(lm=3.0 / step, norm=1.0)
        metrics.write(step, lr=0.1)
    file = plot(tmp_path)
    assert file is not None
    assert file.read_bytes().startswith(b"\x89PNG")


def test_values_that_are_not_finite_are_null(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path)
    metrics.add(lm=float("nan"), norm=float("inf"), hit=0.5)
    row = metrics.write(1, lr=0.1)
    assert math.isnan(row["lm"]) and row["norm"] == float("inf")

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    line = json.loads(metrics.path.read_text(), parse_constant=refuse)
    assert (line["lm"], line["norm"], line["hit"]) == (None, None, 0.5)
    (again,) = read_metrics(metrics.path)
    assert math.isnan(again["lm"]) and math.isnan(again["norm"])
    assert again["hit"] == 0.5
    if importlib.util.find_spec("matplotlib") is not None:
        assert plot(tmp_path) is not None


def test_a_line_that_a_crash_cut_costs_that_line_alone(tmp_path: Path) -> None:
    Metrics(tmp_path).write(1, lm=2.0)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "l')
    Metrics(tmp_path).write(3, lm=1.0)
    assert [row["step"] for row in read_metrics(tmp_path / "metrics.jsonl")] == [1, 3]


def test_no_matplotlib_no_plot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    assert plot(tmp_path) is None


def test_a_stage_runs_from_its_file_and_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    corpus = write_corpus(tmp_path, ARTICLE)
    TOKENIZER.save(tmp_path / "tokenizer.json")
    file = tmp_path / "stage.toml"
    file.write_text(
        f"""
[model]
preset = "drt-tiny"
retrieved = 3
encoder.layers = 2
[start]
tokenizer = "{tmp_path / "tokenizer.json"}"
[optim]
steps = 2
[stream]
share = 1.0
corpus = ["{corpus}"]
chunks = 3
[run]
out = "{tmp_path / "run"}"
log_every = 1
""",
        encoding="utf-8",
    )
    assert train(file) == tmp_path / "run"
    model, _ = load_model(tmp_path / "run" / "model")
    assert (model.config.vocab, model.config.retrieved) == (TOKENIZER.vocab_size, 3)
    assert model.config.encoder.layers == 2
    train(file, ["optim.steps=3"])
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3]
    captured = capsys.readouterr()
    assert captured.out == ""  # progress is no result
    assert "step=3" in captured.err and "tokenising" in captured.err


def test_a_stage_starts_from_a_model(tmp_path: Path) -> None:
    run = loop(stream_config(tmp_path))
    run.save()
    changes = {**vars(MODEL), "encoder": vars(MODEL.encoder), "preset": "drt-tiny"}
    begin = StartConfig(model=run.folder / "model")
    model, _ = start(replace(run.config, model=changes, start=begin))
    assert model.config == MODEL
    for name, tensor in run.model.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor.bfloat16().float()), name


def test_layers_for_rereading_start_as_the_encoders_and_learn_alone(tmp_path: Path) -> None:
    older = make_model(replace(MODEL, reread_layers=0, late_interaction=False))
    save_model(older, TOKENIZER, tmp_path / "older", dtype=torch.float32)
    config = replace(
        questions_config(tmp_path),
        model={"preset": "drt-tiny", **asdict(MODEL)},
        start=StartConfig(model=tmp_path / "older"),
        optim=OptimConfig(steps=2, lr=1e-2, only=("reader.", "scorer.late.")),
    )
    model, tokenizer = start(config)
    assert model.reader is not None
    for own, source in zip(model.reader, older.encoder.blocks[-1:], strict=True):
        for name, tensor in own.state_dict().items():
            assert torch.equal(tensor, source.state_dict()[name])
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    Loop(config, model, tokenizer).run()
    moved = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert moved and all(name.startswith(("reader.", "scorer.late.")) for name in moved)
    assert any(name.startswith("reader.") for name in moved)
    assert any(name.startswith("scorer.late.") for name in moved)


def test_parts_that_learn_must_be_there() -> None:
    with pytest.raises(ConfigError, match="optim.only"):
        make_optimizer(make_model(tiny()), OptimConfig(only=("nothing.",)))


def test_a_stage_needs_a_tokenizer_and_a_task(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="brings the tokenizer"):
        start(stream_config(tmp_path))
    with pytest.raises(ConfigError, match="at least one of"):
        TrainConfig()
    nameless = TrainConfig(questions=QuestionsConfig(share=1.0), run=RunConfig(out=tmp_path))
    with pytest.raises(ConfigError, match="questions.qa and questions.docs must name files"):
        loop(nameless)
    empty = TrainConfig(needles=NeedlesConfig(share=1.0), run=RunConfig(out=tmp_path))
    with pytest.raises(EngineError, match="needles"):
        loop(empty)
    with pytest.raises(ConfigError, match="unknown key model.retreived"):
        TOKENIZER.save(tmp_path / "tokenizer.json")
        named = StartConfig(tokenizer=tmp_path / "tokenizer.json")
        wrong = {"preset": "drt-tiny", "retreived": 3}
        start(replace(stream_config(tmp_path), start=named, model=wrong))


def write_stage(folder: Path, name: str, start: str) -> None:
    """Write a stage of two steps of language modelling that begins from ``start``."""
    corpus = write_corpus(folder, ARTICLE)
    TOKENIZER.save(folder / "tokenizer.json")
    (folder / "stages").mkdir(exist_ok=True)
    (folder / "stages" / f"{name}.toml").write_text(
        f"""
[model]
preset = "drt-tiny"
[start]
{start}
[optim]
steps = 2
[stream]
share = 1.0
corpus = ["{corpus}"]
chunks = 3
[run]
out = "{folder / name}"
""",
        encoding="utf-8",
    )


def test_a_folder_is_trained_stage_by_stage_and_finished_stages_are_passed_over(
    tmp_path: Path,
) -> None:
    write_stage(tmp_path, "1-first", f'tokenizer = "{tmp_path / "tokenizer.json"}"')
    write_stage(tmp_path, "2-second", f'model = "{tmp_path / "1-first" / "model"}"')
    assert train(tmp_path / "stages") == tmp_path / "2-second"
    first, second = (tmp_path / name / "state" / "state.json" for name in ("1-first", "2-second"))
    before = first.stat().st_mtime_ns
    second.write_text(second.read_text().replace('"step": 2', '"step": 1'))
    assert train(tmp_path / "stages") == tmp_path / "2-second"
    assert first.stat().st_mtime_ns == before
    assert json.loads(second.read_text())["step"] == 2


def test_a_folder_with_a_bad_stage_is_refused_before_the_first_begins(tmp_path: Path) -> None:
    write_stage(tmp_path, "1-first", f'tokenizer = "{tmp_path / "tokenizer.json"}"')
    (tmp_path / "stages" / "2-second.toml").write_text("[optim]\nstep = 2\n")
    with pytest.raises(ConfigError, match=r"optim\.step.*did you mean 'steps'"):
        train(tmp_path / "stages")
    assert not (tmp_path / "1-first").exists()
    (tmp_path / "none").mkdir()
    with pytest.raises(ConfigError, match=r"holds no \.toml file"):
        train(tmp_path / "none")
