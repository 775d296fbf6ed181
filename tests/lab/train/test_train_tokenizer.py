"""Byte-level BPE from corpus files: lossless, special tokens out of reach."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drt_engine.errors import ConfigError
from drt_engine.text.tokenizer import SPECIAL_TOKENS, Tokenizer
from drt_lab.train.tokenizer import train_tokenizer
from tests.tables import each_row

TEXT = "The notice period is thirty days. Naïve keepers sign the log: 中国 👍\r\n\tthe <pad> <end>"


def write(file: Path, *texts: str) -> Path:
    rows = "".join(json.dumps({"text": t, "title": "x"}) + "\n" for t in texts)
    if file.suffix == ".xz":
        file.write_bytes(lzma.compress(rows.encode()))
    else:
        file.write_text(rows, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bpe")
    corpus = write(folder / "corpus.jsonl", *[TEXT] * 20, "<pad><pad><landmark>" * 50)
    return train_tokenizer([corpus], folder / "out", vocab_size=400)


@pytest.fixture(scope="module")
def tokenizer(trained: Path) -> Tokenizer:
    return Tokenizer.load(trained)


def test_special_tokens_have_the_first_ids_and_are_not_added(trained: Path) -> None:
    data = json.loads(trained.read_text(encoding="utf-8"))
    assert [data["model"]["vocab"][t] for t in SPECIAL_TOKENS] == [0, 1, 2, 3]
    assert data["added_tokens"] == []
    assert trained.name == "tokenizer.json"
    assert [p.name for p in trained.parent.iterdir()] == ["tokenizer.json"]


def test_it_learns_words_of_the_corpus(tokenizer: Tokenizer) -> None:
    assert 300 < tokenizer.vocab_size <= 400
    assert len(tokenizer.encode(" notice period")) < 6
    assert len(tokenizer.encode(TEXT)) < len(TEXT.encode()) / 2


@given(st.one_of(st.text(max_size=60), st.text(alphabet="<>padendlmrk swe[]", max_size=40)))
def test_lossless_for_any_text(tokenizer: Tokenizer, text: str) -> None:
    encoding = tokenizer.encode(text)
    assert tokenizer.decode(encoding.ids) == text
    assert not {0, 1, 2, 3} & set(encoding.ids)
    pieces = zip(encoding.starts, encoding.ends, strict=True)
    assert {c for a, b in pieces for c in range(a, b)} == set(range(len(text)))


@each_row("text", [*SPECIAL_TOKENS, "".join(SPECIAL_TOKENS), "<pad><pad>", TEXT])
def test_special_tokens_of_the_corpus_stay_text(tokenizer: Tokenizer, text: str) -> None:
    assert not {0, 1, 2, 3} & set(tokenizer.encode(text).ids)
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_all_kinds_of_corpus_files_teach_the_same(tmp_path: Path) -> None:
    lines = [f"{TEXT} {i}\n" for i in range(9)]
    plain = tmp_path / "corpus.txt"
    plain.write_bytes("".join(lines).encode())
    packed = tmp_path / "corpus.txt.xz"
    packed.write_bytes(lzma.compress("".join(lines).encode()))
    rows = [write(tmp_path / name, *lines) for name in ("a.jsonl", "a.jsonl.xz")]
    made = [
        train_tokenizer([file], tmp_path / str(i), 320).read_bytes()
        for i, file in enumerate([plain, packed, *rows])
    ]
    assert made[1:] == made[:1] * 3


def test_several_files_count_together(tmp_path: Path) -> None:
    one, two = write(tmp_path / "1.jsonl", "zqzq " * 9), write(tmp_path / "2.jsonl", "jvjv " * 9)
    tokenizer = Tokenizer.load(train_tokenizer([one, two], tmp_path, 300))
    assert len(tokenizer.encode("zqzq")) == len(tokenizer.encode("jvjv")) == 1


def test_training_again_replaces_the_file(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", TEXT)
    first = train_tokenizer([file], tmp_path / "out", 270).read_bytes()
    assert train_tokenizer([file], tmp_path / "out", 300).read_bytes() != first


@each_row(
    ("name", "data", "said"),
    [
        ("a.jsonl", b'{"text": "x"}\n{broken\n', "a.jsonl, line 2, is not JSON"),
        ("a.jsonl", b'{"title": "x"}\n', 'line 1, has no "text"'),
        ("a.jsonl", b'{"text": 3}\n', 'has no "text"'),
        ("a.jsonl", b"[1]\n", 'has no "text"'),
        ("a.jsonl", b"", "hold no text"),
        ("a.txt", b" \n \n", "hold no text"),
        ("a.txt", b"caf\xe9\n", "is not UTF-8 text"),
        ("a.jsonl.xz", b"not packed", "cannot be read"),
        ("a.jsonl.xz", lzma.compress(b'{"text": "x"}\n' * 99)[:-20], "cannot be read"),
    ],
)
def test_bad_corpus_files_are_sentences(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    file = tmp_path / name
    file.write_bytes(data)
    with pytest.raises(ConfigError, match=said):
        train_tokenizer([file], tmp_path / "out", 300)
    assert not (tmp_path / "out").exists()


def test_bad_arguments_are_sentences(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", TEXT)
    with pytest.raises(ConfigError, match="vocab_size is 259, expected at least 260"):
        train_tokenizer([file], tmp_path, 259)
    with pytest.raises(ConfigError, match="names no files"):
        train_tokenizer([], tmp_path)
    with pytest.raises(ConfigError, match="none.jsonl does not exist, expected a corpus file"):
        train_tokenizer([tmp_path / "none.jsonl"], tmp_path)
    with pytest.raises(ConfigError, match="cannot be read"):
        train_tokenizer([tmp_path], tmp_path)
    with pytest.raises(ConfigError, match="cannot be written"):
        train_tokenizer([file], file, 300)
