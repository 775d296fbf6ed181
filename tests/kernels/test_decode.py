"""Decoding step of grouped cross-attention: every form against the definition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

from drt_kernels import ChunkRecords, decode_memory, gca, gca_decode
from drt_kernels.decode import explain_decode
from drt_kernels.testing import assert_close, relative_error
from tests.sampling import sampled

NEEDS_TRITON = pytest.mark.skipif(find_spec("triton") is None, reason="no Triton")
CHECKS = ("test_schema", "test_faketensor")  # it has no gradient
FORMS = [
    "dense",
    pytest.param("triton", marks=NEEDS_TRITON),
]
EVERY_FORM = pytest.mark.parametrize("backend", FORMS)
# test_shapes has both.
SOFTMAXES = pytest.mark.parametrize(
    "off_by_one", sampled([True, False], {0}), ids=["off-by-one", "plain"]
)


@dataclass(frozen=True)
class Case:
    """One step's arguments."""

    query: Tensor
    records: ChunkRecords
    index: Tensor
    probabilities: Tensor

    def run(self, backend: str | None, *, off_by_one: bool = True) -> Tensor:
        memory = decode_memory(
            self.records,
            self.index,
            probabilities=self.probabilities,
            off_by_one=off_by_one,
            backend=backend,
        )
        return gca_decode(self.query, memory)

    def truth(self, *, off_by_one: bool = True) -> Tensor:
        double = replace(self, query=self.query.double())
        return double.run("reference", off_by_one=off_by_one)


def quantised(x: Tensor) -> tuple[Tensor, Tensor]:
    """As the store does it: int8 and an fp16 scale per token and head, rounded up."""
    scales = (x.abs().amax(dim=-1) / 127 * (1 + 2**-10)).half()
    numbers = x / scales.float().clamp(min=1e-12)[..., None]
    return numbers.round().clamp(-127, 127).to(torch.int8), scales


def make_case(
    t: int = 1,
    s: int = 7,
    r: int = 3,
    *,
    heads: tuple[int, int] = (4, 2),
    size: int = 32,
    batch: int = 2,
    kind: torch.dtype = torch.float32,
) -> Case:
    """Chunk 0 has no token, others lack some; what does not exist is NaN (127 in int8)."""
    pool, (h, hk) = 5, heads
    mask = torch.rand(pool, s) < 0.8
    mask[:, 0] = True
    mask[0] = False
    keys, values = torch.randn(2, pool, s, hk, size)
    scales: list[Tensor | None] = [None, None]
    if kind == torch.int8:
        (keys, scales[0]), (values, scales[1]) = quantised(keys), quantised(values)
        for stored, scale in ((keys, scales[0]), (values, scales[1])):
            stored[~mask] = 127
            assert scale is not None
            scale[~mask] = float("nan")
    else:
        keys, values = keys.to(kind), values.to(kind)
        keys[~mask], values[~mask] = float("nan"), float("nan")
    return Case(
        query=torch.randn(batch, t, h, size),
        records=ChunkRecords(keys, values, mask, *scales),
        index=torch.randint(0, pool, (batch, r)),  # with duplicates, and the empty chunk
        probabilities=torch.softmax(torch.randn(batch, r), -1),
    )


