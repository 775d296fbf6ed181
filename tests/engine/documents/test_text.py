"""Plain text: encodings, newlines, what is refused, and constant memory."""

from __future__ import annotations

import codecs
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drt_engine.documents import Block, Source, open_document
from drt_engine.documents.base import regroup
from drt_engine.errors import EmptyDocument, UnreadableDocument
from tests.engine.documents.helpers import joined, read
from tests.sampling import sampled
from tests.tables import each_row

GERMAN = "Die Straße führt über Köln; „groß“ – 5 €.\n" * 40
CYRILLIC = "Всё счастливые семьи похожи друг на друга.\n" * 40


def test_reads_text_with_the_file_name_as_title(tmp_path: Path) -> None:
    document, blocks = read(tmp_path / "notes.txt", "One.\r\nTwo.\rThree.\n")
    assert (document.title, document.media_type) == ("notes.txt", "text/plain")
    assert blocks == [Block("One.\nTwo.\nThree.\n", line=1, origin=((0, 0),))]


@each_row("name", ["a.json", "a.yaml", "a.log", "a.TXT", "Makefile", "a.xyz"])
def test_text_of_any_suffix(tmp_path: Path, name: str) -> None:
    document, blocks = read(tmp_path / name, "alpha, beta\n")
    assert (document.media_type, joined(blocks)) == ("text/plain", "alpha, beta\n")


def test_one_byte_is_a_document(tmp_path: Path) -> None:
    assert joined(read(tmp_path / "a.txt", "a")[1]) == "a"


@each_row(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be", "cp1252"]
)
def test_encodings(tmp_path: Path, encoding: str) -> None:
    marks = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
    content = marks.get(encoding, b"") + GERMAN.replace("\n", "\r\n").encode(encoding)
    assert joined(read(tmp_path / "a.txt", content)[1]) == GERMAN


def test_astral_characters_cross_read_borders_unharmed(tmp_path: Path) -> None:
    text = "x" + "\U0001f600é" * 60_000
    for encoding in ("utf-8", "utf-16"):
        _, blocks = read(tmp_path / "a.txt", text.encode(encoding))
        assert joined(blocks) == text


@pytest.mark.thorough
def test_crlf_across_read_borders(tmp_path: Path) -> None:
    for lead in ("", "x"):
        content = lead + "\r\n" * 33_000 + "end\r"  # beyond one read of 65,536 bytes
        assert joined(read(tmp_path / "a.txt", content)[1]) == lead + "\n" * 33_000 + "end\n"


@each_row(
    ("content", "sentence"),
    [
        (b"text\0more", "looks like a binary file (a NUL byte at 4)"),
        (b"a" * 70_000 + b"\0", "a NUL byte at 70000"),
        (bytes(range(1, 9)) * 20, "looks like a binary file (control characters)"),
        (codecs.BOM_UTF16_LE + "a\0b".encode("utf-16-le"), "looks like a binary file"),
        (codecs.BOM_UTF16_LE + b"a\0\0\xd8b\0", "is not valid in it"),
        (codecs.BOM_UTF8 + b"caf\xe9 au lait", "is not valid in it"),
        (CYRILLIC.encode("cp1251"), "unknown encoding"),
        ("日本語の文章です。\n".encode("shift_jis") * 40, "unknown encoding"),
        (b"Smart \x81 undefined", "unknown encoding"),
        (GERMAN.encode() + b"broken \xff here", f"a wrong byte at {len(GERMAN.encode()) + 7}"),
        (GERMAN.encode()[:-2] + "€".encode()[:2], "a wrong byte"),
    ],
)
def test_refuses_what_is_not_text(
    tmp_path: Path, content: bytes, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "charset_normalizer", None)
    with pytest.raises(UnreadableDocument) as caught:
        read(tmp_path / "a.txt", content)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'a.txt'} ")


@each_row(
    ("text", "encoding"),
    [
        (CYRILLIC, "cp1251"),
        (CYRILLIC, "koi8-r"),
        ("日本語の文章です。これはとても長い文章です。\n" * 40, "shift_jis"),
        ("幸福的家庭都是相似的，不幸的家庭各有各的不幸。\n" * 40, "gb18030"),
        (GERMAN, "cp1252"),
    ],
)
def test_other_encodings_are_found_with_the_extra(tmp_path: Path, text: str, encoding: str) -> None:
    pytest.importorskip("charset_normalizer")
    assert joined(read(tmp_path / "a.txt", text.encode(encoding))[1]) == text


def test_the_extra_for_encodings_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "charset_normalizer", None)
    with pytest.raises(UnreadableDocument, match=r'pip install "drt-assistant\[encodings\]"'):
        read(tmp_path / "a.txt", CYRILLIC.encode("cp1251"))


