"""Blocks to chunks: texts partition the document, offsets are exact, pieces do not matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drt_engine.ingest import segment
from drt_engine.ingest.segment import Chunk, Segmenter, safe_cut
from drt_engine.text.tokenizer import Tokenizer
from tests.fakes import byte_tokenizer, wordpiece_tokenizer
from tests.tables import each_row

SIZE = 4
PROSE = (
    "The notice period is thirty days.  Keepers keep the log,\n\n\tnaïve cafés; 中国 👍🏽 x " * 6
    + "cafe\u0301 "
    + "\u200b end. "
)


@dataclass(frozen=True)
class Block:
    text: str
    page: int | None = None
    section: str | None = None


@pytest.fixture(scope="module", params=["bytes", "wordpiece"])
def tokenizer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Tokenizer:
    if request.param == "bytes":
        return byte_tokenizer([("t", "h"), ("th", "e"), ("Ġ", "the"), ("Ġ", "Ġ")])
    return wordpiece_tokenizer(tmp_path_factory.mktemp("bert"))


@pytest.fixture(autouse=True, scope="module")
def small_pieces() -> object:
    """Tokenise a few characters at a time, so that short texts are cut many times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment, "_PIECE", 24)
        yield


def cut(text: str, size: int) -> list[Block]:
    return [Block(text[i : i + size]) for i in range(0, len(text), size)]


def chunks_of(tokenizer: Tokenizer, blocks: Sequence[Block]) -> list[Chunk]:
    return list(Segmenter(tokenizer, SIZE).chunks(blocks))


