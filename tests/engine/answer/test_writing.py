"""Sampling, repetition, verbatim spans, case, and the marks of unsupported sentences."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drt_engine.answer.support import UNSUPPORTED, Evidence, marked
from drt_engine.errors import ConfigError
from drt_engine.generate.decode import Decoder
from drt_engine.generate.filters import VerbatimFilter
from drt_engine.generate.sampling import (
    Recaser,
    SamplingConfig,
    next_token,
    repeated,
    write,
    write_tokens,
)
from drt_engine.retrieval.sources import StreamSource
from drt_engine.text.sentences import split_sentences
from tests.model_folder import MANUAL, runtime
from tests.sampling import sampled
from tests.tables import each_row

TEXT = MANUAL.split("\n\n")[1]


def draw(logits: list[float], config: SamplingConfig, times: int = 200) -> set[int]:
    generator = torch.Generator().manual_seed(config.seed)
    return {next_token(torch.tensor(logits), config, generator) for _ in range(times)}


# sampling


def test_temperature_zero_takes_the_best() -> None:
    assert draw([0.0, 2.0, 1.0], SamplingConfig(), 3) == {1}


def test_every_possible_token_is_sampled_and_no_other() -> None:
    config = SamplingConfig(temperature=1.0)
    assert draw([0.0, 0.5, -math.inf, 0.2], config) == {0, 1, 3}


def test_top_k_keeps_exactly_k() -> None:
    config = SamplingConfig(temperature=5.0, top_k=2)
    assert draw([0.0, 3.0, 2.0, 1.0], config) == {1, 2}
    assert len(draw([1.0, 1.0, 1.0, 1.0], config)) == 2  # equal ones, too
    assert draw([0.0, 1.0], SamplingConfig(temperature=1.0, top_k=9)) == {0, 1}


def test_top_p_keeps_the_fewest_that_hold_it() -> None:
    logits = [math.log(p) for p in (0.5, 0.3, 0.15, 0.05)]
    assert draw(logits, SamplingConfig(temperature=1.0, top_p=0.4)) == {0}
    assert draw(logits, SamplingConfig(temperature=1.0, top_p=0.6)) == {0, 1}
    assert draw(logits, SamplingConfig(temperature=1.0, top_p=1e-9)) == {0}
    assert draw(logits, SamplingConfig(temperature=1.0), 500) == {0, 1, 2, 3}


def test_top_p_counts_in_what_top_k_left() -> None:
    logits = [math.log(p) for p in (0.4, 0.3, 0.2, 0.1)]
    assert draw(logits, SamplingConfig(temperature=1.0, top_k=2, top_p=0.5)) == {0}


@pytest.mark.thorough
def test_frequencies_are_the_probabilities() -> None:
    config, generator = SamplingConfig(temperature=2.0), torch.Generator().manual_seed(0)
    logits = torch.tensor([2 * math.log(0.7), 2 * math.log(0.3)])
    ones = sum(next_token(logits, config, generator) for _ in range(2000))
    assert ones / 2000 == pytest.approx(0.3, abs=0.05)


@each_row(
    "wrong",
    [{"temperature": -1}, {"top_p": 0}, {"top_p": 1.5}, {"top_k": -1}, {"repeat": 1}]
    + [{"max_tokens": 0}, {"min_tokens": -1}, {"min_tokens": 9, "max_tokens": 8}],
)
def test_sampling_is_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        SamplingConfig(**wrong)  # type: ignore[arg-type]


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


@pytest.mark.thorough
@torch.no_grad()
def test_writing_ends_and_never_writes_special_tokens() -> None:
    config = runtime().config
    for seed in range(2):
        decoder, state = started()
        before = decoder.position
        settings = SamplingConfig(max_tokens=20, temperature=3.0, seed=seed, repeat=2)
        ids = list(write_tokens(decoder, state, settings))
        assert 0 < len(ids) <= 20
        assert not {config.pad_id, config.landmark_id, config.answer_id, config.end_id} & {*ids}
        assert decoder.position - before >= len(ids)
        again = list(write_tokens(*started(), settings))
        assert again == ids


@torch.no_grad()
def test_the_end_token_waits_for_the_least_number_of_tokens() -> None:
    decoder, state = started()
    end = runtime().config.end_id
    decoder.logits = lambda _: torch.zeros(runtime().config.vocab).index_fill(
        0, torch.tensor([end]), 9.0
    )  # type: ignore[method-assign]
    assert list(write_tokens(decoder, state, SamplingConfig())) == []
    written = list(write_tokens(decoder, state, SamplingConfig(min_tokens=6)))
    assert len(written) == 6 and end not in written


@pytest.mark.thorough
@pytest.mark.parametrize("kind", sampled(["wordpiece", "bpe"], {0}, thorough={1}))
@torch.no_grad()
def test_text_in_pieces_is_the_text_of_all_tokens(kind: str) -> None:
    model = runtime(kind)
    read = model.tokenizer.encode(TEXT).ids
    for seed in range(1):
        settings = SamplingConfig(max_tokens=30, temperature=2.0, seed=seed)
        one, other = (Decoder(model.model, StreamSource(2)) for _ in range(2))
        tokens = list(write_tokens(one, one.feed(read)[-1], settings))
        pieces = list(write(model, other, other.feed(read)[-1], settings, sources=[TEXT]))
        text = model.tokenizer.decode(tokens)
        wanted = text if kind == "bpe" else Recaser([TEXT]).apply(text)
        assert "".join(pieces) == wanted
        assert all(pieces) and len(pieces) > 1


def test_settled_text_survives_punctuation_and_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    from drt_engine.generate import sampling

    model = runtime()
    said = "the keeper ' s well - known rule ( of 1871 ) costs $ 5 / day . 'tis so , is it not ?"
    ids = model.tokenizer.encode(said).ids
    monkeypatch.setattr(sampling, "write_tokens", lambda *_: iter(ids))
    decoder, state = started()
    pieces = list(write(model, decoder, state, SamplingConfig()))
    assert "".join(pieces) == Recaser([]).apply(model.tokenizer.decode(ids))
    assert "well-known" in "".join(pieces)


# verbatim spans

Sequences = list[list[int]]
END = 9


def spans_of(written: list[int], sequences: Sequences, shortest: int) -> bool:
    """Whether `written` is a row of spans, each long enough or at its sequence's end."""
    good = {0}
    for start in range(len(written)):
        if start not in good:
            continue
        for sequence in sequences:
            for at in range(len(sequence)):
                length = 0
                while (
                    start + length < len(written)
                    and at + length < len(sequence)
                    and sequence[at + length] == written[start + length]
                ):
                    length += 1
                    if length >= shortest or at + length == len(sequence):
                        good.add(start + length)
    return len(written) in good


