"""Benchmarks of kernels, decoding and training with tiny models, and how all of them time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import flex_attention

from drt_engine.config.model import preset
from drt_engine.errors import ConfigError
from drt_engine.model.drt import DRT
from drt_kernels.testing import assert_close
from drt_lab.bench import gca, parts, retrieve, timing
from drt_lab.bench.decode import read_bytes
from drt_lab.bench.gca import Case, GcaShape, backend, naive, sdpa_gathered
from drt_lab.bench.kernels import _Bench, bench_kernels, gca_shape
from drt_lab.bench.parts import BenchOptions, Calibration, Machine
from drt_lab.bench.run import bench
from drt_lab.bench.timing import Clock, in_turns
from drt_lab.bench.train import train_flops
from drt_lab.evaluate.report import BenchRow, bench_row
from tests.log_records import Records
from tests.tables import each_row

CPU = torch.device("cpu")
SHAPE = GcaShape(batch=2, chunks=3, tokens=9, memory=16, retrieved=2, heads=4, kv_heads=2, size=16)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(parts.SHAPES, "small", "drt-tiny")
    monkeypatch.setattr(parts, "_SIDE", 64)
    monkeypatch.setattr(timing, "_SHORT", 0.001)


def rows_of(name: str, **options: object) -> dict[str, dict[str, object]]:
    result = bench(name, {"device": "cpu", "threads": 1, "repetitions": 2, **options})
    assert list(result) == ["bench", "rows", "calibration", "seconds", "model"]
    assert result["bench"] == name and result["calibration"]["matmul_gflops"] > 0
    assert result["calibration"]["threads"] == 1
    rows = {row["name"]: row for row in result["rows"]}
    assert len(rows) == len(result["rows"])
    assert all(row["median"] > 0 for row in rows.values())
    assert {row["against"] for row in rows.values()} <= {*rows, "matmul", None}
    return rows


@pytest.mark.slow  # .ci/run measures kernels, too
def test_kernels() -> None:
    rows = rows_of("kernels", tokens=64)
    for kind in ("forward", "backward", "forward and backward"):
        ours = rows[f"gca {kind}, dense"]
        assert ours["ratio"] is None and ours["unit"] == "ms"
        for name in ("naive", "reference", "sdpa on gathered chunks", "sdpa, equal work"):
            other = rows[f"gca {kind}, {name}"]
            assert other["against"] == f"gca {kind}, dense"
            assert other["ratio"] == pytest.approx(other["median"] / ours["median"])
        rate = rows[f"gca {kind}, dense, operations"]
        assert (rate["unit"], rate["against"]) == ("GFLOP/s", "matmul")
    assert rows["gca decode, naive"]["against"] == "gca decode, laid out"
    assert rows["window backward, reference"]["against"] == "window backward, banded"


@pytest.mark.thorough
def test_decode(model_folder: Path) -> None:
    rows = rows_of("decode", model=str(model_folder))
    step, plain = rows["decode"], rows["decode without GCA"]
    assert step["against"] == "decode without GCA" and plain["ratio"] is None
    assert step["ratio"] == pytest.approx(step["median"] / plain["median"])
    assert rows["decode, borders included"]["median"] == pytest.approx(
        step["median"] + rows["border of a chunk"]["median"] / 16
    )
    assert rows["decode, rate"]["unit"] == "tokens/s"
    assert "decode, 1 thread" not in rows and "decode, CUDA graph" not in rows


@pytest.mark.slow
def test_decode_of_a_shape_without_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(parts.SHAPES, "128m", "drt-tiny")
    assert rows_of("decode", shape="128m")["decode"]["median"] > 0


@pytest.mark.slow  # seven models; .ci/exercise.py runs it, too
def test_train() -> None:
    # Once: the median of several rates is not one over the median of their times.
    rows = rows_of("train", tokens=64, repetitions=1)
    bare = rows["without GCA and encoder"]
    for groups in ("1 group", "2 groups"):
        step, rate = rows[f"DRT, {groups}"], rows[f"DRT, {groups}, rate"]
        assert step["against"] == "without GCA"
        assert rate["ratio"] == pytest.approx(bare["median"] / step["median"])
    assert rows["DRT, 1 group, naive GCA"]["against"] == "without GCA"
    assert rows["DRT, 1 group, operations"]["against"] == "matmul"
    assert "DRT, 1 group, compiled" not in rows
    memory = rows["DRT, 1 group, layers computed twice, memory"]
    assert memory["against"] == "DRT, 1 group, memory" and memory["ratio"] < 1
    assert rows["losses in 8 pieces, memory"]["ratio"] < 1


def test_retrieve_on_one_device(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieve.importlib.util, "find_spec", lambda name: None)
    rows = rows_of("retrieve", model=str(model_folder), tokens=4096)
    assert rows["scan kernel"]["against"] == "memory copy" == rows["product and top-k"]["against"]
    assert "faiss IndexFlatIP" not in rows


def test_faiss_is_timed_where_it_is_installed(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in: numpy, which faiss brings, is not installed for our own tests."""
    added: list[Tensor] = []

    class Flat:
        def __init__(self, width: int) -> None:
            assert width == 32

        def add(self, part: Tensor) -> None:
            assert part.dtype == torch.float32
            added.append(part)

        def search(self, query: Tensor, count: int) -> object:
            return (torch.cat(added) @ query[0]).topk(count)

    class Module:
        IndexFlatIP, threads = Flat, 0

        def omp_set_num_threads(self, count: int) -> None:
            self.threads = count

    class Found:
        origin = "faiss.py"

    module = Module()
    tools = retrieve.importlib
    real = tools.import_module
    monkeypatch.setattr(tools.util, "find_spec", lambda name: Found())
    monkeypatch.setattr(
        tools, "import_module", lambda name: module if name == "faiss" else real(name)
    )
    monkeypatch.setattr(Tensor, "numpy", lambda tensor: tensor)
    rows = rows_of("retrieve", model=str(model_folder), tokens=4096)
    assert rows["faiss IndexFlatIP"]["against"] == "landmark scan"
    assert sum(map(len, added)) == 4096 // 16 and module.threads == 1