def test_the_wrong_byte_is_counted_over_read_borders(tmp_path: Path) -> None:
    content = "é".encode() * 32_768
    with pytest.raises(UnreadableDocument, match="a wrong byte at 65537;"):
        read(tmp_path / "a.txt", b"a" + content + b"\xe9" + content)


@each_row(
    "content",
    [
        b"",
        b" \n\t\r\n",
        "\u00a0\u3000".encode(),
        codecs.BOM_UTF8,
        codecs.BOM_UTF16_LE,
        b"\n" * 99_999,
    ],
    ids=["nothing", "spaces", "unicode spaces", "mark only", "utf-16 mark only", "long"],
)
@each_row("name", ["a.txt", "a.md", "a.html", "a"])
def test_documents_without_words_are_empty(tmp_path: Path, name: str, content: bytes) -> None:
    with pytest.raises(EmptyDocument, match="is empty"):
        read(tmp_path / name, content)


@settings(deadline=None, max_examples=60)  # a busy machine is no failure
@given(
    st.lists(
        st.tuples(
            st.text(max_size=30),
            st.sampled_from([None, 1, 2]),
            st.sampled_from([None, "A", "A > B"]),
        )
    ),
    st.integers(2, 12),
)
@example([("e\u0301" * 9 + "\U0001f469\u200d\U0001f52c" * 5, None, None)], 4)
def test_regrouping_keeps_every_character_and_its_place(
    pieces: list[tuple[str, int | None, str | None]], limit: int
) -> None:
    blocks = list(regroup((Block(*piece) for piece in pieces), limit))
    expected = [(c, page, section) for text, page, section in pieces for c in text]
    assert [(c, b.page, b.section) for b in blocks for c in b.text] == expected
    assert all(0 < len(block.text) <= limit for block in blocks)


def test_blocks_end_at_lines_else_words_else_anywhere() -> None:
    def texts(text: str) -> list[str]:
        return [block.text for block in regroup([Block(text)], 10)]

    assert texts("ab cd\nef gh\nij") == ["ab cd\n", "ef gh\nij"]
    assert texts("ab cd ef gh ij") == ["ab cd ef ", "gh ij"]
    assert texts("abcdefghijklm") == ["abcdefghij", "klm"]
    assert texts("abcdefghie\u0301klm") == ["abcdefghi", "e\u0301klm"]


@settings(deadline=None, max_examples=60)  # a busy machine is no failure
@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1))
def test_any_utf8_text_comes_back(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.txt"
    text = "words\n" + text.lstrip("\ufeff")
    assert joined(read(path, text)[1]) == text


def peak_memory(path: Path, characters: int) -> int:
    """Read a report of about so many characters; the most memory that it took."""
    line = "A line of an exceedingly long report that goes on, naïvely, for ever. " * 20 + "\n"
    path.write_text(line * (characters // len(line)))
    tracemalloc.start()
    try:
        blocks = open_document(Source.from_path(path)).blocks
        total = sum(len(block.text) for block in blocks)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == len(line) * (characters // len(line))
    return peak


@pytest.mark.thorough
@pytest.mark.parametrize("suffix", sampled([".txt", ".md"], {0}, thorough={1}))
def test_memory_does_not_grow_with_the_document(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"large{suffix}"
    small, large = peak_memory(path, 750_000), peak_memory(path, 2_250_000)
    # Not by a tenth of a byte for each character, as a document ten times larger would show, too.
    assert large < small + 150_000
    assert large < 2_000_000


def test_one_endless_line_is_cut_into_blocks(tmp_path: Path) -> None:
    for name in ("a.txt", "a.md"):
        _, blocks = read(tmp_path / name, "x" * 1_000_000)
        assert len(blocks) <= 20 and joined(blocks) == "x" * 1_000_000


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_told_by_its_zeros(tmp_path: Path, encoding: str) -> None:
    text = "The keeper's lamp \u2013 of J\u00fcrgen \u2013 is lit.\n" * 40
    _, blocks = read(tmp_path / "a.txt", text.encode(encoding))
    assert joined(blocks) == text
    for broken in (
        text.encode(encoding) + b"\xd8\xd8\xd8",  # half a character
        text.encode(encoding)[:-1],
        (text + "\0").encode(encoding),
        ("\x01\x02" * 40).encode(encoding),
        text.encode().replace(b" ", b"\0"),
        b"\0" * 400,
    ):
        with pytest.raises(UnreadableDocument, match="binary file"):
            read(tmp_path / "b.txt", broken)
