"""Repetition, tokens, case, and the marks of unsupported sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drt_engine.answer.support import UNSUPPORTED, Evidence, marked
from drt_engine.decoder.writing import repeated
from drt_engine.generate.decode import Decoder
from drt_engine.generate.sampling import Recaser, write, write_tokens
from drt_engine.retrieval.sources import StreamSource
from drt_engine.text.sentences import split_sentences
from tests.model_folder import MANUAL, runtime
from tests.sampling import sampled

TEXT = MANUAL.split("\n\n")[1]


# repetition


def test_repeated_runs() -> None:
    assert repeated([1, 2, 3, 9, 1, 2], 3) == {3}
    assert repeated([1, 2, 3, 1, 2, 4, 1, 2], 3) == {3, 4}
    assert repeated([1, 2], 3) == set() == repeated([], 2)
    assert repeated([5, 5, 5], 2) == {5}


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(2, 5))
def test_without_the_repeated_tokens_no_run_is_written_twice(ids: list[int], size: int) -> None:
    written: list[int] = []
    for token in ids:
        if token not in repeated(written, size):
            written.append(token)
    runs = [tuple(written[i : i + size]) for i in range(len(written) - size + 1)]
    assert len(runs) == len(set(runs))


# the loop


def started() -> tuple[Decoder, torch.Tensor]:
    decoder = Decoder(runtime().model, StreamSource(2))
    ids = runtime().tokenizer.encode(TEXT).ids
    return decoder, decoder.feed(ids)[-1]


def made_up(seed: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Logits that are as good as random, the same ones for a seed."""
    generator = torch.Generator().manual_seed(seed)
    return lambda _: torch.randn(runtime().config.vocab, generator=generator)


@torch.no_grad()
def test_writing_ends_and_never_writes_special_tokens() -> None:
    config = runtime().config
    for seed in range(2):
        decoder, state = started()
        before = decoder.position
        logits = made_up(seed)
        special = [config.pad_id, config.landmark_id, config.answer_id]
        likely = torch.tensor(special)
        decoder.logits = lambda s, f=logits, i=likely: f(s).index_fill(0, i, 9.0)  # type: ignore[method-assign]
        ids = list(write_tokens(decoder, state, max_tokens=20))
        assert 0 < len(ids) <= 20
        assert not {*special, config.end_id} & {*ids}
        assert decoder.position - before >= len(ids)


@torch.no_grad()
def test_no_run_is_written_twice_and_nothing_is_left_in_the_end() -> None:
    decoder, state = started()
    config = runtime().config
    special = (config.end_id, config.pad_id, config.landmark_id, config.answer_id)
    two = torch.tensor([one for one in range(20) if one not in special][:2])
    only = torch.full((config.vocab,), float("-inf")).index_fill(0, two, 0.0)
    decoder.logits = lambda _: only.clone()  # type: ignore[method-assign]
    ids = list(write_tokens(decoder, state, max_tokens=96))
    runs = [tuple(ids[i : i + 4]) for i in range(len(ids) - 3)]
    assert len(runs) == len({*runs}) and 4 < len(ids) < 96


@torch.no_grad()
def test_the_end_token_waits_for_the_least_number_of_tokens() -> None:
    decoder, state = started()
    end = runtime().config.end_id
    decoder.logits = lambda _: torch.zeros(runtime().config.vocab).index_fill(
        0, torch.tensor([end]), 9.0
    )  # type: ignore[method-assign]
    assert list(write_tokens(decoder, state, max_tokens=96)) == []
    written = list(write_tokens(decoder, state, max_tokens=96, min_tokens=6))
    assert len(written) == 6 and end not in written


