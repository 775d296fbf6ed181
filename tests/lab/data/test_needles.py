"""Needles stand where they are said to stand, once, and the same for the same seed."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drt_engine.errors import ConfigError
from drt_engine.text.sentences import sentence_spans
from drt_lab.data.needles import (
    NeedleCase,
    NeedleOptions,
    Split,
    gather_haystack,
    make_needle,
    make_needles,
    needle_kinds,
    phrasings,
    proper_names,
)
from tests.tables import each_row


def _prose(sentences: int) -> str:
    rng = random.Random(5)
    words = "river stone walked under heavy cloud while seven people talked about bread"
    pool = words.split()
    parts = []
    for _ in range(sentences):
        line = " ".join(rng.choices(pool, k=rng.randrange(5, 20))).capitalize()
        parts.append(line + "." + ("\n\n" if rng.random() < 0.2 else " "))
    return "".join(parts).strip()


_HAYSTACK = _prose(2000)
_SPLITS: tuple[Split, ...] = ("train", "eval")
_OPTIONS = st.builds(
    NeedleOptions,
    tokens=st.integers(200, 3000),
    depth=st.floats(0, 1),
    hops=st.sampled_from([1, 2]),
    split=st.sampled_from(_SPLITS),
    distractors=st.integers(0, 3),
)


@settings(max_examples=25, deadline=None)
@given(_OPTIONS, st.integers(0, 10**9))
def test_every_case_holds_what_it_promises(options: NeedleOptions, seed: int) -> None:
    case = make_needle(_HAYSTACK, options, seed=seed)
    ((start, end),) = case.evidence
    assert case.text[start:end] == case.answer
    assert case.text.casefold().count(case.answer.casefold()) == 1
    assert case.answer.casefold() not in case.question.casefold()
    assert len(case.needles) == options.hops
    spans = set(sentence_spans(case.text))
    for needle in case.needles:
        assert needle in spans
        assert case.text.count(case.text[slice(*needle)]) == 1
    low, high = case.needles[-1]
    assert low < start < end <= high
    # Sentences and paragraphs of this text are short, so the place and the length are close.
    assert abs(low - options.depth * len(case.text)) < 450
    assert abs(len(case.text) - 4.2 * options.tokens) < 250
    assert case == make_needle(_HAYSTACK, options, seed=seed)


def _names_in(text: str, split: Split) -> set[str]:
    return {word.strip(".,?’'") for word in text.split()} & proper_names(split)


@pytest.mark.thorough
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from(_SPLITS))
def test_statement_and_question_share_the_entity_which_the_text_lacks(
    seed: int, split: Split
) -> None:
    case = make_needle(_HAYSTACK, NeedleOptions(tokens=300, split=split), seed=seed)
    asked = _names_in(case.question, split)
    low, high = case.needles[0]
    assert asked and asked <= _names_in(case.text[low:high], split)
    without = case.text[:low] + case.text[high:]
    assert not any(name in without for name in asked)


@pytest.mark.thorough
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9))
def test_two_hops_need_both_needles(seed: int) -> None:
    case = make_needle(_HAYSTACK, NeedleOptions(tokens=300, hops=2), seed=seed)
    bridge, value = (case.text[slice(*span)] for span in case.needles)
    asked = _names_in(case.question, "eval")
    assert asked and asked <= _names_in(bridge, "eval")
    # The person is in both needles but not in the question; the thing asked about only in one.
    assert _names_in(bridge, "eval") & _names_in(value, "eval")
    assert not _names_in(value, "eval") & asked
    assert case.answer not in bridge


def test_splits_share_no_phrasing_and_no_name() -> None:
    assert not phrasings("train") & phrasings("eval")
    assert not proper_names("train") & proper_names("eval")
    assert len(proper_names("eval")) > 300
    pairs: tuple[tuple[Split, Split], ...] = (("train", "eval"), ("eval", "train"))
    for split, other in pairs:
        options = NeedleOptions(tokens=300, hops=2, split=split)
        for seed in range(30):
            case = make_needle(_HAYSTACK, options, seed=seed)
            assert not _names_in(case.text + " " + case.question, other)


def test_every_statement_has_an_entity_and_a_value_that_does_not_open_it() -> None:
    for split in _SPLITS:
        for template in phrasings(split):
            assert ("{e}" in template) and not template.startswith("{v}")
            assert template.endswith((".", "?"))


@pytest.mark.thorough
def test_all_kinds_occur() -> None:
    seen = {make_needle(_HAYSTACK, NeedleOptions(tokens=200), seed=i).kind for i in range(120)}
    assert seen == set(needle_kinds())
    assert len(seen) >= 8


def test_a_name_that_the_text_already_has_is_drawn_again() -> None:
    first = make_needle(_HAYSTACK, NeedleOptions(tokens=300), seed=3)
    spoilt = " ".join(f"{first.answer} {s}" for s in _HAYSTACK.splitlines() if s)
    second = make_needle(spoilt, NeedleOptions(tokens=300), seed=3)
    assert second.answer != first.answer
    assert second.text.count(second.answer) == 1


def test_tokens_are_counted_by_the_callers_function() -> None:
    def count(text: str) -> int:
        return len(text.split())

    for tokens in (100, 1000, 10_000):
        case = make_needle(_HAYSTACK, NeedleOptions(tokens=tokens), seed=1, count_tokens=count)
        assert abs(count(case.text) - tokens) <= max(20, 0.02 * tokens)


def test_depths_are_spread_and_seeds_differ() -> None:
    options = NeedleOptions(tokens=1000)
    cases = list(make_needles(_HAYSTACK, options, needles=5, seed=7))
    assert [case.depth for case in cases] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert cases[0].needles[0][0] == 0
    assert cases[-1].needles[0][1] == len(cases[-1].text)
    assert len({case.answer for case in cases}) == 5
    assert cases == list(make_needles(_HAYSTACK, options, needles=5, seed=7))
    assert [c.depth for c in make_needles(_HAYSTACK, options, needles=1, seed=7)] == [0.5]


def test_the_same_in_another_process() -> None:
    def shown(case: NeedleCase) -> str:
        return f"{case.question} {case.answer} {case.needles}"

    program = (
        "from drt_lab.data.needles import *\n"
        "c = make_needle('One two three. ' * 200, NeedleOptions(300, hops=2, distractors=2),"
        " seed=9)\nprint(c.question, c.answer, c.needles)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    case = make_needle("One two three. " * 200, NeedleOptions(300, hops=2, distractors=2), seed=9)
    assert ran.stdout.strip() == shown(case), ran.stderr


@each_row("haystack", ["x" * 3000, "x " * 1500, "# head\n" * 500, "。" * 2000])
@each_row("depth", [0.0, 0.4, 1.0])
def test_text_without_sentences_still_gets_its_needle(haystack: str, depth: float) -> None:
    case = make_needle(haystack, NeedleOptions(tokens=300, depth=depth), seed=2)
    low, high = case.needles[0]
    assert case.text[slice(*case.evidence[0])] == case.answer
    assert (low, high) in sentence_spans(case.text) or depth == 1.0
    assert abs(low - depth * len(case.text)) < 400


def test_haystacks_are_joined_and_repeated() -> None:
    assert gather_haystack(["one", " ", "two", "three"], characters=8) == "one\n\ntwo"
    assert (
        gather_haystack(["one", "two"], characters=21) == "one\n\ntwo\n\none\n\ntwo\n\none\n\ntwo"
    )
    with pytest.raises(ConfigError, match="holds no text"):
        gather_haystack(["", " "], characters=5)


@each_row(
    ("changes", "message"),
    [
        ({"tokens": 0}, "expected at least 1"),
        ({"depth": 1.5}, "a share from 0 to 1"),
        ({"hops": 3}, "expected 1 or 2"),
        ({"split": "test"}, "'train' or 'eval'"),
        ({"distractors": -1}, "none or more"),
    ],
)
def test_wrong_options(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        NeedleOptions(**{"tokens": 100, **changes})  # type: ignore[arg-type]


def test_lengths_that_do_not_fit() -> None:
    with pytest.raises(ConfigError, match="no room for needles"):
        make_needle(_HAYSTACK, NeedleOptions(tokens=5), seed=0)
    with pytest.raises(ConfigError, match="give a longer text or a smaller length"):
        make_needle("Short text. Very short.", NeedleOptions(tokens=500), seed=0)
