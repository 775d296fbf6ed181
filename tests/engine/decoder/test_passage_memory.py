"""Passages become chunk memory with the place of every token, and are computed once."""

from __future__ import annotations

import math

import pytest
import torch

from drt_engine.answer.decoder_quotes import decoder_quotes, memory_evidence
from drt_engine.decoder.model import Reading
from drt_engine.decoder.prompt import END, NOT_SAID, Task, control_id, encode, prompt_ids
from drt_engine.decoder.slices import log_probability, open_answer
from drt_engine.generate.passage_memory import PassageReader
from tests.engine.decoder.tiny import TINY, passages_of, tiny_decoder, tiny_tokenizer

TEXT = "Émile rows. Ann sails the old boat to Lund. It rains."
STARTS = [0, 12, 44]


@pytest.fixture
def reader() -> PassageReader:
    return PassageReader(tiny_decoder(), tiny_tokenizer())


@torch.no_grad()
def test_the_tokens_of_a_chunk_are_its_text(reader: PassageReader) -> None:
    passages = passages_of(TEXT, STARTS, [0.2, 0.7, 0.1])
    for passage, chunk in zip(passages, reader.read(passages).chunks, strict=True):
        start, end = chunk.spans[0][0], chunk.spans[chunk.tokens - 1][1]
        assert TEXT[start:end] == passage.row.text
        assert chunk.states.shape == (chunk.tokens, TINY.width)
        assert (
            TEXT[end : chunk.spans[-1][1]]
            == TEXT[end : passage.text_start + len(passage.text)][:32]
        )


@torch.no_grad()
def test_a_long_chunk_is_read_as_several_of_equal_weight(reader: PassageReader) -> None:
    passages = passages_of(TEXT, STARTS, [0.2, 0.7, 0.1])
    memory = reader.read(passages)
    assert memory.reading is not None
    counts = [math.ceil(chunk.tokens / TINY.chunk) for chunk in memory.chunks]
    assert max(counts) > 1
    expected = [
        math.log(p.probability) for p, n in zip(passages, counts, strict=True) for _ in range(n)
    ]
    assert memory.reading.log_weight[0].tolist() == pytest.approx(expected)
    tokens = sum(chunk.tokens for chunk in memory.chunks)
    assert int(memory.reading.memory.mask.sum()) == tokens
    assert memory.reading.memory.mask.shape[1] <= TINY.chunk


@torch.no_grad()
def test_states_are_those_of_the_text_before(reader: PassageReader) -> None:
    middle = passages_of(TEXT, STARTS, [0.2, 0.7, 0.1])[1]
    (chunk,) = reader.read([middle]).chunks
    ids = torch.tensor([reader.tokenizer.encode(TEXT[: STARTS[2]]).ids])
    states = reader.model.lower_states(ids)[0, -chunk.tokens :]
    torch.testing.assert_close(chunk.states.float(), states, rtol=2e-3, atol=2e-3)


@torch.no_grad()
def test_a_chunk_is_computed_once(reader: PassageReader, monkeypatch: pytest.MonkeyPatch) -> None:
    passages = passages_of(TEXT, STARTS, [0.2, 0.7, 0.1])
    first = reader.read(passages[:2])
    rows: list[int] = []
    compute = reader.model.lower_states

    def counted(ids: torch.Tensor) -> torch.Tensor:
        rows.append(len(ids))
        return compute(ids)

    monkeypatch.setattr(reader.model, "lower_states", counted)
    again = reader.read(passages)
    assert rows == [1]
    assert again.chunks[0] is first.chunks[0]


@torch.no_grad()
def test_quotes_are_slices_of_the_document(reader: PassageReader) -> None:
    passages = passages_of(TEXT, STARTS, [0.2, 0.7, 0.1])
    quotes = decoder_quotes(reader, "Who sails?", passages)
    assert 1 <= len(quotes.spans) <= 3
    ends = [(span.start, span.end) for span in quotes.spans]
    assert all(0 <= a < b <= len(TEXT) and TEXT[a:b].strip() == TEXT[a:b] for a, b in ends)
    assert all(b <= c or d <= a for n, (a, b) in enumerate(ends) for c, d in ends[:n])
    probabilities = [span.probability for span in quotes.spans]
    assert probabilities == sorted(probabilities, reverse=True)
    assert quotes.score == pytest.approx(math.log(probabilities[0]) - quotes.null, abs=1e-3)


@torch.no_grad()
def test_without_passages_nothing_is_quoted(reader: PassageReader) -> None:
    assert reader.read([]).reading is None
    assert decoder_quotes(reader, "Who sails?", []).spans == ()


@torch.no_grad()
def test_evidence_is_the_odds_against_saying_nothing(reader: PassageReader) -> None:
    passages = passages_of(TEXT, STARTS, [0.2, 0.7, 0.1])
    evidence = memory_evidence(reader, "Who sails?", passages)
    # Each row of the memory by itself; a passage has the best of its own.
    memory = reader.read(passages)
    assert memory.reading is not None and max(map(len, memory.rows)) > 1
    prompt = prompt_ids(reader.tokenizer, "Who sails?", Task.QUOTE)
    not_said = [*encode(reader.tokenizer, NOT_SAID), control_id(reader.tokenizer, END)]
    for rows, value in zip(memory.rows, evidence, strict=True):
        nulls = []
        for row in rows:
            index, weight = torch.tensor([[row]]), torch.zeros(1, 1)
            alone = Reading(memory.reading.memory, index, weight)
            opened = open_answer(reader.model, prompt, alone)
            nulls.append(log_probability(reader.model, opened, not_said))
        odds = math.log(-math.expm1(min(nulls))) - min(nulls)
        assert value == pytest.approx(odds, abs=1e-3)
    assert memory_evidence(reader, "Who sails?", []) == ()
