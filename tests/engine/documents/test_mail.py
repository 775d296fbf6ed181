"""E-mail: headers whole and decoded, parts read or named, and headers made to take for ever."""

from __future__ import annotations

from email.header import decode_header, make_header
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drt_engine.documents import Source
from drt_engine.documents.formats import format_named
from drt_engine.documents.mail import headers
from drt_engine.documents.mail.headers import decoded_words
from drt_engine.documents.sandbox.process import Limits, read_isolated
from tests.engine.documents.helpers import joined, read
from tests.tables import each_row

BODY = "\n\nThe body.\n"


@each_row(
    ("header", "text"),
    [
        ("plain words", "plain words"),
        ("=?utf-8?Q?caf=C3=A9_au?= =?utf-8?Q?_lait?=", "café au lait"),
        ("=?utf-8?B?Y2Fm?=\n =?utf-8?B?w6k=?=", "café"),
        ("=?utf-8?B?w?=", "=?utf-8?B?w?="),
        ("=?utf-8?Q?=C3?= =?utf-8?Q?=A9?=", "é"),  # a character in two words
        ("Re: =?koi8-r?B?9sHO?= (new)", "Re: Жан (new)"),
        ("=?iso-2022-jp?B?GyRCRnxLXBsoQg==?=", "日本"),
        ("=?utf-8*en?Q?marked?=", "marked"),
        ("=?utf-8?Q?a?= and =?utf-8?Q?b?=", "a and b"),
        ("=?no-such-code?Q?caf=E9?=", "café"),
        ("=?utf-8?X?a?= stays", "=?utf-8?X?a?= stays"),
        ("=?utf-8?Q?never closed", "=?utf-8?Q?never closed"),
    ],
)
def test_encoded_words(header: str, text: str) -> None:
    assert " ".join(decoded_words(header).split()) == text


@given(st.lists(st.text("abé日 _?=", max_size=8), max_size=5))
def test_what_the_standard_library_encodes_is_decoded(texts: list[str]) -> None:
    header = " ".join(
        text.replace("?", "") if text.isascii() else make_header([(text, "utf-8")]).encode()
        for text in texts
    )
    assert decoded_words(header).split() == str(make_header(decode_header(header))).split()


@pytest.mark.thorough
def test_a_header_of_words_without_number_takes_no_time_to_speak_of(tmp_path: Path) -> None:
    # The standard library's decoder took more than a minute for 200,000 of them.
    words = "=?utf-8?Q?ab?= " * 60_000
    (tmp_path / "a.eml").write_text(f"From: a@b\nSubject: {words}{BODY}")
    source = Source.from_path(tmp_path / "a.eml")
    document = read_isolated(format_named("email"), source, Limits(cpu_seconds=15))
    text = joined(list(document.blocks))
    assert "Subject: " + "ab" * 60_000 + "\n" in text and text.endswith(BODY + "\n")


def test_every_encoded_word_is_decoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A message is parsed to see whether it holds text, for its title, and to be read.
    decode, words = headers._word_bytes, []

    def counted(encoding: str, text: str) -> bytes | None:
        words.append(text)
        return decode(encoding, text)

    monkeypatch.setattr(headers, "_word_bytes", counted)
    subject = "".join(f"=?utf-8?Q?w{n}?= " for n in range(300))
    document, blocks = read(
        tmp_path / "a.eml", f"From: =?utf-8?Q?J=C3=B6rg?=\nSubject: {subject}{BODY}"
    )
    assert document.author == "Jörg" and document.title.startswith("w0w1w2")
    assert "w298w299\n" in joined(blocks)
    assert sorted(words) == sorted(["J=C3=B6rg", *(f"w{n}" for n in range(300))])


def test_long_headers_are_read_whole(tmp_path: Path) -> None:
    names = ", ".join(f"Person {n} <p{n}@example.org>" for n in range(200))
    document, blocks = read(tmp_path / "a.eml", f"From: a@b\nTo: {names}\nSubject: x{BODY}")
    assert f"To: {names}\n" in joined(blocks)
    assert document.skipped == ()


def test_what_is_passed_over_is_counted_and_named(tmp_path: Path) -> None:
    content = (
        "From: a@b\nReceived: by c\nX-Spam: no\nSubject: one\nSubject: two\n"
        'Content-Type: multipart/alternative; boundary="q"\n\n'
        "This is a message of several parts.\n--q\n\nThe plain form.\n"
        "--q\nContent-Type: text/html\n\n<p>The rich form.\n--q--\nAfter the end.\n"
    )
    document, blocks = read(tmp_path / "a.eml", content)
    assert joined(blocks) == "From: a@b\nSubject: one\n\nThe plain form.\n\n"
    around = "before the first part or after the last, where mail programs show nothing"
    assert document.skipped == (
        "further header called Subject (a message has one; they may be forged)",
        "2 other headers (for mail programs, not the text)",
        f"2 lines around the parts ({around})",
        "part of type text/html (the same text is read in another form)",
    )


def test_parts_that_are_none_are_text(tmp_path: Path) -> None:
    content = "From: a@b\nSubject: x\nContent-Type: multipart/mixed\n\nNo boundary at all.\n"
    assert "No boundary at all." in joined(read(tmp_path / "a.eml", content)[1])


def test_hidden_words_of_an_html_part_are_told(tmp_path: Path) -> None:
    content = "From: a@b\nContent-Type: text/html\n\n<p>Shown.<p hidden>not shown"
    document, blocks = read(tmp_path / "a.eml", content)
    assert "not shown" not in joined(blocks)
    assert document.skipped == ("2 hidden words (the page does not show them)",)


def test_japanese_bodies(tmp_path: Path) -> None:
    head = b"From: a@b\nContent-Type: text/plain; charset=iso-2022-jp\n\n"
    (tmp_path / "a.eml").write_bytes(head + "日本語の本文".encode("iso-2022-jp"))
    assert "日本語の本文" in joined(read(tmp_path / "a.eml")[1])
