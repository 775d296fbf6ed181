"""Ids with exact character offsets for any text; special tokens only where the engine puts them."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from drt_engine.errors import TokenizerError
from drt_engine.text.tokenizer import SPECIAL_TOKENS, Tokenizer, wordpiece_from_bert
from tests.fakes import (
    BERT_SPECIAL,
    bert_vocabulary,
    byte_tokenizer,
    wordpiece_tokenizer,
    write_bert_tokenizer,
)
from tests.sampling import sampled
from tests.tables import each_row

MERGES = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("Ã", "©"), ("i", "n")]
BYTES = byte_tokenizer(MERGES)

TRICKY = {
    "accents": "café naïve Ångström",
    "combining": "cafe\u0301 nai\u0308ve a\u0301\u0302\u0303b",
    "combining first": "\u0301abc",
    "emoji": "👍 days 👍🏽 the 🏳️‍🌈 👩‍👩‍👧‍👦.",
    "cjk": "中国log国中文字",
    "hangul": "한국어 각",
    "right to left": "שלום עולם مرحبا",
    "zero width": "the\u200bnotice\u200c \u200dlog\ufeff \u2060end",
    "controls": "a\x01b\x7f c\x85d\x0ce \x1c f\tg\r\nh",
    "null and replacement": "a\x00b \ufffd",
    "long word": "x" * 500 + " the " + "é" * 300,
    "ligatures": "ﬁne ǆ ß İstanbul Σίσυφος",
    "private": "\ue000\U000f0000 \U0010ffff",
    "spaces": "  the   log  \u3000\xa0x \u2028 y ",
    "only spaces": " \n\t ",
    "nothing": "",
}
texts = st.one_of(
    st.text(max_size=60),
    st.text(alphabet="the e\u0301\u0308é👍🏽\u200d中国 \x0c\x85\n.[]#xİß", max_size=60),
    st.lists(st.sampled_from([*TRICKY.values(), *SPECIAL_TOKENS, *BERT_SPECIAL]), max_size=3).map(
        "".join
    ),
)


@pytest.fixture(scope="module")
def wordpiece(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return wordpiece_tokenizer(tmp_path_factory.mktemp("bert"))


def check_offsets(tokenizer: Tokenizer, text: str) -> None:
    encoding = tokenizer.encode(text)
    assert len(encoding) == len(encoding.ids) == len(encoding.starts) == len(encoding.ends)
    spans = list(zip(encoding.starts, encoding.ends, strict=True))
    assert all(0 <= a <= b <= len(text) for a, b in spans)
    assert all(a < b for a, b in spans), "a token of no character"
    assert encoding.starts == sorted(encoding.starts)
    assert encoding.ends == sorted(encoding.ends)
    special = {tokenizer.pad_id, tokenizer.landmark_id, tokenizer.answer_id, tokenizer.end_id}
    assert not special & set(encoding.ids)


def check_lossless(tokenizer: Tokenizer, text: str) -> None:
    encoding = tokenizer.encode(text)
    assert tokenizer.decode(encoding.ids) == text
    at = 0
    for start, end in zip(encoding.starts, encoding.ends, strict=True):
        assert start <= at, "a character is in no token"
        at = max(at, end)
    assert at == len(text)


@each_row("text", TRICKY.values(), ids=TRICKY)
def test_bytes_are_lossless(text: str) -> None:
    check_offsets(BYTES, text)
    check_lossless(BYTES, text)


@given(texts)
def test_bytes_are_lossless_for_any_text(text: str) -> None:
    check_offsets(BYTES, text)
    check_lossless(BYTES, text)


@each_row("text", TRICKY.values(), ids=TRICKY)
def test_wordpiece_offsets(wordpiece: Tokenizer, text: str) -> None:
    check_offsets(wordpiece, text)


@given(texts)
def test_wordpiece_offsets_for_any_text(wordpiece: Tokenizer, text: str) -> None:
    check_offsets(wordpiece, text)


def slices(tokenizer: Tokenizer, text: str) -> list[str]:
    encoding = tokenizer.encode(text)
    return [text[a:b] for a, b in zip(encoding.starts, encoding.ends, strict=True)]


@each_row(
    ("text", "expected"),
    [
        ("The NOTICE, period", ["The", "NOTICE", ",", "period"]),
        ("Café naïve", ["Café", "naïve"]),
        ("中国 log", ["中", "国", "log"]),
        ("log👍 the", ["log👍", "the"]),  # one unknown word
        ("keeper", ["keep", "er"]),
        ("x" * 101 + " the", ["x" * 101, "the"]),
        ("the\u200blog", ["the", "l", "o", "g"]),  # one word: what is not seen is dropped
        ("\xa0the\u3000log\n", ["the", "log"]),
    ],
    ids=lambda value: str(value)[:20],
)
def test_wordpiece_slices(wordpiece: Tokenizer, text: str, expected: list[str]) -> None:
    assert slices(wordpiece, text) == expected


@each_row("text", ["cafe\u0301", "the cafe\u0301 log", "nai\u0308ve", "a\u0301\u0302b"])
def test_wordpiece_tokens_keep_their_combining_marks(wordpiece: Tokenizer, text: str) -> None:
    """A quote that ends with a token must not leave the accent of its last letter behind."""
    encoding = wordpiece.encode(text)
    covered = {c for a, b in zip(encoding.starts, encoding.ends, strict=True) for c in range(a, b)}
    marks = {i for i, c in enumerate(text) if unicodedata.combining(c)}
    assert marks <= covered


def test_byte_slices() -> None:
    assert slices(BYTES, "the thé") == ["the", " ", "th", "é"]
    assert slices(BYTES, "中 a") == ["中", "中", "中", " ", "a"]  # a byte is of its whole character


@each_row("name", [*SPECIAL_TOKENS, *BERT_SPECIAL[:3], "[UNK]", "[CLS]", "[SEP]"])
def test_no_text_produces_a_special_token(wordpiece: Tokenizer, name: str) -> None:
    for tokenizer in (BYTES, wordpiece):
        for text in (name, name.upper(), f"the {name} log", f"x{name}", name * 2, f" {name}"):
            ids = tokenizer.encode(text).ids
            assert not set(ids) & special_ids(tokenizer)
    bracketed = [bert_vocabulary().index(t) for t in BERT_SPECIAL if t != "[UNK]"]
    assert not set(wordpiece.encode(f"{name} the {name}").ids) & set(bracketed)


def special_ids(tokenizer: Tokenizer) -> set[int]:
    return {tokenizer.pad_id, tokenizer.landmark_id, tokenizer.answer_id, tokenizer.end_id}


def test_special_tokens_decode_to_nothing(wordpiece: Tokenizer) -> None:
    for tokenizer in (BYTES, wordpiece):
        ids = tokenizer.encode("the log").ids
        mixed = [tokenizer.landmark_id, *ids, tokenizer.end_id, tokenizer.pad_id]
        assert tokenizer.decode(mixed) == tokenizer.decode(ids) == "the log"


def test_a_batch_is_each_text(wordpiece: Tokenizer) -> None:
    for tokenizer in (BYTES, wordpiece):
        encodings = tokenizer.encode_batch(list(TRICKY.values()))
        assert encodings == [tokenizer.encode(text) for text in TRICKY.values()]


def test_padding_and_truncation_of_the_file_are_switched_off(wordpiece: Tokenizer) -> None:
    assert len(wordpiece.encode("the log " * 50)) == 100
    assert len(wordpiece.encode("the")) == 1


def test_special_ids_of_wordpiece_are_its_unused_slots(wordpiece: Tokenizer) -> None:
    assert (wordpiece.pad_id, wordpiece.landmark_id, wordpiece.answer_id) == (0, 1, 2)
    assert wordpiece.vocab_size == len(bert_vocabulary())


def test_save_and_load(tmp_path: Path, wordpiece: Tokenizer) -> None:
    for tokenizer in (BYTES, wordpiece):
        tokenizer.save(tmp_path / "tokenizer.json")
        again = Tokenizer.load(tmp_path / "tokenizer.json")
        for text in TRICKY.values():
            assert again.encode(text) == tokenizer.encode(text)
        assert special_ids(again) == special_ids(tokenizer)


def test_broken_files_are_sentences(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    with pytest.raises(TokenizerError, match="does not exist, expected a tokenizers JSON"):
        Tokenizer.load(file)
    for data in (b"", b"{}", b"not json", b"\xff\xfe"):
        file.write_bytes(data)
        with pytest.raises(TokenizerError, match="is not a tokenizers JSON file"):
            Tokenizer.load(file)


def test_what_the_engine_needs_is_checked(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="lacks <pad>.*drt train tokenizer"):
        Tokenizer(tokenizers.Tokenizer(tokenizers.models.BPE()))
    file = tmp_path / "tokenizer.json"
    BYTES.save(file)
    inner = tokenizers.Tokenizer.from_file(str(file))
    inner.add_special_tokens(["<pad>"])
    with pytest.raises(TokenizerError, match="added tokens"):
        Tokenizer(inner)


def test_only_wordpiece_with_unused_slots_is_taken_over(tmp_path: Path) -> None:
    file = write_bert_tokenizer(tmp_path)
    data = json.loads(file.read_text())
    del data["model"]["vocab"]["[unused1]"]
    file.write_text(json.dumps(data))
    with pytest.raises(TokenizerError, match="is not a WordPiece vocabulary with unused slots"):
        wordpiece_from_bert(file)
    BYTES.save(file)
    with pytest.raises(TokenizerError, match="is not a WordPiece"):
        wordpiece_from_bert(file)


def test_missing_and_broken_bert_folders_are_sentences(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    with pytest.raises(TokenizerError, match="tokenizer.json"):
        wordpiece_from_bert(file)
    for data in ("{}", "[]", "{"):
        file.write_text(data)
        with pytest.raises(TokenizerError, match="tokenizer.json"):
            wordpiece_from_bert(file)


def with_parts(tmp_path: Path, **parts: object) -> Path:
    """A tokenizer's file with some of its parts replaced."""
    BYTES.save(tmp_path / "tokenizer.json")
    data = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8")) | parts
    (tmp_path / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    return tmp_path / "tokenizer.json"


def split(pattern: str) -> dict[str, object]:
    return {
        "type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False
    }  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("pattern", sampled(["(a+)+$", "(x|xx)+$", r"(\s+)+\d"], {0}))
def test_a_pattern_that_explodes_is_refused(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(TokenizerError, match="a pattern that takes too long"):
        Tokenizer.load(with_parts(tmp_path, pre_tokenizer=split(pattern)))


@pytest.mark.thorough
def test_replacements_that_grow_without_end_are_refused(tmp_path: Path) -> None:
    growing = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}
    path = with_parts(tmp_path, normalizer={"type": "Sequence", "normalizers": [growing] * 4})
    with pytest.raises(TokenizerError, match="too much memory"):
        Tokenizer.load(path)


def test_patterns_of_known_models_are_taken(tmp_path: Path) -> None:
    gpt4 = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    data = json.loads(BYTES.to_json())
    parts = {"type": "Sequence", "pretokenizers": [split(gpt4), data["pre_tokenizer"]]}
    loaded = Tokenizer.load(with_parts(tmp_path, pre_tokenizer=parts))
    assert loaded.decode(loaded.encode("the log in 2024").ids) == "the log in 2024"


@pytest.mark.thorough
def test_a_pattern_that_explodes_later_is_an_error(tmp_path: Path) -> None:
    inner = tokenizers.Tokenizer.from_file(str(with_parts(tmp_path, pre_tokenizer=split("(a+)+$"))))
    with pytest.raises(TokenizerError, match="cannot split this text"):
        Tokenizer(inner).encode("a" * 200 + "!")
