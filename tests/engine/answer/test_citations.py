"""How far the quote of a span goes."""

from __future__ import annotations

import time

import pytest

from drt_engine.answer.citations import with_whole_addresses

TEXT = "Write to new-lamps@lists.quay.example, or see https://quay.example/a/b?c=1. Or to Ann@home."


@pytest.mark.parametrize(
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


def test_long_texts_take_no_time() -> None:
    started = time.monotonic()
    for filler in ("a", "a.", "a@", "@a.", "http://", "a-"):
        with_whole_addresses(filler * 20_000, 5, 9)
    assert time.monotonic() - started < 2
