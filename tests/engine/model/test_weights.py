"""Model folders: round trip, broken files, and the fingerprint that libraries are bound to."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from drt_engine.config.model import EncoderConfig, ModelConfig, ReaderConfig
from drt_engine.errors import ConfigError, TokenizerError, WeightsError
from drt_engine.model.drt import DRT
from drt_engine.model.weights import (
    PACKED,
    fingerprint,
    load_config,
    load_model,
    save_model,
)
from tests.engine.model.factories import (
    changed,
    full,
    make_model,
    random_ids,
    small_like,
    tiny,
)
from tests.fakes import byte_tokenizer
from tests.tables import each_row


def save(model: DRT, folder: Path) -> Path:
    save_model(model, byte_tokenizer(), folder, dtype=torch.float32)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save(make_model(), tmp_path / "model")


@pytest.mark.parametrize("config", [tiny(), small_like()], ids=["paper", "small"])
def test_round_trip(config: ModelConfig, tmp_path: Path) -> None:
    model = make_model(config)
    again, tokenizer = load_model(save(model, tmp_path))
    assert again.config == config
    assert tokenizer.decode(tokenizer.encode("naïve").ids) == "naïve"
    ids = random_ids(config, 1, 4, config.chunk)
    with torch.no_grad():
        assert torch.equal(again(ids, full(ids)), model(ids, full(ids)))
    assert not any(t.is_meta for t in (*again.parameters(), *again.buffers()))
    assert not again.training


def test_shipped_weights_are_bf16(tmp_path: Path) -> None:
    model = make_model()
    save_model(model, byte_tokenizer(), tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    assert {t.dtype for t in stored.values()} == {torch.bfloat16}
    again, _ = load_model(tmp_path)
    assert {p.dtype for p in again.parameters()} == {torch.float32}
    assert torch.equal(again.embedding.weight, model.embedding.weight.bfloat16().float())


def test_saving_again_replaces_and_leaves_nothing_else(folder: Path) -> None:
    save(make_model(seed=9), folder)
    names = sorted(p.name for p in folder.iterdir())
    assert names == ["config.json", "model.safetensors", "tokenizer.json"]


@each_row(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_files_follow_the_umask(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        folder = save(make_model(), tmp_path / "model")
        save(make_model(seed=9), folder)
    finally:
        os.umask(before)
    assert {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()} == dict.fromkeys(
        ("config.json", "model.safetensors", "tokenizer.json"), mode
    )


READER = ReaderConfig(layers=1, heads=4, mlp=48, positions=96, margin=4, longest_question=20)


@pytest.mark.parametrize(
    ("stored", "described", "sentence"),
    [
        (READER, None, "holds a reader .* but config.json says reader = null"),
        (None, READER, "describes a reader, but model.safetensors holds none"),
    ],
)
def test_a_reader_in_one_of_two_files_only_is_named(
    tmp_path: Path, stored: ReaderConfig | None, described: ReaderConfig | None, sentence: str
) -> None:
    folder = save(make_model(small_like(reader=stored)), tmp_path / "model")
    reader = None if described is None else asdict(described)
    rewrite(folder / "config.json", lambda c: c.update(reader=reader))
    with pytest.raises(WeightsError, match=sentence) as refusal:
        load_model(folder)
    assert "\n" not in str(refusal.value) and "size mismatch" not in str(refusal.value)
    rewrite(folder / "config.json", lambda c: c.update(reader=stored and asdict(stored)))
    assert load_model(folder)[0].config.reader == stored


def cut(file: Path, keep: float) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * keep)])


def rewrite(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))


def retensor(file: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file)


@pytest.mark.few(8)
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda f: (f / "model.safetensors").unlink(), "has no model.safetensors"),
        (lambda f: (f / "model.safetensors").write_bytes(b""), "is broken"),
        (lambda f: (f / "model.safetensors").write_bytes(b"\xff" * 64), "is broken"),
        (lambda f: cut(f / "model.safetensors", 0.9), "is broken"),
        (lambda f: cut(f / "model.safetensors", 0.01), "is broken"),
        (lambda f: retensor(f / "model.safetensors", lambda t: t.pop("norm.weight")), "norm"),
        (
            lambda f: retensor(
                f / "model.safetensors", lambda t: t.update({"norm.weight": torch.ones(3)})
            ),
            "norm",
        ),
        (
            lambda f: retensor(f / "model.safetensors", lambda t: t.update(more=torch.ones(3))),
            "more",
        ),
        (lambda f: (f / "config.json").unlink(), "has no config.json"),
        (lambda f: (f / "config.json").write_text("{"), "not a model configuration"),
        (lambda f: (f / "config.json").write_bytes(b"\xff\xfe{"), "not a model configuration"),
        (lambda f: (f / "config.json").write_text("[1]"), "not a model configuration"),
        (lambda f: rewrite(f / "config.json", lambda c: c.update(width="32")), "not a model"),
        (lambda f: rewrite(f / "config.json", lambda c: c.update(encoder={"size": 3})), "size"),
        (lambda f: rewrite(f / "config.json", lambda c: c.update(width=float("nan"))), "NaN is no"),
        (lambda f: rewrite(f / "config.json", lambda c: c.update(heads=4.0)), "heads is 4.0, exp"),
        (lambda f: rewrite(f / "config.json", lambda c: c.update(reread=1)), "expected bool"),
        (lambda f: rewrite(f / "config.json", lambda c: c.update(encoder=[1])), "not a model"),
        (lambda f: (f / "config.json").write_text("[" * 100_000), "not a model"),
        (lambda f: (f / "config.json").write_text('{"width": ' + "9" * 5000 + "}"), "not a model"),
    ],
)
def test_broken_folders_are_refused(
    folder: Path, damage: Callable[[Path], object], said: str
) -> None:
    damage(folder)
    with pytest.raises(WeightsError, match=said):
        load_model(folder)


def sparse(path: Path) -> None:
    """A file of a terabyte that takes no room."""
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        try:
            file.truncate(1 << 40)
        except OSError:
            pytest.skip("the file system has no file of this size")


def made_into(kind: str, path: Path) -> None:
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        sparse(path)


@pytest.mark.few(4)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no special files here")
@pytest.mark.parametrize("kind", ["fifo", "device", "folder", "sparse"])
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors", PACKED])
def test_special_and_endless_files_are_refused_at_once(folder: Path, name: str, kind: str) -> None:
    made_into(kind, folder / name)
    with pytest.raises((WeightsError, TokenizerError)) as caught:
        load_model(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"colour": 3},
        {"heads": 5},
        {"gca_output": "both"},
        {"upper_layers": 10**7},
        {"lower_layers": 10**15},
        {"vocab": 10**4000},
        {"lexical_neighbours": 2},
    ],
)
def test_configurations_that_do_not_exist_are_refused(
    folder: Path, change: dict[str, object]
) -> None:
    rewrite(folder / "config.json", lambda c: c.update(change))
    with pytest.raises((ConfigError, WeightsError), match=next(iter(change))):
        load_config(folder)


def test_a_folder_without_a_tokenizer_is_refused(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    with pytest.raises(TokenizerError, match="does not exist"):
        load_model(folder)


READING = [
    "embedding.weight",
    "lower.0.attention.qkv.weight",
    "lower.1.mlp.down.weight",
    "encoder.positions.weight",
    "encoder.blocks.0.attention.out.weight",
    "memory_map.weight",
    "scorer.key.weight",
]
NOT_READING = [
    "upper.0.mlp.down.weight",
    "upper.1.gca.query.weight",
    "scorer.state_query.0.weight",
    "norm.weight",
    "quote_head.start_query.weight",
    "question_map.weight",
    "scorer.log_scale",
    "scorer.lexical",
]


@pytest.mark.few(5)
@pytest.mark.parametrize("name", [*READING, *NOT_READING])
def test_only_what_reading_depends_on_is_in_the_fingerprint(tmp_path: Path, name: str) -> None:
    folder = save(make_model(small_like()), tmp_path)
    before = fingerprint(folder)
    assert len(before) == 16
    retensor(folder / "model.safetensors", lambda t: t[name].view(-1)[:1].add_(0.5))
    assert (fingerprint(folder) != before) == (name in READING)


@each_row(
    "change",
    [
        {"window": 8},
        {"landmark_pooling": "token"},
        {"chunk": 4},
        {"normalised_scores": False},
        {"landmark_id": 5},
        {"encoder": EncoderConfig(kind="bert", layers=1, heads=2, mlp=48, positions=64)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_settings_that_change_what_is_stored_change_the_fingerprint(
    tmp_path: Path, change: dict[str, object]
) -> None:
    plain = fingerprint(save(make_model(small_like()), tmp_path / "one"))
    other = DRT(small_like(**change))
    other.load_state_dict(make_model(small_like()).state_dict(), strict=False)
    assert fingerprint(save(other, tmp_path / "other")) != plain


@each_row("change", [{"retrieved": 3}, {"name": "mine"}, {"reread_margin": 0}])
def test_settings_of_answering_do_not(tmp_path: Path, change: dict[str, object]) -> None:
    plain = fingerprint(save(make_model(small_like()), tmp_path / "one"))
    other = make_model(changed(small_like(), **change))
    assert fingerprint(save(other, tmp_path / "other")) == plain


def test_another_tokenizer_is_another_fingerprint(folder: Path) -> None:
    before = fingerprint(folder)
    byte_tokenizer([("a", "b")]).save(folder / "tokenizer.json")
    assert fingerprint(folder) != before
