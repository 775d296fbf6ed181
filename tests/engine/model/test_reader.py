"""The reader: pairs laid out, passages that do not disturb each other, logits in fp32."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from drt_engine.config.model import ModelConfig, ReaderConfig
from drt_engine.errors import ConfigError
from drt_engine.model.layers import cast_weights
from drt_engine.model.reader import DistanceBias, context_ids, pack_pairs
from tests.engine.model.factories import make_model, small_like
from tests.tables import each_row

READER = ReaderConfig(layers=2, heads=4, mlp=48, positions=128, margin=4, longest_question=20)
CONFIG: ModelConfig = small_like(
    reread=False, reread_relevance=False, reread_layers=0, reader=READER
)
QUESTION = [7, 8, 9]
PASSAGES = [[20, 21, 22, 23], [30, 31], list(range(40, 70))]


def read(passages: list[list[int]], dtype: torch.dtype = torch.float32):  # type: ignore[no-untyped-def]
    model = make_model(CONFIG)
    cast_weights(model, dtype)
    assert model.span_reader is not None
    pairs, offsets = pack_pairs(READER, [QUESTION] * len(passages), passages, pad_id=0)
    with torch.inference_mode():
        return model.span_reader(model.embedding, pairs), offsets


def test_a_pair_is_begin_question_separator_passage_separator() -> None:
    pairs, offsets = pack_pairs(READER, [QUESTION, [5]], [[20, 21], [30, 31, 32]], pad_id=0)
    assert pairs.ids.tolist() == [
        [101, 7, 8, 9, 102, 20, 21, 102],
        [101, 5, 102, 30, 31, 32, 102, 0],
    ]
    assert offsets == [5, 3]
    assert pairs.segments.tolist()[0] == [0, 0, 0, 0, 0, 1, 1, 1]
    assert pairs.valid.sum(dim=1).tolist() == [8, 7]
    assert pairs.passage.nonzero().tolist() == [[0, 5], [0, 6], [1, 3], [1, 4], [1, 5]]


def test_other_passages_and_padding_change_nothing() -> None:
    together, offsets = read(PASSAGES)
    for row, passage in enumerate(PASSAGES):
        alone, _ = read([passage])
        columns = slice(offsets[row], offsets[row] + len(passage))
        assert torch.allclose(together.start[row, columns], alone.start[0, columns], atol=1e-5)
        assert torch.allclose(together.null[row], alone.null[0], atol=1e-5)
        assert torch.allclose(together.types[row], alone.types[0], atol=1e-5)
        assert torch.isinf(together.end[row]).sum() == together.end.shape[1] - len(passage)


def test_order_of_passages_is_kept_though_like_lengths_are_read_together() -> None:
    many = [list(range(20, 21 + length)) for length in (9, 1, 30, 4, 17, 2)] * 4
    forward, _ = read(many)
    backward, _ = read(many[::-1])
    assert torch.allclose(forward.null, backward.null.flip(0), atol=1e-5)
    assert forward.null[:6].std(dim=0).min() > 1e-4  # they do differ


def test_the_question_and_its_segment_matter() -> None:
    model = make_model(CONFIG)
    assert model.span_reader is not None
    pairs, _ = pack_pairs(READER, [QUESTION, [9, 8, 7]], [PASSAGES[0]] * 2, pad_id=0)
    with torch.inference_mode():
        logits = model.span_reader(model.embedding, pairs)
        flat = model.span_reader(
            model.embedding, type(pairs)(pairs.ids, pairs.segments * 0, pairs.valid, pairs.passage)
        )
    assert not torch.allclose(logits.null[0], logits.null[1], atol=1e-4)
    assert not torch.allclose(logits.null[0], flat.null[0], atol=1e-4)


def test_logits_are_fp32_in_bf16_and_near() -> None:
    exact, _ = read(PASSAGES)
    low, _ = read(PASSAGES, torch.bfloat16)
    for name, values in vars(low).items():
        assert values.dtype == torch.float32, name
    assert torch.allclose(exact.null, low.null, atol=0.1)


def test_a_reader_of_its_own_width_has_its_own_words() -> None:
    reader = replace(READER, width=24, heads=3, buckets=16)
    model = make_model(replace(CONFIG, reader=reader))
    assert model.span_reader is not None and model.span_reader.words is not None
    pairs, _ = pack_pairs(reader, [QUESTION] * 2, PASSAGES[:2], pad_id=0)
    with torch.inference_mode():
        logits = model.span_reader(model.embedding, pairs)
        other = model.span_reader(torch.nn.Embedding(2, 3), pairs)  # which is not looked at
    assert logits.start.shape == pairs.ids.shape
    assert torch.equal(logits.null, other.null)


def test_tokens_are_told_apart_by_how_far_and_on_which_side_they_are() -> None:
    distances = DistanceBias(16, 2)
    distances.table.data = torch.arange(32.0).view(16, 2)
    bias = distances(140)[0, 0] / 2  # the number of the bucket, [from, to]
    assert bias[0, :6].tolist() == [0, 9, 10, 11, 12, 12]
    assert bias[5, :6].tolist() == [4, 4, 3, 2, 1, 0]
    assert bias[139, 0] == 7 and bias[0, 139] == 15  # the farthest
    assert (bias.diff(dim=1)[0, 1:] >= 0).all()


@each_row(
    ("changes", "message"),
    [
        ({"heads": 5}, "multiple of reader.heads"),
        ({"width": 30}, "the reader's width 30 must be a multiple of reader.heads"),
        ({"positions": 20}, "reader.positions is 20, expected at least"),
        ({"begin_id": 4000}, "reader.begin_id"),
    ],
)
def test_a_reader_that_does_not_fit_is_refused(changes: dict[str, int], message: str) -> None:
    values = {**vars(READER), **changes}
    with pytest.raises(ConfigError, match=message):
        small_like(
            reread=False, reread_relevance=False, reread_layers=0, reader=ReaderConfig(**values)
        )
    with pytest.raises(ConfigError, match=r"reader\.layers is 0"):
        ReaderConfig(layers=0)
    with pytest.raises(ConfigError, match=r"reader\.buckets is 4, expected 0, or 8 or more"):
        ReaderConfig(buckets=4)


def test_a_context_stands_before_its_passage_and_holds_no_answer() -> None:
    pairs, offsets = pack_pairs(
        READER,
        [QUESTION, QUESTION],
        [[20, 21], [30, 31, 32]],
        contexts=[[60, 61], []],
        pad_id=0,
    )
    assert pairs.ids.tolist() == [
        [101, 7, 8, 9, 102, 60, 61, 102, 20, 21, 102],
        [101, 7, 8, 9, 102, 30, 31, 32, 102, 0, 0],
    ]
    assert offsets == [8, 5]
    assert pairs.segments.tolist()[0] == [0] * 5 + [1] * 6
    assert pairs.passage.nonzero().tolist() == [[0, 8], [0, 9], [1, 5], [1, 6], [1, 7]]
    model = make_model(CONFIG)
    assert model.span_reader is not None
    with torch.inference_mode():
        logits = model.span_reader(model.embedding, pairs)
    bare, _ = read([[20, 21], [30, 31, 32]])
    assert torch.isfinite(logits.start[0]).nonzero()[:, 0].tolist() == [8, 9]
    assert not torch.allclose(logits.start[0, 8:10], bare.start[0, 5:7], atol=1e-4)  # it is read
    assert torch.allclose(logits.start[1, 5:8], bare.start[1, 5:8], atol=1e-5)


@each_row(
    ("context", "expected"),
    [(0, []), (2, [8, 9]), (6, [1, 2, 6, 7, 8, 9]), (30, list(range(1, 10)))],
)
def test_a_context_is_the_begin_of_the_title_and_the_end_of_the_section(
    context: int, expected: list[int]
) -> None:
    reader = replace(READER, context=context)
    assert context_ids(reader, [1, 2], list(range(3, 10))) == expected