@each_row(
    "form", [naive, sdpa_gathered, partial(sdpa_gathered, full_chunks=True), backend("dense")]
)
def test_every_way_computes_the_same(form: Callable[..., Tensor]) -> None:
    case = Case.random(SHAPE, device=CPU, dtype=torch.float32)
    inputs = case.differentiable()
    wanted = case.call(gca.backend("reference"))
    actual = case.call(form)
    assert_close("out", wanted, actual, 1e-5)
    back = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(1))
    names = ("dq", "dk", "dv", "dp")
    pairs = (torch.autograd.grad(out, inputs, back) for out in (wanted, actual))
    for name, one, other in zip(names, *pairs, strict=True):
        assert_close(name, one, other, 1e-5)


@pytest.mark.slow
def test_flex_attention_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """By PyTorch's own form of it, which compiles nothing and says so; a CPU has no backward."""
    monkeypatch.setattr(gca, "_BLOCK", 8)
    monkeypatch.setattr(gca, "_compiled_flex", lambda: flex_attention)
    case = Case.random(SHAPE, device=CPU, dtype=torch.float32)
    with pytest.warns(UserWarning, match="without torch.compile"):
        actual = case.call(partial(gca.flex, full_chunks=True))
    assert_close("out", case.call(gca.backend("reference")), actual, 1e-5)


def test_hidden_tokens_stay_hidden() -> None:
    case = Case.random(SHAPE, device=CPU, dtype=torch.float32)
    case.mask[::2, 5:] = False
    wanted = case.call(gca.backend("reference"))
    for form in (naive, sdpa_gathered):
        assert_close("out", wanted, case.call(form), 1e-5)
    with pytest.raises(ValueError, match="expected whole ones"):
        case.call(gca.flex)


def test_shapes_are_those_of_the_model() -> None:
    config = preset("drt-128m")
    shape = gca_shape(config, 1 << 16)
    assert (shape.batch, shape.chunks, shape.tokens) == (4, 252, 65)
    assert gca_shape(config, 100).batch == gca_shape(config, 100).chunks == 1
    assert SHAPE.flops == 4 * 2 * 3 * 9 * 4 * 2 * 16 * 16


def test_operations_of_training_are_those_of_the_layers() -> None:
    config = preset("drt-tiny")
    more = replace(config, upper_layers=2 * config.upper_layers)
    model = DRT(config)
    weights = sum(m.weight.numel() for m in model.upper.modules() if isinstance(m, nn.Linear))
    heads = config.heads * config.head_size
    read = 2 * heads * (config.window + config.retrieved * config.chunk)
    upper = 6 * (weights + config.upper_layers * read) * config.slots / config.chunk
    assert train_flops(more) - train_flops(config) == pytest.approx(upper)
    wider = replace(config, vocab=config.vocab + 10)
    assert train_flops(wider) - train_flops(config) == pytest.approx(6 * 10 * config.width)


