"""Which type a processor computes in."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from drt_engine.errors import ConfigError
from drt_engine.runtime import Runtime, choose_dtype, fast_bf16
from tests.tables import each_row


@each_row(
    ("tiles", "bf16", "vendor", "fast"),
    [
        (True, True, "GenuineIntel", True),
        (False, True, "GenuineIntel", False),
        (False, True, "AuthenticAMD", True),
        (False, False, "AuthenticAMD", False),
    ],
)
def test_bf16_where_it_is_faster(
    tiles: bool,
    bf16: bool,
    vendor: str,
    fast: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: tiles, raising=False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: bf16, raising=False)
    info = tmp_path / "cpuinfo"
    info.write_text(f"processor\t: 0\nvendor_id\t: {vendor}\n")
    assert fast_bf16(info) == fast


def test_an_unknown_processor_computes_in_fp32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False, raising=False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True, raising=False)
    assert not fast_bf16(tmp_path / "nothing")


def test_a_type_that_is_asked_for_is_taken() -> None:
    cpu = torch.device("cpu")
    assert choose_dtype("bf16", cpu) == torch.bfloat16
    assert choose_dtype("fp32", cpu) == torch.float32
    assert choose_dtype("int8", cpu) == torch.float32


def test_int8_is_for_cpus() -> None:
    with pytest.raises(ConfigError, match="dtype int8 is for CPUs, and device is cuda"):
        choose_dtype("int8", torch.device("cuda"))


def test_another_type_is_refused() -> None:
    with pytest.raises(ConfigError, match="dtype is 'fp16', expected auto, bf16, fp32 or int8"):
        Runtime.load(dtype="fp16")