@pytest.mark.few(4)
@EVERY_FORM
@pytest.mark.parametrize(
    ("kind", "off_by_one"),
    [
        (torch.float32, True),
        (torch.float32, False),
        (torch.bfloat16, True),
        (torch.int8, False),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("t", "s", "r", "heads", "size"),
    sampled(
        [
            (1, 64, 2, (6, 2), 64),
            (4, 7, 3, (4, 4), 32),
            (2, 65, 1, (2, 1), 128),
            (3, 1, 2, (1, 1), 32),
            (1, 130, 2, (4, 1), 64),
        ],
        {1, 2},
        unpack=True,
    ),
    ids=str,
)
def test_shapes(
    t: int,
    s: int,
    r: int,
    heads: tuple[int, int],
    size: int,
    kind: torch.dtype,
    off_by_one: bool,
    backend: str,
) -> None:
    case = make_case(t, s, r, heads=heads, size=size, kind=kind)
    truth = case.truth(off_by_one=off_by_one)
    assert_close("fp32", truth, case.run(backend, off_by_one=off_by_one), 1e-5)


def plain_bf16(case: Case) -> Tensor:
    """The same formula as PyTorch computes it in bf16."""
    keys, values, mask = case.records.gather(case.index, torch.bfloat16)
    repeat = case.query.shape[2] // keys.shape[3]
    keys, values = (t.repeat_interleave(repeat, dim=3) for t in (keys, values))
    q = case.query.bfloat16() * case.query.shape[-1] ** -0.5
    scores = torch.einsum("bthd,brshd->bhtrs", q, keys)
    scores = scores.masked_fill(~mask[:, None, None], float("-inf"))
    scores = torch.cat([scores, torch.zeros_like(scores[..., :1])], dim=-1)
    weights = torch.softmax(scores, dim=-1)[..., :-1]
    weights = weights * case.probabilities[:, None, None, :, None].bfloat16()
    return torch.einsum("bhtrs,brshd->bthd", weights, values)


@pytest.mark.few(1)
@EVERY_FORM
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.int8], ids=str)
def test_bf16_errors(kind: torch.dtype, backend: str) -> None:
    case = make_case(2, 64, 8, size=64, kind=kind)
    case = replace(case, query=case.query.bfloat16())
    truth, out = case.truth(), case.run(backend)
    assert out.dtype == torch.bfloat16
    assert_close("bf16", truth, out, 1e-2)
    assert relative_error(truth, out) <= 1.5 * relative_error(truth, plain_bf16(case))


@pytest.mark.few(1)
@EVERY_FORM
@SOFTMAXES
def test_probabilities_of_zero(backend: str, off_by_one: bool) -> None:
    case = make_case(2, 20, 3)
    case.probabilities[:, 1] = 0.0
    case.records.keys[4], case.records.values[4] = float("nan"), float("nan")
    case.index[:, [0, 2]] = torch.tensor([[1, 2], [2, 3]])
    case.index[:, 1] = 4  # a chunk of NaN, which nobody may read
    assert_close("out", case.truth(off_by_one=off_by_one), case.run(backend), 1.0)
    less = Case(case.query, case.records, case.index[:, [0, 2]], case.probabilities[:, [0, 2]])
    wanted = less.run(backend, off_by_one=off_by_one)
    assert_close("less", wanted, case.run(backend, off_by_one=off_by_one), 1e-6)
    case.probabilities[:] = 0.0
    assert case.run(backend, off_by_one=off_by_one).abs().max() == 0


@EVERY_FORM
@SOFTMAXES
def test_chunks_without_tokens_give_nothing(backend: str, off_by_one: bool) -> None:
    case = make_case(2, 20, 3)
    case.index[:] = 0
    assert case.run(backend, off_by_one=off_by_one).abs().max() == 0


@EVERY_FORM
def test_a_chunk_twice_counts_with_both_probabilities(backend: str) -> None:
    case = make_case(1, 20, 1)
    case.index[:] = 2
    twice = replace(
        case,
        index=case.index.repeat(1, 2),
        probabilities=torch.cat([case.probabilities * 0.25, case.probabilities * 0.75], -1),
    )
    assert_close("out", case.run(backend), twice.run(backend), 1e-6)


@EVERY_FORM
@SOFTMAXES
def test_huge_scores_do_not_overflow(backend: str, off_by_one: bool) -> None:
    case = make_case(2, 20, 3)
    case = replace(case, query=case.query * 1e4)
    truth = case.truth(off_by_one=off_by_one)
    assert_close("out", truth, case.run(backend, off_by_one=off_by_one), 1e-5)


@EVERY_FORM
def test_it_is_the_whole_sequence_form_for_one_chunk(backend: str) -> None:
    case = make_case(3, 20, 3)
    records = case.records
    whole = gca(
        case.query[:, None],
        records.keys.nan_to_num(),
        records.values.nan_to_num(),
        mask=records.mask,
        index=case.index[:, None],
        probabilities=case.probabilities[:, None],
        backend="dense",
    )
    assert_close("out", whole[:, 0], case.run(backend), 1e-5)


