"""A language model is loaded in the type that was asked for, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from drt_engine.errors import ConfigError
from drt_engine.model.int8 import Int8Linear
from drt_engine.model.weights import save_model
from drt_engine.runtime import Runtime
from drt_lab.evaluate.perplexity import stream_losses
from drt_lab.lm.build import make_model
from drt_lab.lm.runtime import LanguageRuntime
from tests.engine.model.factories import random_ids, tiny
from tests.fakes import byte_tokenizer


def saved(folder: Path, **changes: object) -> Path:
    tokenizer = byte_tokenizer()
    torch.manual_seed(0)
    model = make_model(tiny(vocab=tokenizer.vocab_size, **changes))
    save_model(model, tokenizer, folder, dtype=torch.float32)
    return folder


def test_a_drt_reads_in_int8_where_that_was_asked_for(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    fp32, int8 = (
        LanguageRuntime.load(folder, device="cpu", threads=1, dtype=dtype)
        for dtype in ("fp32", "int8")
    )
    assert any(isinstance(module, Int8Linear) for module in int8.model.modules())
    ids = random_ids(int8.config, 200).tolist()
    losses = stream_losses(int8, ids)
    assert not torch.equal(losses, stream_losses(fp32, ids))
    product = LanguageRuntime.of(Runtime.load(folder, device="cpu", threads=1, dtype="int8"))
    assert torch.equal(losses, stream_losses(product, ids))


def test_other_architectures_are_refused_in_int8(tmp_path: Path) -> None:
    folder = saved(tmp_path, architecture="base")
    with pytest.raises(ConfigError, match=r"architecture 'base'; use --dtype fp32"):
        LanguageRuntime.load(folder, device="cpu", threads=1, dtype="int8")
