"""Document text on its way to a terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drt_cli._text import blocks, marked, marked_blocks, one_line, printable, reflowed, shortened


def test_controls_become_escapes() -> None:
    assert printable("a\x1b[31mb\x07\x9b\u202e\r") == "a\\x1b[31mb\\x07\\x9b\\u202e\\r"
    assert printable("tabs\tand\nlines, é, 日本, 👩‍🚒") == "tabs\tand\nlines, é, 日本, 👩‍🚒"


@given(st.text())
def test_nothing_unsafe_is_left(text: str) -> None:
    assert not any(
        (ord(letter) < 32 and letter not in "\t\n") or 127 <= ord(letter) < 160
        for letter in printable(text)
    )
    assert "\n" not in one_line(text)


@given(st.text(), st.integers(min_value=4, max_value=30))
def test_shortened_fits(text: str, limit: int) -> None:
    assert len(shortened(text, limit)) <= limit


def test_each_item_and_paragraph_is_on_a_line_of_its_own() -> None:
    text = "Bring\nthese:\n\n- a lamp,\n  of tin\n  - its oil\n(ii) a rope"
    lines = marked_blocks(text, "lamp", begin="[", end="]").split("\n")
    assert lines == ["Bring these:", "- a [lamp], of tin", "- its oil", "(ii) a rope"]
    assert marked_blocks("A quay\nis old - or new.", "old", begin="[", end="]") == (
        "A quay is [old] - or new."
    )
    spanned = marked_blocks(text, "its oil\n(ii) a", begin="[", end="]").split("\n")
    assert spanned[2:] == ["- [its oil]", "[(ii) a] rope"]
    assert blocks("- a\n  lamp\n- oil") == "- a lamp\n- oil"
    hostile = marked_blocks("- a\x1b[2J\n- rope", "rope", begin="\x1b[1m", end="\x1b[22m")
    assert hostile == "- a\\x1b[2J\n- \x1b[1mrope\x1b[22m"


def test_a_whole_word_is_marked_before_a_part_of_another() -> None:
    assert marked('"id": "A-20931", "quantity": 1', "1", begin="«", end="»").endswith(": «1»")
    assert marked("the A-20931 alone", "20931", begin="«", end="»") == "the A-«20931» alone"


def test_the_quote_is_marked_across_lines() -> None:
    context = "The notice\nperiod is  thirty days."
    line = marked(context, "notice\nperiod", begin="[", end="]")
    assert line == "The [notice period] is thirty days."
    assert marked("Other words.", "notice", begin="[", end="]") == "Other words."
    assert marked("Other words.", " ", begin="[", end="]") == "Other words."


def test_paragraphs_are_joined_and_nothing_else() -> None:
    table = "| a | b |\n| --- | --- |\n| 1 | 2 |"
    code = "```sh\ndrt ask\ndrt show\n```"
    rest = f"# Title\n\n- one\n- two\n\n{table}\n\n{code}\n\n1. first\n2. second\n"
    assert reflowed(rest) == rest
    assert reflowed(f"one\n`two`\n**three**\n\nfour\n{table}") == (
        f"one `two` **three**\n\nfour\n{table}"
    )
