"""Free writing takes the likeliest token, repeats nothing, and says what it was read from."""

from __future__ import annotations

import pytest
import torch

from drt_engine.decoder.model import Reading, RetrievalDecoder
from drt_engine.decoder.slices import log_probability, open_answer
from drt_engine.decoder.writing import WrittenToken, repeated, write_tokens
from tests.engine.decoder.tiny import TINY, chunk_states, spread_decoder

END = TINY.end_id
PROMPT = (7, 8, 9)


@pytest.fixture(scope="module")
def model() -> RetrievalDecoder:
    return spread_decoder()


def reading(model: RetrievalDecoder, *weights: float) -> Reading:
    ids = torch.randint(10, TINY.vocab, (len(weights), TINY.chunk))
    memory = model.remember(chunk_states(model, ids), torch.ones(ids.shape, dtype=torch.bool))
    return Reading(memory, torch.arange(len(weights))[None], torch.tensor([weights]).log())


def written(
    model: RetrievalDecoder,
    read: Reading,
    *,
    beginning: tuple[int, ...] = (),
    other_than: tuple[int, ...] = (),
    count: int = 12,
) -> list[WrittenToken]:
    tokens = write_tokens(
        model,
        PROMPT,
        read,
        end_id=END,
        max_tokens=count,
        beginning=beginning,
        other_than=other_than,
    )
    return list(tokens)


@torch.no_grad()
def test_each_token_is_the_likeliest_that_repeats_nothing(model: RetrievalDecoder) -> None:
    read = reading(model, 0.6, 0.4)
    tokens = written(model, read)
    ids = [token.id for token in tokens]
    assert len(ids) == 12
    logits = model.logits(model(torch.tensor([[*PROMPT, *ids]]), read))[0, len(PROMPT) - 1 :]
    for number, (token, row) in enumerate(zip(tokens, logits.log_softmax(-1), strict=False)):
        allowed = row.clone()
        allowed[list(repeated(ids[:number], 4))] = -torch.inf
        assert token.id == int(allowed.argmax())
        assert token.log_probability == pytest.approx(float(row[token.id]), abs=1e-4)
    runs = [tuple(ids[at : at + 4]) for at in range(len(ids) - 3)]
    assert len(set(runs)) == len(runs)


@torch.no_grad()
def test_shares_are_those_of_the_chunks_that_are_read(model: RetrievalDecoder) -> None:
    for token in written(model, reading(model, 1.0, 0.0, 1e-4), count=3):
        first, none, little = token.shares.tolist()
        assert none == 0
        assert 0 < little < first < 1


@torch.no_grad()
def test_a_text_goes_on_from_a_beginning_as_if_it_were_its_own(model: RetrievalDecoder) -> None:
    read = reading(model, 0.6, 0.4)
    whole = written(model, read, count=8)
    ids = tuple(token.id for token in whole)
    again = written(model, read, beginning=ids[:5], count=3)
    assert tuple(token.id for token in again) == ids
    for one, other in zip(whole, again, strict=True):
        assert other.log_probability == pytest.approx(one.log_probability, abs=1e-4)
        torch.testing.assert_close(other.shares, one.shares)


@torch.no_grad()
def test_another_text_than_the_one_that_is_left_out(model: RetrievalDecoder) -> None:
    read = reading(model, 0.5, 0.5)
    opened = open_answer(model, PROMPT, read)
    second, first = opened.log_probs[0].argsort()[-2:].tolist()
    # Likelier than the second token together with all that may follow the first one but this.
    excluded = (first, END)
    probability = torch.tensor(log_probability(model, opened, excluded)).exp()
    of_first = opened.log_probs[0, first].exp()
    (token,) = written(model, read, other_than=excluded, count=1)
    left = float((of_first - probability).log())
    assert left < float(of_first.log())
    expected = first if left > float(opened.log_probs[0, second]) else second
    assert token.id == expected
    if expected == first:
        assert token.log_probability == pytest.approx(left, abs=1e-4)