sequences_strategy = st.lists(
    st.lists(st.integers(0, 5), min_size=1, max_size=12), min_size=1, max_size=3
)


@given(sequences_strategy, st.integers(1, 5), st.integers(0, 1000))
def test_only_verbatim_spans_pass(sequences: Sequences, shortest: int, seed: int) -> None:
    chooser = random.Random(seed)
    verbatim = VerbatimFilter(sequences, 10, END, shortest=shortest)
    written: list[int] = []
    for _ in range(25):
        mask = verbatim.mask(written)
        assert mask is not None and mask.any()
        token = chooser.choice(mask.nonzero()[:, 0].tolist())
        if token == END:
            assert spans_of(written, sequences, shortest)
            break
        written.append(token)
        assert token in {t for s in sequences for t in s}


@given(sequences_strategy, st.integers(1, 5), st.data())
def test_every_span_of_the_sequences_passes(
    sequences: Sequences, shortest: int, data: st.DataObject
) -> None:
    sequence = data.draw(st.sampled_from(sequences))
    begin = data.draw(st.integers(0, len(sequence) - 1))
    verbatim = VerbatimFilter(sequences, 10, END, shortest=shortest)
    for at in range(begin, len(sequence)):
        mask = verbatim.mask(sequence[begin:at])
        assert mask is not None and mask[sequence[at]]
    done = verbatim.mask(sequence[begin:])
    assert done is not None and done[END]


def test_a_span_may_not_stop_early() -> None:
    verbatim = VerbatimFilter([[1, 2, 3, 4, 5], [2, 6]], 10, END, shortest=3)

    def allowed(*written: int) -> set[int]:
        mask = verbatim.mask(written)
        assert mask is not None
        return set(mask.nonzero()[:, 0].tolist())

    assert allowed() == {1, 2, 3, 4, 5, 6}
    assert allowed(1) == {2}
    assert allowed(2) == {3, 6}
    assert allowed(1, 2) == {3}
    assert allowed(1, 2, 3) == {1, 2, 3, 4, 5, 6, END}
    assert allowed(2, 6) == {1, 2, 3, 4, 5, 6, END}


def test_nothing_to_quote_ends_at_once() -> None:
    mask = VerbatimFilter([], 10, END).mask([])
    assert mask is not None and mask.nonzero()[:, 0].tolist() == [END]


@torch.no_grad()
def test_the_filter_holds_in_the_loop() -> None:
    model = runtime()
    source = model.tokenizer.encode(MANUAL).ids
    verbatim = VerbatimFilter([source], model.config.vocab, model.config.end_id, shortest=5)
    decoder, state = started()
    settings = SamplingConfig(max_tokens=5, temperature=2.0)
    ids = list(write_tokens(decoder, state, settings, verbatim))
    joined = " ".join(map(str, source))
    assert len(ids) == 5 and " ".join(map(str, ids)) in joined


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
