"""Passkey contexts: what they hide is there once, and they are the same read in any pieces."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from drt_engine.errors import ConfigError
from drt_lab.data.passkeys import (
    FIRST_SYMBOL,
    KEY,
    LINK,
    QUESTION,
    PasskeyContext,
    PasskeyLayout,
    symbol_tokenizer,
)
from tests.tables import each_row

ONE = PasskeyLayout(vocab=64, chunk=8)
TWO = PasskeyLayout(vocab=64, chunk=8, hops=2, noise=1)


def places(ids: torch.Tensor, token: int) -> list[int]:
    """Where a token is in the flat context."""
    return (ids.flatten() == token).nonzero().flatten().tolist()


def test_one_hop_hides_the_answer_once_and_asks_at_the_end_of_a_chunk() -> None:
    for seed in range(20):
        context = PasskeyContext(ONE, 9, seed=seed)
        ids = context.tokens(0, 9)
        needle, answer = places(ids, KEY)
        assert answer == 8 * 8
        for at in (needle, answer):
            assert tuple(ids.flatten()[at + 1 : at + 4].tolist()) == context.answer
        assert needle // 8 == (needle + 3) // 8 < 6  # whole
        assert places(ids, QUESTION) == [7 * 8 + 7]


def test_two_hops_lead_from_the_question_over_a_link_to_the_answer() -> None:
    for seed in range(20):
        context = PasskeyContext(TWO, 12, seed=seed)
        flat = context.tokens(0, 12).flatten().tolist()
        asked = [flat[at + 1] for at in places(torch.tensor(flat), QUESTION)]
        assert len(asked) == 2 and len(set(asked)) == 1
        ids = torch.tensor(flat)
        links = {flat[at + 2]: flat[at + 1] for at in places(ids, LINK)}
        keys = {flat[at + 4]: tuple(flat[at + 1 : at + 4]) for at in places(ids[:72], KEY)}
        assert len(links) == 2
        for chunk in (9, 10):  # the question fills its chunks
            assert flat[chunk * 8 : chunk * 8 + 8] == [QUESTION, *asked[:1] * 7]
        assert keys[links[asked[0]]] == context.answer


def test_links_are_asked_for_as_passkeys_are() -> None:
    layout = replace(ONE, noise=1, answer=1)
    keys, links = (
        PasskeyContext(replace(layout, links=links), 9, seed=1).tokens(0, 9)
        for links in (False, True)
    )
    assert torch.equal(torch.where(keys == KEY, LINK, keys), links)


def test_a_context_is_the_same_in_pieces_and_differs_only_where_planted() -> None:
    chunks = 2500  # more than two blocks of filler
    first, second = (PasskeyContext(ONE, chunks, seed=s, filler=7, depth=0.5) for s in (1, 2))
    whole = first.tokens(0, chunks)
    assert torch.equal(torch.cat([first.tokens(a, a + 500) for a in range(0, 2500, 500)]), whole)
    differ = (whole != second.tokens(0, chunks)).any(dim=1).nonzero().flatten().tolist()
    assert set(differ) <= {*first.planted_chunks, *second.planted_chunks}


def test_statements_begin_at_the_offset() -> None:
    layout = replace(TWO, offset=2)
    for seed in range(5):
        ids = PasskeyContext(layout, 12, seed=seed).tokens(0, 12)
        assert {at % 8 for at in places(ids[:9], KEY) + places(ids[:9], LINK)} == {2}


def test_depth_places_the_passkey() -> None:
    at = [PasskeyContext(TWO, 100, seed=3, depth=d).planted_chunks for d in (0.0, 1.0)]
    assert at[0][0] == 0
    assert at[1][-4] == 100 - 1 - 2 - 1 - 1  # before the gap, two questions and the answer


@each_row(
    ("change", "message"),
    [
        ({"chunk": 3}, "no room for a passkey of 4"),
        ({"hops": 3}, "hops is 3, expected 1 or 2"),
        ({"vocab": 10}, "leave 2 symbols, expected at least 3"),
        ({"answer": 0}, "answer is 0"),
        ({"links": True, "hops": 2}, "links are asked for over one hop, and hops is 2"),
        ({"offset": 5}, "offset is 5, expected 0 to 4: a chunk has 8 tokens"),
    ],
)
def test_layouts_that_cannot_be(change: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PasskeyLayout(**{"vocab": 64, "chunk": 8, **change})


def test_contexts_too_short_and_tokenizers_too_small() -> None:
    with pytest.raises(ConfigError, match="3 chunks of 8 tokens, expected at least 4"):
        PasskeyContext(ONE, 3, seed=0)
    with pytest.raises(ConfigError, match="symbols is 8, expected at least 10"):
        symbol_tokenizer(8)


def test_the_tokenizer_names_its_symbols() -> None:
    tokenizer = symbol_tokenizer(64)
    assert tokenizer.vocab_size == 64
    assert tokenizer.encode("<key> s8 s63").ids == [KEY, FIRST_SYMBOL, 63]
