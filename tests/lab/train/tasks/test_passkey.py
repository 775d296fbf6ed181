"""The passkey task: only the answers are learnt, other losses where asked for."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from drt_engine.errors import ConfigError
from drt_lab.config.train import PasskeyConfig, TrainConfig
from drt_lab.data.passkeys import KEY, LINK, symbol_tokenizer
from drt_lab.lm.losses import next_token_targets
from drt_lab.train.run import train
from drt_lab.train.tasks.base import TaskSetup
from drt_lab.train.tasks.passkey import PasskeyTask
from tests.engine.model.factories import full, make_model, tiny

MODEL = tiny(vocab=32)
STAGES = Path(__file__).parents[4] / "examples" / "paper" / "passkey"


def make_task(**options: object) -> PasskeyTask:
    section = PasskeyConfig(share=1.0, symbols=32, chunks=(8,), batch=8, **options)  # type: ignore[arg-type]
    setup = TaskSetup(TrainConfig(passkey=section), MODEL, symbol_tokenizer(32))
    return PasskeyTask(setup)


def test_the_loss_is_that_of_the_answers() -> None:
    task, model = make_task(), make_model(MODEL)
    batch = task.draw(random.Random(1))
    loss, values = task.loss(model, batch, None)
    loss = loss.detach()
    states = model(batch.chunks, full(batch.chunks)).detach()
    targets, _ = next_token_targets(batch.chunks, full(batch.chunks))
    logits = model.logits(states[:, -1, :3]).detach()
    expected = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1).float(), targets[:, -1, :3].flatten()
    )
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)
    assert values["passkey"] == float(loss)
    both, _ = make_task(lm_loss=0.5).loss(model, batch, None)
    assert float(both.detach()) > float(loss)


def test_a_share_of_the_contexts_has_two_hops_and_all_have_names() -> None:
    batch = make_task(two_hops=0.5).draw(random.Random(2))
    links = (batch.chunks == LINK).flatten(1).any(dim=1)
    assert 0 < int(links.sum()) < len(links)
    assert ((batch.chunks == KEY).flatten(1).sum(dim=1) >= 2).all()


def test_a_share_of_the_contexts_of_one_hop_asks_for_links() -> None:
    batch = make_task(two_hops=0.5, links=0.5, noise=1, answer=1).draw(random.Random(3))
    asked = [(row == LINK).any().item() for row in batch.chunks[:, -1]]
    hops = [(row == KEY).any().item() and (row == LINK).any().item() for row in batch.chunks]
    assert any(asked) and any(hops)
    assert not any(link and two for link, two in zip(asked, hops, strict=True))


def test_the_landmark_before_the_answer_may_have_to_know_it() -> None:
    model = make_model(MODEL)
    task = make_task(landmark=0.5, answer=1, noise=1, links=0.5)
    batch = task.draw(random.Random(4))
    assert torch.equal(batch.chunks[:, -3], batch.chunks[:, -2])  # the question, twice
    loss, values = task.loss(model, batch, None)
    states = model(batch.chunks, full(batch.chunks)).detach()
    expected = torch.nn.functional.cross_entropy(
        model.logits(states[:, -2, -1]).detach().float(), batch.chunks[:, -1, 1]
    )
    assert values["passkey_landmark"] == pytest.approx(float(expected), rel=1e-5)
    assert float(loss.detach()) == pytest.approx(
        values["passkey"] + 0.5 * values["passkey_landmark"], rel=1e-5
    )


def test_landmarks_that_cannot_be_asked() -> None:
    with pytest.raises(ConfigError, match=r"landmark is 0\.5 and passkey.two_hops 0\.5"):
        make_task(landmark=0.5, two_hops=0.5)
    section = PasskeyConfig(share=1.0, symbols=32, landmark=1.0)
    base = tiny(vocab=32, architecture="base")
    with pytest.raises(ConfigError, match="architecture 'base', whose landmarks retrieve nothing"):
        PasskeyTask(TaskSetup(TrainConfig(passkey=section), base, symbol_tokenizer(32)))


def test_a_run_needs_no_tokenizer(tmp_path: Path) -> None:
    config = tmp_path / "passkey.toml"
    config.write_text(
        f"""
[model]
preset = "drt-tiny"
[optim]
steps = 2
[passkey]
share = 1.0
symbols = 32
chunks = [5]
batch = 2
[run]
out = "{tmp_path / "run"}"
bf16 = false
log_every = 1
"""
    )
    folder = train(config)
    assert "passkey" in (folder / "metrics.jsonl").read_text()
    assert (folder / "model" / "tokenizer.json").exists()


def test_the_same_seed_draws_the_same_batch() -> None:
    task = make_task(noise=1)
    one, two = (task.draw(random.Random("1/2/0")).chunks for _ in range(2))
    assert torch.equal(one, two)


@pytest.mark.slow
def test_the_stages_of_the_shipped_model_give_the_same_bytes_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)  # the stages name each other below the current folder
        folder = train(STAGES, ["optim.steps=3", "passkey.batch=2"])
        models.append((folder / "model" / "model.safetensors").read_bytes())
    assert models[0] == models[1]
