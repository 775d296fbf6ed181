"""Brackets of quotes: whole or not at all."""

from __future__ import annotations

from drt_engine.text.brackets import strip_lone_brackets, with_whole_brackets
from tests.tables import each_row


@each_row(
    ("text", "part", "expected"),
    [
        ("waits [0, 0.1] seconds", "0.1] seconds", "[0, 0.1] seconds"),
        ("call open() first", "call open(", "call open()"),
        ("it shines (at night, they say)", "at night, they say)", "at night, they say"),
        ("it shines (at night)", "(at night", "at night"),
        ("f(a, (b), c) is", "(b), c)", "(b), c"),
        ("a [one (two) three] b", "(two) three]", "(two) three"),
        ("see [1] and [2]", "[1] and [2]", "[1] and [2]"),
        ("a) the first", "a) the first", "a) the first"),
        ("thanks :)", "thanks :)", "thanks :)"),
        ("x (two\nlines) y", "(two", "two"),
        ("x ((deep)) y", "((deep", "(deep)"),
        ("only ) here", ")", ")"),
        (f"({'far ' * 20}away) now", "away) now", "away) now"),
    ],
)
def test_brackets_are_whole_or_not_there(text: str, part: str, expected: str) -> None:
    start = text.index(part)
    begin, end = with_whole_brackets(text, start, start + len(part))
    assert text[begin:end] == expected


@each_row(
    ("text", "expected"),
    [("(See above.", "See above."), ("It is so.)", "It is so."), ("(It is.)", "(It is.)")],
)
def test_sentences_lose_lone_brackets(text: str, expected: str) -> None:
    begin, end = strip_lone_brackets(text, 0, len(text))
    assert text[begin:end] == expected


def test_many_brackets_take_no_time_that_grows_with_their_square() -> None:
    text = "(" * 200_000
    assert with_whole_brackets(text, 0, len(text)) == (199_999, 200_000)
