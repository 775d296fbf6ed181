"""Landmark scan: every form against the definition, ties, bounds, noise, poisoned memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterator
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

import drt_kernels.scan.blocked
import drt_kernels.scan.landmarks
from drt_kernels import landmark_topk
from drt_kernels.scan import Bounds, Landmarks, TopK, explain_scan
from drt_kernels.scan.landmarks import CodedQuery
from drt_kernels.scan.noise import gumbel, philox
from drt_kernels.scan.order import NOTHING, pack, unpack
from drt_kernels.testing import assert_close
from tests.sampling import sampled

NEEDS_TRITON = pytest.mark.skipif(find_spec("triton") is None, reason="no Triton")
TRITON = pytest.param("triton", marks=NEEDS_TRITON)
CHECKS = ("test_schema", "test_faketensor")  # it has no gradient
SHAPES = [  # queries, landmarks, size, k, type
    (1, 1, 16, 3, torch.float16),
    (1, 300, 40, 8, torch.float16),
    (1, 129, 8, 5, torch.float32),
    (3, 0, 8, 2, torch.float32),
    (5, 100, 24, 1, torch.bfloat16),
    (17, 65, 48, 3, torch.float16),
]


def shapes(quick: Container[int]) -> pytest.MarkDecorator:
    """Every shape, slow but for those at the positions ``quick``."""
    return pytest.mark.parametrize(
        ("queries", "landmarks"),
        sampled([((q, k), (n, e, dtype)) for q, n, e, k, dtype in SHAPES], quick, unpack=True),
        ids=["-".join(map(str, shape)) for shape in SHAPES],
    )


def numbers(count: int, size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(count, size).to(dtype)


def same(one: TopK, other: TopK) -> bool:
    return torch.equal(one.index, other.index) and torch.equal(one.scores, other.scores)


@pytest.mark.few(8)
@shapes(range(len(SHAPES)))
@pytest.mark.parametrize("seed", [None, 7], ids=["clean", "noisy"])
@pytest.mark.parametrize("bounded", [False, True], ids=["free", "bounded"])
def test_blocks_choose_what_the_definition_chooses(
    queries: tuple[int, int],
    landmarks: tuple[int, int, torch.dtype],
    seed: int | None,
    bounded: bool,
) -> None:
    count, k = queries
    size = landmarks[1]
    asked, found = numbers(count, size), numbers(*landmarks)
    bounds = random_bounds(count, landmarks[0]) if bounded else None
    more = {"bounds": bounds, "seed": seed}
    wanted = landmark_topk(asked, found, k, **more, backend="reference")
    assert same(wanted, landmark_topk(asked, found, k, **more, backend="blocked"))
    assert same(wanted, landmark_topk(asked, found.split(33), k, **more, backend="blocked"))


@pytest.mark.few(1)
@NEEDS_TRITON
@shapes({0, 2, 3, 4})
def test_the_kernel_chooses_what_the_definition_chooses(
    queries: tuple[int, int], landmarks: tuple[int, int, torch.dtype]
) -> None:
    count, k = queries
    asked, found = numbers(count, landmarks[1]), numbers(*landmarks)
    for bounds, seed in ((None, None), (random_bounds(count, landmarks[0]), 7)):
        wanted = landmark_topk(asked, found, k, bounds=bounds, seed=seed, backend="reference")
        actual = landmark_topk(asked, found, k, bounds=bounds, seed=seed, backend="triton")
        assert same(wanted, actual)


def random_bounds(queries: int, landmarks: int) -> Bounds:
    ends = torch.randint(0, landmarks + 1, (2, queries)).sort(dim=0).values
    ends[:, 0] = landmarks // 2  # the first query may see nothing
    return Bounds(first=ends[0], until=ends[1])


@pytest.mark.few(1)
@pytest.mark.parametrize("backend", ["reference", "blocked", TRITON])
def test_several_streams_share_one_call(backend: str) -> None:
    """The causal rule: chunk t of a stream sees chunks k < t of the same stream."""
    streams, chunks, size, k = 3, 7, 16, 4
    asked, found = numbers(streams * chunks, size), numbers(streams * chunks, size)
    first = torch.arange(streams).repeat_interleave(chunks) * chunks
    until = torch.arange(streams * chunks)
    together = landmark_topk(asked, found, k, bounds=Bounds(first, until), backend=backend)
    for query in range(streams * chunks):
        begin = int(first[query])
        scores = (found[begin:query].double() @ asked[query].double()).float()
        order = scores.argsort(descending=True)[:k]
        kept = len(order)
        assert together.index[query, :kept].tolist() == (order + begin).tolist()
        assert torch.equal(together.scores[query, :kept], scores[order])
        assert together.index[query, kept:].abs().sum() == 0
        assert (together.scores[query, kept:] == float("-inf")).all()


@pytest.mark.few(1)
@pytest.mark.parametrize("backend", ["reference", "blocked", TRITON])
@pytest.mark.parametrize("queries", [1, 3])
def test_of_equals_the_lower_number_is_chosen(backend: str, queries: int) -> None:
    # Small integers: a sum of their products is exact in any order.
    asked = torch.randint(-9, 10, (1, 20)).float().expand(queries, -1)
    found = torch.randint(-9, 10, (3, 20)).half().repeat(30, 1)  # every score thirty times
    chosen = landmark_topk(asked, found, 4, backend=backend)
    best = int((found[:3].double() @ asked[0].double()).argmax())
    assert chosen.index.tolist() == [[best + 3 * i for i in range(4)]] * queries
    zeros = landmark_topk(asked, torch.zeros(40, 20), 3, backend=backend)
    assert zeros.index.tolist() == [[0, 1, 2]] * queries


@pytest.mark.few(1)
@pytest.mark.parametrize("backend", ["blocked", TRITON])
@pytest.mark.parametrize("queries", [1, 3])
def test_what_may_not_be_seen_may_hold_anything(backend: str, queries: int) -> None:
    asked, found = numbers(queries, 24), numbers(90, 24, torch.float16)
    bounds = Bounds(torch.full((queries,), 20), torch.full((queries,), 70))
    wanted = landmark_topk(asked, found, 3, bounds=bounds, backend="reference")
    found[:20], found[70:] = float("nan"), float("nan")
    assert same(wanted, landmark_topk(asked, found, 3, bounds=bounds, backend=backend))


@pytest.fixture(params=[1000, 1 << 17], ids=["windows", "one window"])
def windows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drt_kernels.scan.blocked, "_WINDOW", request.param)


@pytest.mark.usefixtures("windows")
def test_rough_scores_never_lose_a_landmark() -> None:
    """Scores so close that fp16 cannot tell them apart, in an order that is worst for a scan."""
    asked = numbers(1, 64)
    direction = asked[0] / asked.norm()
    steps = torch.linspace(0.98, 1.0, 6000)[:, None]
    found = (steps * direction + 1e-3 * numbers(6000, 64)).half()
    for parts in (found, found.flip(0), found[torch.randperm(6000)]):
        wanted = landmark_topk(asked, parts, 20, backend="reference")
        assert same(wanted, landmark_topk(asked, parts.split(256), 20))
        assert same(wanted, landmark_topk(asked, parts, 20))


@pytest.mark.parametrize("seed", range(5))
def test_the_error_of_rough_scores_is_allowed_for(seed: int) -> None:
    """The rounding of a query to fp16, times a long landmark, is more than the best scores differ
    by: their order in fp16 is nearly random.
    """
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(1, 384, generator=generator)
    landmarks = torch.randn(3000, 384, generator=generator)
    along = 10 + 2e-3 * torch.randn(3000, 1, generator=generator)
    landmarks += (along - landmarks @ query.T) * query / (query @ query.T)
    expected = landmark_topk(query, landmarks.half(), 8, backend="reference")
    assert same(expected, landmark_topk(query, landmarks.half(), 8))


def coded(found: Tensor, monkeypatch: pytest.MonkeyPatch) -> Landmarks:
    monkeypatch.setattr(drt_kernels.scan.landmarks, "codes_pay", lambda rows, codes: True)
    landmarks = Landmarks(found).coded()
    assert landmarks.codes is not None
    return landmarks


@pytest.mark.usefixtures("windows")
def test_codes_never_lose_a_landmark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores that eight bits cannot tell apart, landmarks of very different lengths."""
    asked = numbers(1, 64)
    direction = asked[0] / asked.norm()
    near = torch.linspace(0.98, 1.0, 6000)[:, None] * direction
    for found in (
        (near + 1e-3 * numbers(6000, 64)).half(),
        (numbers(6000, 64) * torch.rand(6000, 1) ** 8).half(),
        torch.zeros(3000, 64).half(),
    ):
        wanted = landmark_topk(asked, found, 20, backend="reference")
        parts = [coded(part, monkeypatch) for part in found.split(2500)]
        assert same(wanted, landmark_topk(asked, parts, 20))
        few = [parts[0], *found[2500:].split(500)]
        assert same(wanted, landmark_topk(asked, few, 20))
        bounds = Bounds(torch.tensor([700]), torch.tensor([2900]))
        wanted = landmark_topk(asked, found, 20, bounds=bounds, backend="reference")
        assert same(wanted, landmark_topk(asked, parts, 20, bounds=bounds))


