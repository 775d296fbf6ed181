"""Words are plain lower-case runs."""

from __future__ import annotations

from drt_engine.text.words import content_words, strip_lone_marks, words


def test_words_are_lower_case_runs_of_letters_and_digits() -> None:
    assert words("Ann's 3.5 café_bar—No!") == ["ann", "s", "3", "5", "café", "bar", "no"]


def test_content_words_fall_back_to_stop_words() -> None:
    assert content_words("What is the notice period?") == ["notice", "period"]
    assert content_words("To be or not to be") == ["to", "be", "or", "not", "to", "be"]


def test_a_quotation_mark_without_its_other_one_is_left_out() -> None:
    text = 'Set "MODE" or `x`, 6" wide'

    def kept(part: str) -> str:
        start = text.index(part)
        begin, end = strip_lone_marks(text, start, start + len(part))
        return text[begin:end]

    assert kept('MODE"') == "MODE" and kept('"MODE') == "MODE" and kept('"MODE"') == '"MODE"'
    assert kept("x`") == "x" and kept('"MODE" or `') == '"MODE" or ' and kept("`") == "`"
