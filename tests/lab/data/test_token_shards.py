"""Token shards: tokenised once, read anywhere, never half there, and never all in memory."""

from __future__ import annotations

import json
import lzma
import os
import threading
import tracemalloc
from pathlib import Path

import pytest
import torch

from drt_engine.errors import ConfigError
from drt_engine.text.tokenizer import Encoding
from drt_lab.data import token_shards
from drt_lab.data.token_shards import TokenShards, corpus_name, open_shards
from tests.fakes import byte_tokenizer
from tests.lab.train.corpora import write_corpus

TOKENIZER = byte_tokenizer()
DOCUMENTS = [["one log", "", "é"], ["the second file 👍", "x"]]


@pytest.fixture
def corpus(tmp_path: Path) -> list[Path]:
    plain, packed = tmp_path / "a.jsonl", tmp_path / "b.jsonl.xz"
    rows = ["".join(json.dumps({"text": t}) + "\n" for t in texts) for texts in DOCUMENTS]
    plain.write_text(rows[0], encoding="utf-8")
    packed.write_bytes(lzma.compress(rows[1].encode()))
    return [plain, packed]


def all_tokens() -> list[int]:
    texts = [text for file in DOCUMENTS for text in file]
    return [i for text in texts for i in [*TOKENIZER.encode(text).ids, TOKENIZER.end_id]]


def test_documents_follow_one_another_each_with_its_end(corpus: list[Path], tmp_path: Path) -> None:
    shards = open_shards(tmp_path / "tokens", corpus, TOKENIZER)
    assert len(shards) == len(all_tokens())
    assert shards.read(0, len(shards)).tolist() == all_tokens()
    assert shards.read(0, 1).dtype == torch.int64


@pytest.mark.parametrize("vocabulary", [65_536, 65_537], ids=["2-bytes", "4-bytes"])
def test_any_place_can_be_read(
    corpus: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vocabulary: int
) -> None:
    monkeypatch.setattr(TOKENIZER, "vocab_size", vocabulary)
    shards = open_shards(tmp_path / "tokens", corpus, TOKENIZER, shard_tokens=6)
    sizes = [file.stat().st_size for file in sorted(shards.folder.glob("*.tokens"))]
    # Of 8, 1, 3, 21 and 2 tokens: a shard ends with the document that fills it.
    assert sizes == [n * (2 if vocabulary == 65_536 else 4) for n in (8, 25, 2)]
    around = all_tokens() * 4
    for start in range(len(shards) + 1):
        for count in (1, 2, 9, len(shards), 2 * len(shards) + 1):
            expected = around[start : start + count]
            assert shards.read(start, count).tolist() == expected, (start, count)