@pytest.mark.few(1)
@NEEDS_TRITON
@pytest.mark.parametrize("units", sampled([1, 7, 1000], {0, 1}))
def test_any_split_gives_the_same(units: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from drt_kernels.decode import kernel as decode_kernel

    case = make_case(2, 20, 7)
    parts = min(7, max(1, -(-units // 4)))
    monkeypatch.setattr(
        decode_kernel, "_chunks_of_a_program", lambda rows, retrieved, device: -(-7 // parts)
    )
    assert_close("out", case.truth(), case.run("triton"), 1e-5)


@NEEDS_TRITON
def test_programs_fill_the_gpu() -> None:
    from drt_kernels.decode.kernel import _chunks_of_a_program

    device = torch.device("cpu")  # counts as 8 multiprocessors
    assert _chunks_of_a_program(1, 8, device) == 1
    assert _chunks_of_a_program(2, 8, device) == 2
    assert _chunks_of_a_program(4, 8, device) == 4
    assert _chunks_of_a_program(64, 8, device) == 8
    assert _chunks_of_a_program(64, 0, device) == 1


@pytest.mark.few(1)
@EVERY_FORM
def test_autocast_around_it_changes_nothing(backend: str) -> None:
    case = make_case(2, 20, 3)
    with torch.autocast("cpu", torch.bfloat16):
        inside = case.run(backend)
    assert torch.equal(case.run(backend), inside)


@EVERY_FORM
def test_nothing_retrieved_gives_nothing(backend: str) -> None:
    case = make_case(1, 20, 3)
    none = replace(case, index=case.index[:, :0], probabilities=case.probabilities[:, :0])
    assert none.run(backend).abs().max() == 0


@NEEDS_TRITON
def test_the_kernel_reads_what_is_written_into_index_and_probabilities() -> None:
    """As a captured graph does at the next chunk border."""
    case, other = make_case(1, 20, 3), make_case(1, 20, 3)
    memory = decode_memory(
        case.records, case.index, probabilities=case.probabilities, backend="triton"
    )
    case.index.copy_(other.index)
    case.probabilities.copy_(other.probabilities)
    assert_close("out", case.truth(), gca_decode(case.query, memory), 1e-5)


@pytest.mark.thorough
@NEEDS_TRITON
def test_strides_of_any_kind() -> None:
    case = make_case(2, 20, 3, size=32)
    records = case.records
    turned = replace(
        records,
        keys=records.keys.transpose(1, 2).contiguous().transpose(1, 2),
        values=records.values.permute(3, 0, 1, 2).contiguous().permute(1, 2, 3, 0),
    )
    other = replace(case, records=turned, query=case.query.transpose(1, 2).clone().transpose(1, 2))
    assert torch.equal(case.run("triton"), other.run("triton"))


@pytest.mark.thorough
@NEEDS_TRITON
def test_more_than_two_to_the_31_numbers_by_strides() -> None:
    """Chunks so far apart that 32-bit offsets would wrap; only the chunks are ever touched."""
    case = make_case(1, 4, 3, kind=torch.bfloat16)
    pool, shape = 5, case.records.keys.shape[1:]
    apart = 2**29 + 2**28
    far = []
    for stored in (case.records.keys, case.records.values):
        memory = torch.empty((pool - 1) * apart + stored[0].numel(), dtype=stored.dtype)
        view = memory.as_strided((pool, *shape), (apart, *stored.stride()[1:]))
        view.copy_(stored)
        far.append(view)
    case.index[:] = torch.tensor([[4, 3, 1], [2, 4, 4]])
    other = replace(case, records=replace(case.records, keys=far[0], values=far[1]))
    assert torch.equal(case.run("triton"), other.run("triton"))


@pytest.mark.thorough
@NEEDS_TRITON
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.int8], ids=str)
def test_the_operator_says_of_itself_what_is_true(kind: torch.dtype) -> None:
    from drt_kernels.decode.kernel import _decode_op

    case = make_case(1, 4, 2, batch=1, heads=(1, 1), kind=kind)
    records = case.records
    stored = (records.keys, records.values, records.mask, records.key_scales, records.value_scales)
    arguments = (case.query, *stored, case.index, case.probabilities, True)
    torch.library.opcheck(_decode_op, arguments, test_utils=CHECKS)


def test_double_precision_stays_double() -> None:
    case = make_case(2, 20, 3)
    case = replace(case, query=case.query.double(), probabilities=case.probabilities.double())
    out = case.run(None)
    assert out.dtype == torch.float64
    assert_close("out", case.truth(), out, 1e-12)


def test_the_choice_is_explained() -> None:
    records = make_case().records
    assert explain_decode(records).startswith("dense: matrix products")
    assert explain_decode(records, "reference") == "reference: asked for by name"
    with pytest.raises(ValueError, match="'cudnn' is unknown.*dense.*reference.*triton"):
        explain_decode(records, "cudnn")
    with pytest.raises(ValueError, match="'triton' cannot run: head size is 48"):
        explain_decode(make_case(size=48).records, "triton")


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({"values": torch.ones(5, 7, 1, 32)}, r"\(5, 7, 1, 32\) must both be"),
        ({"mask": torch.ones(5, 6)}, r"mask is \(5, 6\), expected \[P, S\] = \(5, 7\)"),
        ({"key_scales": torch.ones(5, 7, 2)}, "records are torch.float32, expected int8 with"),
        (
            {n: torch.ones(5, 7, 2, 32, dtype=torch.int8) for n in ("keys", "values")},
            r"int8 records need scales of shape \(5, 7, 2\)",
        ),
    ],
)
def test_misfits_of_records_are_named(change: dict[str, Tensor], seen: str) -> None:
    case = make_case()
    with pytest.raises(ValueError, match=seen):
        replace(case, records=replace(case.records, **change)).run(None)


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({"query": torch.ones(2, 4, 32)}, "3 dimensions"),
        ({"query": torch.ones(3, 1, 4, 32)}, "query has 3 rows, what was retrieved 2"),
        ({"query": torch.ones(2, 5, 4, 32)}, "query has 5 tokens per row, expected 1 to 4"),
        ({"query": torch.ones(2, 1, 4, 16)}, "records is 32, of the query 16"),
        ({"query": torch.ones(2, 1, 3, 32)}, "3 query heads cannot share 2"),
        ({"probabilities": torch.ones(2, 4)}, r"\(2, 4\) must both be \[B, R\]"),
    ],
)
def test_misfits_are_named(change: dict[str, Tensor], seen: str) -> None:
    with pytest.raises(ValueError, match=seen):
        replace(make_case(), **change).run(None)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.int8], ids=str)