def whole(tokenizer: Tokenizer, text: str) -> list[Chunk]:
    """All of the text tokenised at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment, "_PIECE", 1 << 30)
        return chunks_of(tokenizer, [Block(text)])


def check_partition(chunks: list[Chunk], text: str) -> None:
    if not chunks:
        return
    assert "".join(c.text for c in chunks) == text
    at = 0
    for chunk in chunks:
        assert chunk.start == at
        at += len(chunk.text)
    assert all(len(c.ids) == SIZE for c in chunks[:-1])
    assert 1 <= len(chunks[-1].ids) <= SIZE


def check_offsets(tokenizer: Tokenizer, chunks: list[Chunk], text: str) -> None:
    encoding = tokenizer.encode(text)
    assert [i for c in chunks for i in c.ids] == encoding.ids
    assert [c.start + a for c in chunks for a in c.starts] == encoding.starts
    assert [c.start + b for c in chunks for b in c.ends] == encoding.ends


texts = st.one_of(
    st.text(alphabet="theabé\u0301👍🏽中 \n\t.,", max_size=120),
    st.text(alphabet="th e\u0301\x0b\x0c\x1c\x1f\x85\xa0\u2028\u3000\u200b!", max_size=120),
    st.text(max_size=120),
)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 23, 24, 25, 60, 1000])
def test_blocks_of_any_size_give_the_same_chunks(tokenizer: Tokenizer, size: int) -> None:
    chunks = chunks_of(tokenizer, cut(PROSE, size))
    assert chunks == whole(tokenizer, PROSE)
    check_partition(chunks, PROSE)
    check_offsets(tokenizer, chunks, PROSE)


@pytest.mark.few(1)
@given(text=texts, size=st.integers(1, 50))
def test_blocks_of_any_size_give_the_same_chunks_of_any_text(
    tokenizer: Tokenizer, text: str, size: int
) -> None:
    chunks = chunks_of(tokenizer, cut(text, size))
    check_partition(chunks, text)
    assert chunks == whole(tokenizer, text)
    check_offsets(tokenizer, chunks, text)


def known_of(tokenizer: Tokenizer, text: str) -> list[Chunk]:
    return [replace(chunk, reused=True) for chunk in whole(tokenizer, text)]


def same_tokens(chunks: Sequence[Chunk]) -> list[Chunk]:
    return [replace(chunk, reused=False) for chunk in chunks]


@pytest.mark.few(1)
@given(before=texts, old=texts, new=texts, size=st.integers(1, 200))
def test_known_chunks_give_the_same_chunks_of_any_text(
    tokenizer: Tokenizer, before: str, old: str, new: str, size: int
) -> None:
    segmenter = Segmenter(tokenizer, SIZE)
    known = known_of(tokenizer, before + old)
    chunks = list(segmenter.chunks(cut(before + new, size), known))
    assert same_tokens(chunks) == whole(tokenizer, before + new)
    taken = [chunk.reused for chunk in chunks]
    assert taken == sorted(taken, reverse=True)  # they are the first
    assert segmenter.tokens == sum(len(chunk.ids) for chunk in chunks)
    assert segmenter.characters == len(before + new)


@pytest.mark.parametrize("more", ["", "x", " more of the log", "\u0301 the", "\n\n"])
def test_known_text_is_not_tokenised(
    tokenizer: Tokenizer, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = known_of(tokenizer, PROSE)
    expected = whole(tokenizer, PROSE + more)
    seen: list[str] = []
    encode = Tokenizer.encode
    monkeypatch.setattr(
        Tokenizer, "encode", lambda self, text: [seen.append(text), encode(self, text)][1]
    )
    for size in (7, 64, 10_000):
        seen.clear()
        chunks = list(Segmenter(tokenizer, SIZE).chunks(cut(PROSE + more, size), known))
        assert same_tokens(chunks) == expected
        assert sum(map(len, seen)) < 30 + len(more)
        assert len(chunks) - sum(chunk.reused for chunk in chunks) <= 12


def test_known_chunks_that_end_early_or_never_fit(tokenizer: Tokenizer) -> None:
    known, expected = known_of(tokenizer, PROSE), whole(tokenizer, PROSE)
    for count in (0, 1, 5, len(known) - 1):
        found = list(Segmenter(tokenizer, SIZE).chunks(cut(PROSE, 50), known[:count]))
        assert same_tokens(found) == expected
    other = known_of(tokenizer, "Another log. " * 9)
    assert list(Segmenter(tokenizer, SIZE).chunks(cut(PROSE, 50), other)) == expected
    assert list(Segmenter(tokenizer, SIZE).chunks([], known)) == []


@pytest.mark.parametrize("mark", "\x0b\x0c\x1c\x1f\x85\xa0\u2028\u3000", ids=ascii)
def test_white_space_of_every_kind_gives_the_same_chunks(tokenizer: Tokenizer, mark: str) -> None:
    """BERT drops control characters, where Python sees white space."""
    text = f"thelog{mark}thelog!{mark}{mark}!the{mark} log {mark}the thelog" * 4
    assert chunks_of(tokenizer, cut(text, 5)) == whole(tokenizer, text)


def test_the_first_chunk_starts_the_text_and_the_last_ends_it(tokenizer: Tokenizer) -> None:
    text = " \n the log the log the " + " " * 90
    chunks = chunks_of(tokenizer, cut(text, 5))
    assert chunks[0].start == 0
    check_partition(chunks, text)


@pytest.mark.parametrize("text", ["", "   \n\n  "])
def test_a_document_without_words(text: str, tokenizer: Tokenizer) -> None:
    segmenter = Segmenter(tokenizer, SIZE)
    chunks = list(segmenter.chunks(cut(text, 3)))
    assert segmenter.characters == len(text)
    assert segmenter.tokens == sum(len(c.ids) for c in chunks) == len(tokenizer.encode(text))
    assert list(Segmenter(tokenizer, SIZE).chunks([])) == []


def test_totals(tokenizer: Tokenizer) -> None:
    segmenter = Segmenter(tokenizer, SIZE)
    chunks = list(segmenter.chunks(cut(PROSE, 31)))
    assert segmenter.characters == len(PROSE)
    assert segmenter.tokens == sum(len(c.ids) for c in chunks) == len(tokenizer.encode(PROSE))


def test_chunks_come_while_blocks_are_still_read(tokenizer: Tokenizer) -> None:
    read = 0

    def blocks() -> object:
        nonlocal read
        for block in cut("the log is thirty days " * 40, 30):
            read += 1
            yield block

    chunks = Segmenter(tokenizer, SIZE).chunks(blocks())  # type: ignore[arg-type]
    next(chunks)
    assert read < 4


def test_a_run_without_white_space_is_cut_between_characters(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "_LONGEST", 64)
    text = "e\u0301" * 300
    chunks = chunks_of(tokenizer, cut(text, 10))
    check_partition(chunks, text)
    assert sum(len(c.ids) for c in chunks) >= 4


@each_row(
    ("text", "at"),
    [("the log", 3), ("the log  ", 3), ("a b  c", 3), ("abc", None), (" abc", None), ("", None)],
)
def test_safe_cuts_stand_before_white_space(text: str, at: int | None) -> None:
    assert safe_cut(text) == at


def test_a_long_run_is_not_cut_before_a_combining_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "_LONGEST", 8)
    assert safe_cut("abcdefgh") == 7
    assert safe_cut("abcdefe\u0301\u0302") == 6


def place(places: list[tuple[int, int | None, str | None]], at: int) -> tuple[object, object]:
    return [(page, section) for start, page, section in places if start <= at][-1]


blocks_with_places = st.lists(
    st.tuples(st.text(alphabet="the \n", max_size=9), st.sampled_from([None, 1, 2]), st.none()),
    max_size=12,
)


@pytest.mark.few(1)
@given(blocks_with_places)
def test_every_character_maps_to_the_place_of_its_block(
    tokenizer: Tokenizer, parts: list[tuple[str, int | None, None]]
) -> None:
    segmenter = Segmenter(tokenizer, SIZE)
    list(segmenter.chunks([Block(*part) for part in parts]))
    wanted = [(page, section) for text, page, section in parts for _ in text]
    assert [place(segmenter.places, at) for at in range(len(wanted))] == wanted
    changes = [p[1:] for p in segmenter.places]
    assert all(a != b for a, b in zip(changes, changes[1:], strict=False))


def test_places_change_with_page_and_section(tokenizer: Tokenizer) -> None:
    segmenter = Segmenter(tokenizer, SIZE)
    parts = [Block("one ", 1, "A"), Block("", 2, "A"), Block("two ", 1, "A"), Block("x", 1, "B")]
    list(segmenter.chunks(parts))
    assert segmenter.places == [(0, 1, "A"), (8, 1, "B")]
