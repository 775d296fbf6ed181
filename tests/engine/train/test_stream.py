"""Packed streams: every token once, in order, and a resumed stream gives the very next one."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from drt_engine.errors import ConfigError
from drt_engine.train.stream import StreamState, TokenStream
from tests.fakes import byte_tokenizer

TOKENIZER = byte_tokenizer()
DOCUMENTS = [["one log", "", "é"], ["the second file 👍", "x"]]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    plain, packed = tmp_path / "a.jsonl", tmp_path / "b.jsonl.xz"
    rows = ["".join(json.dumps({"text": t}) + "\n" for t in texts) for texts in DOCUMENTS]
    plain.write_text(rows[0], encoding="utf-8")
    packed.write_bytes(lzma.compress(rows[1].encode()))
    return [plain, packed]


def epoch() -> list[int]:
    texts = [text for file in DOCUMENTS for text in file]
    return [i for text in texts for i in [*TOKENIZER.encode(text).ids, TOKENIZER.end_id]]


def test_documents_follow_one_another_each_with_its_end(files: list[Path]) -> None:
    stream = TokenStream(files, TOKENIZER)
    assert stream.take(len(epoch())) == epoch()
    assert stream.take(2 * len(epoch())) == epoch() * 2  # and again from the start
    assert stream.state.epoch in (2, 3)  # the last document's end may or may not be turned over


def test_the_split_of_what_is_taken_does_not_matter(files: list[Path]) -> None:
    stream = TokenStream(files, TOKENIZER)
    wanted = (epoch() * 6)[: sum(range(20))]
    assert [i for n in range(20) for i in stream.take(n)] == wanted


@pytest.mark.parametrize("taken", range(0, 60))
def test_a_stream_resumes_at_the_very_next_token(files: list[Path], taken: int) -> None:
    stream = TokenStream(files, TOKENIZER)
    stream.take(taken)
    state = StreamState(**json.loads(json.dumps(vars(stream.state))))
    again = TokenStream(files, TOKENIZER, state)
    assert again.state == state
    assert again.take(50) == stream.take(50) == (epoch() * 5)[taken : taken + 50]
    assert again.state == stream.state


def test_no_corpus_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="names no files"):
        TokenStream([], TOKENIZER)
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    with pytest.raises(ConfigError, match="hold no documents"):
        TokenStream([empty], TOKENIZER).take(1)
    with pytest.raises(ConfigError, match="hold no documents"):
        TokenStream([empty], TOKENIZER, StreamState(0, 3, 1, 2)).take(1)


def test_a_missing_corpus_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="none.jsonl"):
        TokenStream([tmp_path / "none.jsonl"], TOKENIZER).take(1)