def test_codes_are_off_by_no_more_than_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    found = (numbers(4000, 48) * torch.rand(4000, 1)).half()
    codes = coded(found, monkeypatch).codes
    assert codes is not None
    for scale in (1e-3, 1.0, 1e3):
        query = numbers(1, 48)[0] * scale
        rough, off = codes.rough(CodedQuery.of(query))
        exact = found.double() @ query.double()
        worst = (rough.double() - exact).abs().max().item()
        assert worst <= off < 0.1 * exact.abs().max().item()


def test_codes_are_the_same_however_they_are_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where oneDNN lays them out for itself, its sums of products of bytes are exact, too."""
    found = (numbers(500, 384) * torch.rand(500, 1)).half()
    found[:9] = 7.0  # the largest products, all with one sign
    query = CodedQuery.of(torch.ones(384))
    packed = coded(found, monkeypatch).codes
    monkeypatch.setattr(drt_kernels.scan.landmarks, "_has_vnni", lambda: False)
    plain = coded(found, monkeypatch).codes
    assert packed is not None and plain is not None and not plain.packed
    for coded_query in (query, CodedQuery.of(-torch.ones(384)), CodedQuery.of(numbers(1, 384)[0])):
        torch.testing.assert_close(
            packed.rough(coded_query)[0], plain.rough(coded_query)[0], rtol=1e-6, atol=1e-6
        )
    part = Landmarks(found, packed)[3:]
    assert part.codes is None if packed.packed else part.codes is not None


def test_only_landmarks_that_gain_by_it_are_coded(monkeypatch: pytest.MonkeyPatch) -> None:
    found = numbers(100, 16).half()
    monkeypatch.setattr(drt_kernels.scan.landmarks, "_GAIN", float("inf"))
    assert Landmarks(found).coded().codes is None  # never as much faster as that
    monkeypatch.setattr(drt_kernels.scan.landmarks, "codes_pay", lambda rows, codes: True)
    assert Landmarks(found).coded().codes is not None
    found[7, 3] = float("nan")
    for odd in (found, found.float(), found[:0]):
        assert Landmarks(odd).coded().codes is None


def test_a_processor_without_products_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise RuntimeError("not implemented")

    monkeypatch.setattr(torch, "_int_mm", missing)
    assert Landmarks(numbers(100, 16).half()).coded().codes is None


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_queries_of_any_size(scale: float) -> None:
    asked, found = numbers(1, 48) * scale, numbers(900, 48, torch.float16)
    wanted = landmark_topk(asked, found, 9, backend="reference")
    assert same(wanted, landmark_topk(asked, found.split(300), 9))
    nothing = landmark_topk(asked * 0, found.split(300), 3)
    assert nothing.index.tolist() == [[0, 1, 2]] and nothing.scores.abs().max() == 0


def test_scores_are_clean_and_errors_small() -> None:
    asked, found = numbers(4, 64), numbers(300, 64, torch.float16)
    chosen = landmark_topk(asked, found, 10, seed=3)
    truth = (found.double()[chosen.index] @ asked.double()[..., None])[..., 0]
    assert_close("scores", truth, chosen.scores, 1e-6)
    assert (chosen.scores.diff(dim=-1) <= 0).all()


def test_gradients_reach_queries_and_landmarks() -> None:
    asked, found = numbers(4, 8).requires_grad_(), numbers(30, 8).requires_grad_()
    chosen = landmark_topk(asked, found, 3, seed=1)
    weight = torch.randn(4, 3)
    got = torch.autograd.grad((chosen.scores * weight).sum(), (asked, found))
    plain = (asked @ found.T).gather(1, chosen.index)
    wanted = torch.autograd.grad((plain * weight).sum(), (asked, found))
    for name, one, other in zip(("queries", "landmarks"), wanted, got, strict=True):
        assert_close(name, one, other, 1e-5)


def test_a_seed_says_everything_about_the_noise() -> None:
    asked, found = numbers(6, 16), numbers(500, 16)
    first = landmark_topk(asked, found, 8, seed=11)
    assert same(first, landmark_topk(asked, found, 8, seed=11))
    assert same(first, landmark_topk(asked, found.split(7), 8, seed=11))
    assert not torch.equal(first.index, landmark_topk(asked, found, 8, seed=12).index)
    assert not torch.equal(first.index, landmark_topk(asked, found, 8).index)
    # The noise of a query depends on its number, not on how many there are.
    fewer = landmark_topk(asked[:4], found, 8, seed=11)
    assert torch.equal(first.index[:4], fewer.index)


def test_the_noise_is_gumbel_noise() -> None:
    noise = gumbel(5, torch.arange(200), torch.arange(2000)).double()
    assert noise.mean().item() == pytest.approx(0.5772, abs=0.01)  # Euler's constant
    assert noise.std().item() == pytest.approx(math.pi / 6**0.5, abs=0.01)
    for value in (-1.0, 0.0, 1.0, 3.0):
        share = (noise <= value).double().mean().item()
        assert share == pytest.approx(math.exp(-math.exp(-value)), abs=0.005)
    between = torch.corrcoef(torch.stack([noise[:-1].flatten(), noise[1:].flatten()]))[0, 1]
    assert abs(between.item()) < 0.01


def test_choice_follows_the_softmax_of_the_scores() -> None:
    """The arg-max of scores with Gumbel noise is a draw from their softmax."""
    found = torch.tensor([[0.0], [0.5], [1.0], [2.0]])
    asked = torch.ones(20_000, 1)
    drawn = landmark_topk(asked, found, 1, seed=9).index[:, 0]
    shares = torch.bincount(drawn, minlength=4) / len(drawn)
    assert_close("shares", torch.softmax(found[:, 0], 0), shares, 0.03)


def test_philox_is_the_published_generator() -> None:
    """Known answers of Random123 for philox4x32-10, the first word."""
    zero = torch.zeros(1, dtype=torch.int64)
    assert philox(0, zero, zero).tolist() == [0x6627E8D5]


def test_candidates_order_as_scores_and_numbers_do() -> None:
    scores = [float("-inf"), -1e30, -1.0, -1e-40, 0.0, 1e-40, 1.0, 1e30, float("inf")]
    pairs = list(itertools.product(scores, [2**32 - 1, 5, 0]))
    packed = pack(torch.tensor([s for s, _ in pairs]), torch.tensor([n for _, n in pairs]))
    assert (packed.diff() > 0).all() and int(packed[0]) > NOTHING
    assert unpack(packed).tolist() == [n for _, n in pairs]
    assert pack(torch.tensor([-0.0]), torch.tensor([3])).equal(
        pack(torch.tensor([0.0]), torch.tensor([3]))
    )


def test_parts_are_looked_at_once_and_not_kept() -> None:
    seen: list[int] = []

    def parts() -> Iterator[Tensor]:
        for part in range(5):
            seen.append(part)
            yield torch.full((10, 4), float(part)).half()

    chosen = landmark_topk(torch.ones(1, 4), parts(), 3)
    assert seen == [0, 1, 2, 3, 4]
    assert chosen.index.tolist() == [[40, 41, 42]]


@NEEDS_TRITON
def test_the_operator_says_of_itself_what_is_true() -> None:
    from drt_kernels.scan.kernel import _scan_op

    asked, found = numbers(1, 16), numbers(5, 16, torch.float16)
    ends = torch.tensor([4])
    torch.library.opcheck(_scan_op, (asked, found, ends * 0, ends, 2, 5), test_utils=CHECKS)


@NEEDS_TRITON
def test_more_than_two_to_the_31_numbers_by_strides() -> None:
    """Rows so far apart that 32-bit offsets would wrap; only the rows are ever touched."""
    apart = 2**27
    memory = torch.empty(17 * apart + 16, dtype=torch.float16)
    found = memory.as_strided((18, 16), (apart, 1))
    found.copy_(numbers(18, 16))
    asked = numbers(1, 16)
    wanted = landmark_topk(asked, found.contiguous(), 4, backend="reference")
    assert same(wanted, landmark_topk(asked, found, 4, backend="triton"))


def test_the_choice_is_explained() -> None:
    asked = numbers(1, 16)
    assert explain_scan(asked, 8).startswith("blocked: blocks that fit a cache")
    assert explain_scan(asked, 8, "reference") == "reference: asked for by name"
    for call in (
        lambda: explain_scan(asked, 8, "faiss"),
        lambda: landmark_topk(asked, asked, 1, backend="faiss"),
    ):
        with pytest.raises(ValueError, match="'faiss' is unknown.*blocked.*reference.*triton"):
            call()


@NEEDS_TRITON
def test_more_candidates_than_a_program_keeps_are_refused() -> None:
    asked = numbers(1, 16)
    with pytest.raises(ValueError, match="k is 129, expected at most 128"):
        landmark_topk(asked, asked, 129, backend="triton")


def test_misfits_are_named() -> None:
    asked, found = numbers(2, 16), numbers(5, 16)
    with pytest.raises(ValueError, match=r"queries have 1 dimensions, expected 2"):
        landmark_topk(asked[0], found, 1)
    with pytest.raises(ValueError, match=r"landmarks are \(5, 8\), expected \[N, 16\]"):
        landmark_topk(asked, found[:, :8], 1)
    with pytest.raises(ValueError, match="landmarks are torch.int8"):
        landmark_topk(asked, found.to(torch.int8), 1)
    with pytest.raises(ValueError, match="k is 0, expected 1 or more"):
        landmark_topk(asked, found, 0)
    with pytest.raises(ValueError, match=r"until is \(3,\), expected \[2\]"):
        landmark_topk(asked, found, 1, bounds=Bounds(until=torch.ones(3)))


@pytest.mark.gpu
@pytest.mark.parametrize("queries", [1, 64, 300])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_a_library_on_a_gpu(queries: int, dtype: torch.dtype) -> None:
    """16 million tokens: 250,000 landmarks."""
    asked = torch.randn(queries, 384, device="cuda")
    found = torch.randn(250_000, 384, device="cuda").to(dtype)
    assert explain_scan(asked, 8).startswith("triton")
    for seed in (None, 5):
        wanted = landmark_topk(asked, found, 8, seed=seed, backend="reference")
        actual = landmark_topk(asked, found, 8, seed=seed)
        # The kernel's logarithms are not PyTorch's: noise differs in the last bit.
        missed = (wanted.index[..., None] != actual.index[..., None, :]).all(dim=-1)
        assert missed.float().mean() < (0.001 if seed is None else 0.002)
        assert_close("scores", wanted.scores, actual.scores, 1e-5)


@pytest.mark.gpu
def test_more_than_two_to_the_31_numbers_on_a_gpu() -> None:
    found = torch.randn(6_000_000, 384, device="cuda", dtype=torch.float16)
    asked = found[5_999_999:].float()
    chosen = landmark_topk(asked, found, 2)
    assert chosen.index[0, 0] == 5_999_999
