"""Matrices in few bits and in bytes apart: what is exact is, and what is not is near."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from drt_engine.config.model import ReaderConfig
from drt_engine.errors import WeightsError
from drt_engine.model.packed import (
    GROUP,
    joined,
    pack,
    pack_ranges,
    packed,
    packed_ranges,
    rounded,
    split,
    unpack,
    unpacked,
)
from drt_engine.model.weights import fingerprint, load_model, pack_reader, save_model
from tests.engine.model.factories import make_model, small_like
from tests.fakes import byte_tokenizer
from tests.tables import each_row

READER = ReaderConfig(
    layers=1, heads=4, mlp=512, positions=96, margin=4, longest_question=20, width=256, buckets=8
)


def matrix(rows: int = 260, columns: int = 4 * GROUP) -> Tensor:
    torch.manual_seed(7)
    return torch.randn(rows, columns) * torch.rand(rows, 1)


@pytest.mark.parametrize(("bits", "most"), [(4, 0.13), (3, 0.25)])
def test_a_packed_matrix_is_near(bits: int, most: float) -> None:
    whole = matrix()
    codes, scales = pack(whole, bits)
    again = unpack(codes, scales)
    assert codes.shape == (260, 2 * GROUP) and scales.shape == (260, 4)
    assert ((again - whole).norm() / whole.norm()) < most
    assert len(codes.bitwise_and(15).unique()) == 2**bits - 1
    assert torch.equal(unpack(*pack(again, bits)), again)  # what is packed stays as it is


def test_a_matrix_packed_in_ranges_is_nearer_and_stays_as_it_is() -> None:
    whole = matrix() + 0.5  # ranges need not hold 0
    again = unpack(*pack_ranges(whole))
    assert ((again - whole).norm() / whole.norm()) < 0.08
    torch.testing.assert_close(again, rounded(whole), atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(unpack(*pack_ranges(again)), again, atol=1e-4, rtol=1e-4)
    even = torch.full((512, 2 * GROUP), 0.25)
    assert torch.equal(unpack(*pack_ranges(even)), even)


def test_small_tensors_are_not_rounded_to_ranges() -> None:
    tensors = {"big": matrix(), "bias": torch.ones(3), "odd": torch.randn(2100, 33)}
    few = packed_ranges(tensors)
    assert set(few) == {"big.codes", "big.scales", "big.leasts", "bias", "odd"}
    again = unpacked(few, torch.float32)
    assert set(again) == set(tensors)
    assert torch.equal(rounded(tensors["odd"]), tensors["odd"])
    few["big.leasts"] = few["big.leasts"][1:]
    with pytest.raises(ValueError, match="big: scales"):
        unpacked(few, torch.float32)


def test_groups_of_nothing_and_of_one_large_number() -> None:
    whole = torch.zeros(2, 2 * GROUP)
    whole[1, 3] = -7.0
    again = unpack(*pack(whole, 4))
    assert torch.equal(again, whole)


def test_large_matrices_are_packed_and_the_rest_is_fp16() -> None:
    tensors = {"a.big": matrix(), "a.words": matrix(), "a.bias": torch.ones(3), "b.big": matrix()}
    few = packed(tensors, {"a.": 4, "a.words": 3})
    assert set(few) == {
        *("a.big.codes", "a.big.scales", "a.words.codes", "a.words.scales", "a.bias", "b.big")
    }
    assert few["b.big"].dtype == torch.float16
    assert len((few["a.words.codes"] & 15).unique()) == 7
    again = unpacked(few, torch.bfloat16)
    assert set(again) == set(tensors) and again["a.big"].dtype == torch.bfloat16


@each_row("change", ["lost", "short", "fp32"])
def test_a_broken_matrix_is_named(change: str) -> None:
    few = packed({"a.big": matrix()}, {"a.": 4})
    if change == "lost":
        del few["a.big.scales"]
    elif change == "short":
        few["a.big.codes"] = few["a.big.codes"][:, :-8]
    else:
        few["a.big.codes"] = few["a.big.codes"].float()
    with pytest.raises(ValueError, match=r"^a\.big"):
        unpacked(few, torch.float32)


def test_bytes_of_ranges_apart_are_exact() -> None:
    torch.manual_seed(0)
    packed = packed_ranges({"a": torch.randn(512, 512), "b": torch.randn(8, 8)})
    apart = split(packed)
    assert {"a.scales.high", "a.scales.low", "a.leasts.high", "a.leasts.low"} < set(apart)
    again = joined(apart)
    assert set(again) == set(packed)
    assert all(torch.equal(again[name], packed[name]) for name in packed)
    assert again["a.scales"].dtype == torch.float16


def test_bytes_apart_are_exact() -> None:
    tensors = {"big": matrix().bfloat16(), "small": torch.ones(2, 2), "x.low": torch.ones(3)}
    apart = split(tensors)
    assert set(apart) == {"big.high", "big.low", "small", "x.low"}
    again = joined(apart)
    assert set(again) == set(tensors)
    assert all(torch.equal(again[name], tensors[name]) for name in tensors)
    del apart["big.low"]
    with pytest.raises(ValueError, match="big lacks its low bytes"):
        joined(apart)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = make_model(replace(small_like(reader=READER), vocab=4096))
    save_model(model, byte_tokenizer(), tmp_path)
    return tmp_path


def test_a_folder_with_a_packed_reader_reads_documents_as_before(folder: Path) -> None:
    before, mark = load_model(folder)[0].state_dict(), fingerprint(folder)
    pack_reader(folder, 4)
    after = load_model(folder)[0].state_dict()
    assert fingerprint(folder) == mark
    assert any(name.endswith(".high") for name in load_file(folder / "model.safetensors"))
    for name, tensor in before.items():
        if not name.startswith("span_reader."):
            assert torch.equal(after[name], tensor)
        elif tensor.norm() > 0:
            assert (after[name] - tensor).norm() < 0.3 * tensor.norm()


def test_a_folder_without_a_reader_cannot_be_packed(tmp_path: Path) -> None:
    save_model(make_model(), byte_tokenizer(), tmp_path)
    with pytest.raises(WeightsError, match="holds no reader"):
        pack_reader(tmp_path, 4)
    assert load_model(tmp_path)


@pytest.mark.thorough
def test_a_broken_packed_file_is_named(folder: Path) -> None:
    pack_reader(folder, 4)
    path = folder / "packed.safetensors"
    tensors = load_file(path)
    del tensors["span_reader.blocks.0.up.weight.scales"]
    save_file(tensors, path)
    with pytest.raises(WeightsError, match=r"packed\.safetensors is broken: span_reader\.blocks"):
        load_model(folder)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(WeightsError, match="is broken"):
        load_model(folder)
    path.unlink()
    with pytest.raises(WeightsError, match="describes a reader"):
        load_model(folder)
