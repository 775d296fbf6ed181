"""How far the quote of a span goes."""

from __future__ import annotations

import time

import pytest

from drt_engine.answer.citations import with_whole_addresses, with_whole_marks
from tests.tables import each_row

TEXT = "Write to new-lamps@lists.quay.example, or see https://quay.example/a/b?c=1. Or to Ann@home."


@each_row(
    ("part", "whole"),
    [
        ("lists.quay.example", "new-lamps@lists.quay.example"),
        ("to new", "to new-lamps@lists.quay.example"),
        ("quay.example/a", "https://quay.example/a/b?c=1"),
        ("see", "see"),
        ("new-lamps@lists.quay.example, or", "new-lamps@lists.quay.example, or"),
        ("home", "home"),  # no address
    ],
)
def test_an_address_is_never_cut(part: str, whole: str) -> None:
    at = TEXT.index(part)
    start, end = with_whole_addresses(TEXT, at, at + len(part))
    assert TEXT[start:end] == whole


@each_row(
    ("part", "whole"),
    [
        ("20931", "A-20931"),
        ("8", "UTF-8"),
        ("id", "order_id"),
        ("2024", "2024"),  # a year of a date, or of a range
        ("1980", "1980"),
        ("17", "17"),
    ],
)
def test_an_identifier_is_never_cut(part: str, whole: str) -> None:
    text = "In UTF-8, the order_id is A-20931 of 2024-05-03, from 1980-1990, by a 17-year-old."
    at = text.index(part)
    start, end = with_whole_addresses(text, at, at + len(part))
    assert text[start:end] == whole


@each_row(
    ("part", "whole"),
    [
        ("3 June to **17 June", "3 June to **17 June**"),
        ("17 June**", "17 June"),
        ("**17 June", "17 June"),
        ("17 June", "17 June"),
        ("**17 June**", "**17 June**"),
        ("June**, says `date", "June**, says `date`"),  # the half of the other one is far
        ("to **17 June**, says `date", "to **17 June**, says `date`"),
        ("Note:** It moved", "**Note:** It moved"),
        ("a ** b", "a ** b"),
        ("```sh\nrun", "```sh\nrun"),
    ],
)
def test_half_a_mark_is_dropped_or_completed(part: str, whole: str) -> None:
    text = "**Note:** It moved from 3 June to **17 June**, says `date` (a ** b).\n```sh\nrun\n```"
    at = text.index(part)
    start, end = with_whole_marks(text, at, at + len(part))
    assert text[start:end] == whole


@pytest.mark.thorough
def test_long_texts_take_no_time() -> None:
    started = time.monotonic()
    for filler in ("a", "a.", "a@", "@a.", "http://", "a-", "A-1", "A-", "a_", "_", "a__b", "A"):
        with_whole_addresses(filler * 20_000, 5, 9)
    assert time.monotonic() - started < 2