@pytest.mark.thorough
@pytest.mark.parametrize("kind", sampled(["wordpiece", "bpe"], {0}, thorough={1}))
@torch.no_grad()
def test_text_in_pieces_is_the_text_of_all_tokens(kind: str) -> None:
    model = runtime(kind)
    read = model.tokenizer.encode(TEXT).ids
    one, other = (Decoder(model.model, StreamSource(2)) for _ in range(2))
    one.logits, other.logits = made_up(0), made_up(0)  # type: ignore[method-assign]
    tokens = list(write_tokens(one, one.feed(read)[-1], max_tokens=30))
    state = other.feed(read)[-1]
    pieces = list(write(model, other, state, sources=[TEXT], max_tokens=30))
    text = model.tokenizer.decode(tokens)
    wanted = text if kind == "bpe" else Recaser([TEXT]).apply(text)
    assert "".join(pieces) == wanted
    assert all(pieces) and len(pieces) > 1


def test_settled_text_survives_punctuation_and_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    from drt_engine.generate import sampling

    model = runtime()
    said = "the keeper ' s well - known rule ( of 1871 ) costs $ 5 / day . 'tis so , is it not ?"
    ids = model.tokenizer.encode(said).ids
    monkeypatch.setattr(sampling, "write_tokens", lambda *_, **__: iter(ids))
    decoder, state = started()
    pieces = list(write(model, decoder, state, sources=[], max_tokens=96))
    assert "".join(pieces) == Recaser([]).apply(model.tokenizer.decode(ids))
    assert "well-known" in "".join(pieces)


# case


def test_words_get_the_case_of_the_sources() -> None:
    case = Recaser(["Then Captain Holm met NASA in Oslo. The captain left.", "# The rule of Oslo"])
    assert (
        case.apply("captain holm left oslo . the nasa rule")
        == "Captain Holm left Oslo. The NASA rule"
    )
    assert (
        Recaser([]).apply("it ' s a well - known rule ( so ) .") == "It's a well-known rule (so)."
    )
    assert Recaser([]).apply("") == ""


def test_a_capital_at_a_sentence_start_says_nothing() -> None:
    case = Recaser(["Fog comes. Fog stays.", "Then fog lifts."])
    assert case.apply("the fog") == "The fog"


# marks


def never(_: str) -> bool:
    return False


def test_sentences_are_marked_one_by_one() -> None:
    pieces = ["Vera ", "keeps ", "it.  ", "Nobody ", "knows. ", "\n", "Why?"]
    judged: list[str] = []

    def judge(sentence: str) -> bool:
        judged.append(sentence)
        return sentence.startswith("Nobody")

    out = list(marked(pieces, judge))
    assert judged == ["Vera keeps it.", "Nobody knows.", "Why?"]
    assert "".join(out) == f"Vera keeps it. {UNSUPPORTED} Nobody knows. Why? {UNSUPPORTED}"
    assert out[0] == "Vera" and all(out)


def test_nothing_written_gives_nothing() -> None:
    assert list(marked([], never)) == [] == list(marked(["", " \n"], never))


def cut(text: str, size: int) -> Iterator[str]:
    return (text[i : i + size] for i in range(0, len(text), size))


@given(st.text(alphabet="ab .!?\nTh", max_size=60), st.integers(1, 9))
def test_marks_leave_the_text_as_it_is(text: str, size: int) -> None:
    yes = "".join(marked(cut(text, size), lambda _: True))
    assert yes.split() == text.split()
    no = "".join(marked(cut(text, size), never))
    assert no.replace(f" {UNSUPPORTED}", "").split() == text.split()
    assert bool(text.strip()) == (UNSUPPORTED in no)


def test_words_in_pieces_are_judged_as_whole_sentences() -> None:
    text = "The bell rings. Mr. Holm of Inc. wrote 3.5 rules! Is it so?"
    for size in (1, 2, 5, 100):
        judged: list[str] = []

        def judge(sentence: str, judged: list[str] = judged) -> bool:
            judged.append(sentence)
            return True

        assert "".join(marked(cut(text, size), judge)) == text
        if size == 100:
            assert judged == [sentence.text for sentence in split_sentences(text)]


def test_evidence_without_passages_supports_nothing() -> None:
    def missing(id: str) -> None:
        raise AssertionError(id)

    evidence = Evidence(None, missing)  # type: ignore[arg-type]
    assert not evidence.supports("The bell rings.") and evidence.citations == ()
