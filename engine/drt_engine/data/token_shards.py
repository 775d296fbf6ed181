"""A corpus as token ids on disk: tokenised once, then read anywhere without holding it in memory.

A folder of shards is named after what it was made of: the tokenizer and the bytes of the corpus
files. ``index.json`` holds the number of tokens of each shard, ``00000.tokens`` and so on the ids
as unsigned integers of 2 or 4 bytes in the machine's byte order. Documents follow one another in
the order of the files, each closed by the end token. Knows nothing of rows, batches or seeds.
"""

from __future__ import annotations

import array
import bisect
import contextlib
import hashlib
import itertools
import json
import mmap
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from drt_engine.data.schema import read_texts
from drt_engine.errors import ConfigError
from drt_engine.files import flush_path, lock
from drt_engine.progress import report
from drt_engine.text.tokenizer import Tokenizer

INDEX = "index.json"
SHARD_TOKENS = 1 << 26  # 128 or 256 MiB a file; a document is never cut
_VERSION = 1
_BATCH_CHARACTERS = 1 << 20  # tokenised at once, on all cores
_TYPES = {2: ("H", torch.uint16), 4: ("I", torch.int32)}  # by bytes of a token


class TokenShards:
    """The token ids of a tokenised corpus, mapped into memory; indexing goes round at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.name = folder, folder.name
        sizes, self._width = _read_index(folder)
        self._starts = [0, *itertools.accumulate(sizes)]
        self._shards = [
            _mapped(folder / _shard_name(number), size * self._width)
            for number, size in enumerate(sizes)
        ]

    def __len__(self) -> int:
        return self._starts[-1]

    def read(self, start: int, count: int) -> Tensor:
        """Return ``count`` token ids from ``start`` on, int64; the first token follows the last.

        Raises ``ConfigError`` when a shard was cut short since it was opened.
        """
        pieces = []
        while count:
            start %= len(self)
            shard = bisect.bisect_right(self._starts, start) - 1
            stop = min(start + count, self._starts[shard + 1])
            pieces.append(self._slice(shard, start, stop))
            count -= stop - start
            start = stop
        return torch.cat(pieces)

    def _slice(self, shard: int, start: int, stop: int) -> Tensor:
        mapping, first = self._shards[shard], self._starts[shard]
        if mapping.size() < len(mapping):  # reading past the end of a file would kill the process
            raise _damaged(self.folder, f"{_shard_name(shard)} was cut short")
        piece = mapping[(start - first) * self._width : (stop - first) * self._width]
        return torch.frombuffer(bytearray(piece), dtype=_TYPES[self._width][1]).long()


def open_shards(
    root: Path, corpus: Sequence[Path], tokenizer: Tokenizer, *, shard_tokens: int = SHARD_TOKENS
) -> TokenShards:
    """Open the shards of a corpus below ``root``, and make them first where they are not there.

    Raises ``ConfigError`` when a file is missing or the corpus holds no documents. Another process
    that makes the same shards is waited for.
    """
    folder = root / corpus_name(corpus, tokenizer)
    if not folder.exists():
        root.mkdir(parents=True, exist_ok=True)
        with _locked(root):
            if not folder.exists():
                _write_shards(folder, corpus, tokenizer, shard_tokens)
    return TokenShards(folder)


def corpus_name(corpus: Sequence[Path], tokenizer: Tokenizer) -> str:
    """Return a digest of what determines the tokens: tokenizer, and the files' bytes in order."""
    if not corpus:
        raise ConfigError("stream.corpus names no files")
    digest = hashlib.sha256(f"{_VERSION} {sys.byteorder} {tokenizer.to_json()}".encode())
    for path in corpus:
        try:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise ConfigError(
                f"{path} cannot be read: {error.strerror}, expected a .jsonl or .jsonl.xz file"
            ) from error
        digest.update(path.suffix.encode())  # decides whether it is unpacked
    return digest.hexdigest()[:32]


def _write_shards(
    folder: Path, corpus: Sequence[Path], tokenizer: Tokenizer, shard_tokens: int
) -> None:
    """Tokenise a corpus into a new folder, which has its name only once it is whole on the disk."""
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
    part.mkdir()
    names = ", ".join(map(str, corpus))
    report(f"tokenising {names} into {folder}")
    width = 2 if tokenizer.vocab_size <= 1 << 16 else 4
    documents = _documents(corpus, tokenizer)
    try:
        sizes: list[int] = []
        while size := _write_shard(
            part / _shard_name(len(sizes)), documents, width=width, least=shard_tokens
        ):
            sizes.append(size)
        if not sizes:
            raise ConfigError("the files of stream.corpus hold no documents")
        (part / INDEX).write_text(json.dumps({"width": width, "shards": sizes}), encoding="utf-8")
        flush_path(part / INDEX)
        flush_path(part)
        part.rename(folder)
        flush_path(folder.parent)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be written: {error.strerror}; name another folder with stream.tokens"
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write_shard(path: Path, documents: Iterator[list[int]], *, width: int, least: int) -> int:
    """Write whole documents until there are ``least`` tokens; return how many there are."""
    size = 0
    with path.open("wb") as file:
        for ids in documents:
            file.write(array.array(_TYPES[width][0], ids).tobytes())
            size += len(ids)
            if size >= least:
                break
    if size:
        flush_path(path)
    else:
        path.unlink()
    return size


def _documents(corpus: Sequence[Path], tokenizer: Tokenizer) -> Iterator[list[int]]:
    """Yield the token ids of each document with its end token."""
    for texts in _batches(corpus):
        for encoding in tokenizer.encode_batch(texts):
            yield [*encoding.ids, tokenizer.end_id]


def _batches(corpus: Sequence[Path]) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in read_texts(corpus):
        batch.append(text)
        characters += len(text)
        if characters >= _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _read_index(folder: Path) -> tuple[list[int], int]:
    """Return the tokens of each shard and the bytes of a token."""
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        sizes, width = index["shards"], index["width"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(folder, f"{INDEX} cannot be read: {error}") from error
    if width not in _TYPES or not sizes or any(type(n) is not int or n < 1 for n in sizes):
        raise _damaged(folder, f"{INDEX} holds {index}")
    return sizes, width


def _mapped(path: Path, size: int) -> mmap.mmap:
    try:
        actual = path.stat().st_size
        if actual != size:
            raise _damaged(path.parent, f"{path.name} has {actual} bytes, expected {size}")
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    except OSError as error:
        raise _damaged(path.parent, f"{path.name} cannot be read: {error.strerror}") from error


def _damaged(folder: Path, reason: str) -> ConfigError:
    return ConfigError(f"{folder} is damaged: {reason}; remove it, and it is made again")


def _shard_name(number: int) -> str:
    return f"{number:05}.tokens"


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes from making shards in ``folder``."""
    with (folder / ".lock").open("w") as file:
        lock(file, wait=True)
        yield
