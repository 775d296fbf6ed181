"""Sentences are exact slices with sensible borders."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drt_engine.text.sentences import is_heading, sentence_spans, split_sentences
from tests.sampling import sampled
from tests.tables import each_row

_PIECES = st.sampled_from(
    ["Dr.", "e.g.", "word", "Word", " ", "  ", "\n", "\n\n", "?", "!", "...", "”", '"', "(", ")"]
    + ["# ", "- ", "1. ", "|", "。", "é", "e\u0301", "😀", "3.14", "\r\n", "\u00a0", "\x1c", "[1]"]
)
_TEXTS = st.one_of(st.text(max_size=200), st.lists(_PIECES, max_size=60).map("".join))


def _sentences(text: str) -> list[str]:
    return [sentence.text for sentence in split_sentences(text)]


@settings(max_examples=100, deadline=None)
@given(_TEXTS)
def test_spans_are_ordered_disjoint_and_cover_every_visible_character(text: str) -> None:
    last = 0
    for start, end in sentence_spans(text):
        assert last <= start < end <= len(text)
        assert not text[last:start].strip()
        assert text[start:end] == text[start:end].strip()
        last = end
    assert not text[last:].strip()


@each_row(
    ("text", "expected"),
    [
        ("", []),
        (" \n ", []),
        ("One", ["One"]),
        ("It rained. We left! Why? Yes.", ["It rained.", "We left!", "Why?", "Yes."]),
        ("Dr. Ann Lee met Mr. Hill. They sat.", ["Dr. Ann Lee met Mr. Hill.", "They sat."]),
        ("It cost 3.14 on p. 7 of No. 5. Good.", ["It cost 3.14 on p. 7 of No. 5.", "Good."]),
        ("Did he? No. He ran.", ["Did he?", "No.", "He ran."]),
        ("J. R. Hale of Acme Inc. The end.", ["J. R. Hale of Acme Inc.", "The end."]),
        ("The U.S. Army came at 5 p.m. It left.", ["The U.S. Army came at 5 p.m.", "It left."]),
        ("Some, e.g. cats, i.e. Tom, left.", ["Some, e.g. cats, i.e. Tom, left."]),
        ('"Why?" he asked. "Go!" She went.', ['"Why?" he asked.', '"Go!"', "She went."]),
        ("“I know.” “You do?” said Ann.", ["“I know.”", "“You do?” said Ann."]),
        ("(It rained.) Then... it stopped.", ["(It rained.)", "Then... it stopped."]),
        ("A fact.[12] Another.", ["A fact.[12]", "Another."]),
        ("第一句。第二句！三", ["第一句。", "第二句！", "三"]),
    ],
)
def test_borders_inside_a_line(text: str, expected: list[str]) -> None:
    assert _sentences(text) == expected


LOG = "2026-02-11 03:20:33,491 ERROR upload of invoice-8812.pdf failed: reset by peer"


@each_row(
    "lines",
    [
        (LOG, LOG),
        ("Feb 11 03:20:33 host kernel[12]: the disk is nearly full, and", LOG),
        ("[ 12.345678] usb 1-1: new high-speed device number two, of many", "[ 12.4] usb 1-1: up"),
        ("INFO  the connection pool was opened with sixteen of them,", "WARN  it is nearly full"),
        ("1", "00:00:01,000 --> 00:00:04,200", "Welcome to the talk."),
        ("host: db-prod-02.internal", "port: 5433", "user: billing_app"),
        ("from = noreply@example.org,sales@example.org", "port = 8443"),
        ("SUMMARY:Quarterly review with the whole of sales", "DTSTART;VALUE=DATE:20260401"),
    ],
)
def test_every_line_of_a_log_or_of_settings_is_one(lines: tuple[str, ...]) -> None:
    assert _sentences("\n".join(lines)) == list(lines)


def test_one_colon_or_assignment_in_prose_ends_no_sentence() -> None:
    for text in (
        "It follows at once from the above, for all\nreason: the sum is finite and so is f.",
        "Let us choose the numbers of the sum so that\nx_n = 0.5 holds for all n of the sum.",
    ):
        assert _sentences(text) == [text]


@each_row(
    ("text", "expected"),
    [
        ("a line with no stop\n\nAnother", ["a line with no stop", "Another"]),
        ("# Title\nthe text", ["# Title", "the text"]),
        ("Title\n=====\nText here.", ["Title", "=====", "Text here."]),
        (
            "Rules\n- one\n- two\n1. Three\n2) four",
            ["Rules", "- one", "- two", "1. Three", "2) four"],
        ),
        ("| a | b |\n| c | d |\ntail", ["| a | b |", "| c | d |", "tail"]),
        ("Ann Lee: hello there\nBob: to you", ["Ann Lee: hello there", "Bob: to you"]),
        ("Contents\nPreface\nPart One", ["Contents", "Preface", "Part One"]),
        ("He left the city of\nParis today.", ["He left the city of\nParis today."]),
        (
            "A paragraph that was wrapped at a width of its own in\nLondon goes on.\nAnd on.",
            ["A paragraph that was wrapped at a width of its own in\nLondon goes on.", "And on."],
        ),
        ("x" * 170 + "\nNext line", ["x" * 170, "Next line"]),
    ],
)
def test_borders_at_line_ends(text: str, expected: list[str]) -> None:
    assert _sentences(text) == expected


def test_text_without_stops_is_cut_between_words() -> None:
    text = "word " * 3000
    pieces = _sentences(text)
    assert all(len(sentence) <= 2000 for sentence in pieces)
    assert " ".join(pieces) == text.strip()


@pytest.mark.parametrize(
    "unit",
    sampled(
        ["A short sentence of words. ", ".", '."', "\n", "U. ", ".[1]", " "],
        {0, 1, 2, 3, 5, 6},
        thorough={4},
    ),
)
def test_speed_is_linear_on_prose_and_on_hostile_text(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    started = time.process_time()
    sentence_spans(text)
    # Ten to thirty times what it takes; something quadratic would take minutes.
    assert time.process_time() - started < 2


def test_headings() -> None:
    assert is_heading("## Part one")
    assert not is_heading("#hashtag") and not is_heading("Part one")
