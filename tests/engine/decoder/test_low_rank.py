"""What is trained beside frozen matrices: 0 at the start, written apart, added on loading."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from drt_engine.decoder.low_rank import add_low_rank, low_rank_factors, merged
from drt_engine.decoder.saved import load_decoder, save_decoder
from drt_engine.errors import WeightsError
from tests.engine.decoder.tiny import tiny_decoder, tiny_tokenizer

IDS = torch.arange(12)[None]


def test_nothing_changes_at_the_start() -> None:
    model = tiny_decoder()
    before = model(IDS)
    add_low_rank(model, 3)
    assert torch.equal(model(IDS), before)
    trained = {name for name, p in model.upper.named_parameters() if p.requires_grad}
    assert {name.rpartition(".")[2] for name in trained} == {"up", "down", "weight"}
    assert all("norm" in name for name in trained if name.endswith("weight"))


def test_a_loaded_decoder_has_the_sum(tmp_path: Path) -> None:
    model = tiny_decoder()
    add_low_rank(model, 3)
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        if name.endswith(".up"):
            torch.nn.init.normal_(parameter, std=0.1)
    save_decoder(model, tiny_tokenizer(), tmp_path / "d", dtype=torch.float32)
    loaded = load_decoder(tmp_path / "d").model
    assert not low_rank_factors(loaded)
    torch.testing.assert_close(loaded(IDS), model(IDS), atol=1e-5, rtol=1e-5)


def test_a_factor_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a.weight.up does not fit a.weight"):
        merged({"a.weight": torch.zeros(4, 4), "a.weight.up": torch.zeros(4, 2)})
    with pytest.raises(ValueError, match=r"got \[1, 4\], expected \[4, 4\]"):
        merged(
            {"a.weight": torch.ones(4, 4), "a.weight.up": torch.ones(1, 2)}
            | {"a.weight.down": torch.ones(2, 4)}
        )
    model = tiny_decoder()
    add_low_rank(model, 3)
    model.upper[0].qkv.up.data = model.upper[0].qkv.up.data[1:]
    save_decoder(model, tiny_tokenizer(), tmp_path / "d")
    with pytest.raises(WeightsError, match=r"upper.0.qkv.weight.up does not fit"):
        load_decoder(tmp_path / "d")