def test_weights_that_one_token_reads() -> None:
    model = DRT(preset("drt-tiny"))
    bytes_read = read_bytes(model)
    model.encoder = model.memory_map = nn.Identity()  # type: ignore[assignment]
    rest = sum(4 * p.numel() for name, p in model.named_parameters() if "scorer" not in name)
    assert bytes_read == rest - 4 * model.norm.weight.numel()


def test_work_is_timed_in_turns() -> None:
    """In another order in every round, and short work many times at once."""
    calls: list[str] = []

    def work(name: str) -> Callable[[], None]:
        def call() -> None:
            if calls[-1:] != [name]:
                calls.append(name)
            time.sleep(0.0002)

        return call

    timed = in_turns({name: work(name) for name in "abcd"}, Clock(CPU), repetitions=6)
    assert {name: len(seconds) for name, seconds in timed.items()} == dict.fromkeys("abcd", 6)
    assert all(0.0002 < one < 0.1 for seconds in timed.values() for one in seconds)
    rounds = "".join(calls)
    assert rounds.startswith("abcd") and len({rounds[i : i + 4] for i in range(4, 24, 4)}) > 2


def test_work_that_cannot_run_is_left_out_and_said(records: Records) -> None:
    def fail() -> None:
        raise RuntimeError("out of memory. 2 GiB were asked for\nand more")

    works = {"good": lambda: None, "bad": fail}
    with records.at_level(logging.WARNING, "drt"):
        assert list(in_turns(works, Clock(CPU), repetitions=1)) == ["good"]
    assert records.messages == ["left out: bad (RuntimeError: out of memory)"]
    with pytest.raises(RuntimeError, match="out of memory"):
        in_turns(works, Clock(CPU), repetitions=1, needed=["bad"])


def test_work_that_fails_later_is_left_out_too(records: Records) -> None:
    outcomes = iter([None, None, None, None, RuntimeError("memory is gone")])

    def work() -> None:
        time.sleep(0.03)  # once in a timing
        if (error := next(outcomes)) is not None:
            raise error

    with records.at_level(logging.WARNING, "drt"):
        timed = in_turns({"bad": work, "good": lambda: None}, Clock(CPU), repetitions=4)
    assert list(timed) == ["good"] and len(timed["good"]) == 4
    assert records.messages == ["left out: bad (RuntimeError: memory is gone)"]


def test_rows_of_kernels_without_the_one_that_models_use(records: Records) -> None:
    def fail() -> None:
        raise RuntimeError("no choices")

    machine = Machine(CPU, torch.float32)
    bench = _Bench(machine, Calibration(machine), 1)
    with records.at_level(logging.WARNING, "drt"):
        rows = list(bench._rows({"ours": fail, "plain": lambda: None}, first="ours", flops=1.0))
    assert [(row.name, row.against) for row in rows] == [("plain", None)]
    assert records.messages == ["left out: ours (RuntimeError: no choices)"]


def test_a_kernel_that_fails_leaves_the_others(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Iterator[BenchRow]:
        yield bench_row("first", [1.0], unit="ms")
        raise RuntimeError("no memory")

    monkeypatch.setattr(_Bench, "gca", fail)
    monkeypatch.setattr(_Bench, "decode", lambda *_: [])
    monkeypatch.setattr(_Bench, "window", lambda *_: [bench_row("last", [1.0], unit="ms")])
    monkeypatch.setattr(Calibration, "numbers", lambda *_, **__: {})
    with records.at_level(logging.WARNING, "drt"):
        report = bench_kernels(BenchOptions(device="cpu", threads=1, tokens=64))
    assert [row.name for row in report.rows] == ["first", "last"]
    assert records.messages == ["left out: more of gca (RuntimeError: no memory)"]


@each_row(
    ("name", "options", "message"),
    [
        ("kernels", {"shape": "huge"}, "kernels.shape is 'huge', expected one of"),
        ("train", {"tokens": 3}, "tokens is 3, expected 64 or more"),
        ("decode", {"model": "nothing"}, "no model or model folder is called 'nothing'"),
        ("kernels", {"device": "tpu"}, "device is 'tpu', expected auto, cpu or cuda"),
        ("train", {"repetitions": 0}, "repetitions is 0"),
    ],
)
def test_wrong_options_end_in_a_sentence(
    name: str, options: dict[str, object], message: str
) -> None:
    kind = Exception if "model" in options else ConfigError
    with pytest.raises(kind, match=message):
        bench(name, {"threads": 1, **options})