def test_a_corpus_is_tokenised_once(
    corpus: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_shards(tmp_path / "tokens", corpus, TOKENIZER)
    monkeypatch.setattr(TOKENIZER, "encode_batch", None)
    moved = [path.rename(path.with_name("moved-" + path.name)) for path in corpus]
    again = open_shards(tmp_path / "tokens", moved, TOKENIZER)
    assert again.folder == first.folder
    assert torch.equal(again.read(0, len(again)), first.read(0, len(first)))


def test_the_name_is_of_everything_the_tokens_depend_on(corpus: list[Path]) -> None:
    names = {corpus_name(corpus, TOKENIZER), corpus_name(corpus[::-1], TOKENIZER)}
    names |= {corpus_name(corpus[:1], TOKENIZER), corpus_name(corpus, byte_tokenizer([("a", "b")]))}
    corpus[0].write_text('{"text": "two logs"}\n')
    names.add(corpus_name(corpus, TOKENIZER))
    assert len(names) == 5


def test_processes_that_want_the_same_shards_wait_for_one(
    corpus: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, go_on = threading.Event(), threading.Event()
    real = TOKENIZER.encode_batch
    calls = []

    def encode_batch(texts: list[str]) -> list[Encoding]:
        calls.append(texts)
        started.set()
        assert go_on.wait(30)
        return real(texts)

    monkeypatch.setattr(TOKENIZER, "encode_batch", encode_batch)
    sizes: list[int] = []
    threads = [
        threading.Thread(
            target=lambda: sizes.append(len(open_shards(tmp_path / "tokens", corpus, TOKENIZER)))
        )
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    assert started.wait(30)
    go_on.set()
    for thread in threads:
        thread.join()
    assert sizes == [len(all_tokens())] * 2
    assert len(calls) == 1


def test_interrupted_tokenising_leaves_nothing_to_trust(
    corpus: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "tokens"

    def interrupted(texts: list[str]) -> list[Encoding]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(TOKENIZER, "encode_batch", interrupted)
        open_shards(root, corpus, TOKENIZER)
    assert [path.name for path in root.iterdir()] == [".lock"]
    leftover = root / (corpus_name(corpus, TOKENIZER) + ".part")  # of a process that was killed
    leftover.mkdir()
    (leftover / "00009.tokens").write_bytes(b"1234")
    shards = open_shards(root, corpus, TOKENIZER)
    assert shards.read(0, len(shards)).tolist() == all_tokens()
    assert sorted(path.name for path in shards.folder.iterdir()) == ["00000.tokens", "index.json"]
    assert not leftover.exists()


def test_damage_is_a_sentence(corpus: list[Path], tmp_path: Path) -> None:
    folder = open_shards(tmp_path / "tokens", corpus, TOKENIZER).folder
    shard, index = folder / "00000.tokens", folder / "index.json"
    whole, text = shard.read_bytes(), index.read_text()
    for data, reason in ((whole[:-2], "has 68 bytes, expected 70"), (whole + b"00", "has 72")):
        shard.write_bytes(data)
        with pytest.raises(ConfigError, match=rf"is damaged: 00000.tokens {reason}.*remove it"):
            TokenShards(folder)
    shard.unlink()
    with pytest.raises(ConfigError, match=r"00000.tokens cannot be read"):
        TokenShards(folder)
    shard.write_bytes(whole)
    for broken in ("{", "[]", '{"width": 3, "shards": [35]}', text.replace("35", "-35")):
        index.write_text(broken)
        with pytest.raises(ConfigError, match=r"is damaged: index.json"):
            TokenShards(folder)
    index.unlink()
    with pytest.raises(ConfigError, match=r"is damaged: index.json"):
        open_shards(tmp_path / "tokens", corpus, TOKENIZER)


def test_a_shard_that_is_cut_short_while_open_kills_nobody(
    corpus: list[Path], tmp_path: Path
) -> None:
    shards = open_shards(tmp_path / "tokens", corpus, TOKENIZER)
    os.truncate(shards.folder / "00000.tokens", 0)
    with pytest.raises(ConfigError, match=r"00000.tokens was cut short"):
        shards.read(0, 1)


def test_no_corpus_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="names no files"):
        open_shards(tmp_path / "tokens", [], TOKENIZER)
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    with pytest.raises(ConfigError, match="hold no documents"):
        open_shards(tmp_path / "tokens", [empty], TOKENIZER)
    with pytest.raises(ConfigError, match="none.jsonl"):
        open_shards(tmp_path / "tokens", [tmp_path / "none.jsonl"], TOKENIZER)


def test_a_document_that_is_none_is_named_by_its_line(corpus: list[Path], tmp_path: Path) -> None:
    for line, message in (('{"txt": "x"}', "the field 'text' is missing"), ("{", "is not JSON")):
        corpus[0].write_text(f'{{"text": "one"}}\n{line}\n')
        with pytest.raises(ConfigError, match=rf"a\.jsonl, line 2: {message}"):
            open_shards(tmp_path / "tokens", corpus, TOKENIZER)
    assert [path.name for path in (tmp_path / "tokens").iterdir()] == [".lock"]


@pytest.mark.thorough
def test_tokenising_holds_a_batch_in_memory_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_shards, "_BATCH_CHARACTERS", 10_000)
    corpus = write_corpus(tmp_path, *["a" * 2_000] * 120)
    tracemalloc.start()
    try:
        shards = open_shards(tmp_path / "tokens", [corpus], TOKENIZER, shard_tokens=100_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(shards) == 120 * 2_001
    assert peak < 2_400_000  # the lists of all ids and offsets take three times that


def resident() -> int:
    """Bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_half_a_billion_tokens_take_no_memory(tmp_path: Path) -> None:
    sizes = [1 << 28, 1 << 28]
    (tmp_path / "index.json").write_text(json.dumps({"width": 2, "shards": sizes}))
    for number, size in enumerate(sizes):
        path = tmp_path / f"{number:05}.tokens"
        path.touch()
        os.truncate(path, 2 * size)  # a hole, which takes no room on the disk
    with (tmp_path / "00001.tokens").open("r+b") as file:
        file.seek(2 * 5000)
        file.write(b"\x07\x00\x08\x00")
    before = resident()
    shards = TokenShards(tmp_path)
    assert len(shards) == 1 << 29
    assert shards.read((1 << 28) + 4999, 4).tolist() == [0, 7, 8, 0]
    for number in range(64):
        assert not shards.read(number * (len(shards) // 64), 2048).any()
    assert resident() - before < 64 << 20
