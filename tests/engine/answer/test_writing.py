"""Repetition, and the marks of unsupported sentences."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from drt_engine.answer.support import UNSUPPORTED, Evidence, marked
from drt_engine.decoder.writing import repeated
from drt_engine.text.sentences import split_sentences

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