@pytest.mark.parametrize(("batch", "t"), [(1, 1), (1, 4), (64, 1)])
def test_a_captured_step_on_a_gpu(batch: int, t: int, kind: torch.dtype) -> None:
    """The 128M model's shape, in a CUDA graph that is replayed with other chunks."""
    case = make_case(t, 64, 8, heads=(12, 12), size=64, batch=batch, kind=kind)
    stored = {n: None if v is None else v.cuda() for n, v in vars(case.records).items()}
    query = case.query.cuda().bfloat16()
    case = Case(query, ChunkRecords(**stored), case.index.cuda(), case.probabilities.cuda())
    assert explain_decode(case.records).startswith("triton")
    memory = decode_memory(case.records, case.index, probabilities=case.probabilities)
    gca_decode(query, memory)  # compiles outside the graph
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = gca_decode(query, memory)
    for _ in range(2):
        case.index.copy_(torch.randint(0, 5, case.index.shape))
        query.normal_()
        graph.replay()
        assert_close("out", case.truth(), out, 1e-2)
        again = out.clone()
        graph.replay()
        assert torch.equal(again, out)


@pytest.mark.gpu
def test_a_large_pool_on_a_gpu() -> None:
    """More than 2^31 numbers: 300,000 chunks of int8 records."""
    shape = (300_000, 64, 2, 64)
    stored = torch.randint(-127, 128, shape, dtype=torch.int8, device="cuda")
    scales = torch.full(shape[:3], 0.01, dtype=torch.float16, device="cuda")
    mask = torch.ones(shape[:2], dtype=torch.bool, device="cuda")
    case = Case(
        query=torch.randn(1, 1, 6, 64, device="cuda").bfloat16(),
        records=ChunkRecords(stored, stored, mask, scales, scales),
        index=torch.tensor([[299_999, 0, 150_000, 299_998]], device="cuda"),
        probabilities=torch.tensor([[0.4, 0.3, 0.2, 0.1]], device="cuda"),
    )
    assert_close("out", case.truth(), case.run("triton"), 1e-2)
