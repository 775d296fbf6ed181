"""A decoder's folder: what is written is read, and a broken one is an error in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from drt_engine.decoder.config import DecoderConfig
from drt_engine.decoder.model import RetrievalDecoder
from drt_engine.decoder.saved import load_decoder, save_decoder
from drt_engine.errors import ConfigError, WeightsError
from tests.engine.decoder.tiny import TINY, tiny_decoder, tiny_tokenizer
from tests.tables import each_row


def test_a_saved_decoder_is_the_same(tmp_path: Path) -> None:
    model, tokenizer = tiny_decoder(), tiny_tokenizer()
    save_decoder(model, tokenizer, tmp_path / "d", dtype=torch.float32)
    loaded = load_decoder(tmp_path / "d")
    assert loaded.model.config == TINY
    assert loaded.tokenizer.encode("Ångström 5").ids == tokenizer.encode("Ångström 5").ids
    for name, tensor in loaded.model.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name]), name


def test_four_bits_are_near(tmp_path: Path) -> None:
    shape = DecoderConfig(
        vocab=300, width=256, lower_layers=1, upper_layers=1, heads=4, kv_heads=2, mlp=256
    )
    torch.manual_seed(0)
    model = RetrievalDecoder(shape)
    save_decoder(model, tiny_tokenizer(), tmp_path / "d", pack=True)
    save_decoder(model, tiny_tokenizer(), tmp_path / "whole")
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("d", "whole")]
    assert sizes[0] < 0.4 * sizes[1]
    for name, tensor in load_decoder(tmp_path / "d").model.state_dict().items():
        original = model.state_dict()[name]
        assert float((tensor - original).norm() / original.norm().clamp(min=1e-9)) < 0.1, name


@each_row(
    ("file", "content"),
    [
        ("config.json", '{"width": 7}'),
        ("config.json", "{"),
        ("config.json", '{"colour": 1}'),
        ("config.json", None),
        ("model.safetensors", "x"),
        ("model.safetensors", None),
        ("tokenizer.json", "{}"),
    ],
)
def test_a_broken_folder_is_named(tmp_path: Path, file: str, content: str | None) -> None:
    save_decoder(tiny_decoder(), tiny_tokenizer(), tmp_path)
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_text(content)
    with pytest.raises(WeightsError, match=str(tmp_path)):
        load_decoder(tmp_path)


def test_weights_of_another_shape_are_named(tmp_path: Path) -> None:
    save_decoder(tiny_decoder(), tiny_tokenizer(), tmp_path)
    DecoderConfig(**{**vars(TINY), "mlp": 64}).save(tmp_path)
    with pytest.raises(WeightsError, match="does not fit"):
        load_decoder(tmp_path)


@each_row(("key", "value"), [("width", 0), ("heads", 3), ("kv_heads", 3), ("end_id", 300)])
def test_values_that_do_not_fit_are_refused(key: str, value: int) -> None:
    with pytest.raises(ConfigError, match=r"decoder\."):
        DecoderConfig(**{**vars(TINY), key: value})
