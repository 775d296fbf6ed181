"""A corpus as token ids on disk: tokenised once, then read anywhere without holding it in memory.

A folder of shards is named after what it was made of: the tokenizer and the bytes of the corpus
files. ``index.json`` holds the number of tokens of each shard, ``00000.tokens`` and so on the ids
as unsigned integers of 2 or 4 bytes in the machine's byte order. Documents follow one another in
the order of the files, each closed by the end token. Processes that train together tokenise a share
of the documents each. Knows nothing of rows, batches or seeds.
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
from typing import Any, Protocol

import torch
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_engine.files import flush_path, lock
from drt_engine.progress import report
from drt_engine.text.tokenizer import Tokenizer
from drt_lab.data.schema import read_texts

INDEX = "index.json"
SHARD_TOKENS = 1 << 26  # 128 or 256 MiB a file; a document is never cut
_VERSION = 1
_BATCH_CHARACTERS = 1 << 20  # tokenised at once, on all cores
_SHARE = ".share"  # ends the names of what one process of a team has tokenised
_SIZE_BYTES = 8  # of a document's number of tokens
_TYPES = {2: ("H", torch.uint16), 4: ("I", torch.int32)}  # by bytes of a token


class Team(Protocol):
    """Processes that make the same calls in the same order, and see the same files."""

    rank: int
    world: int

    def gather(self, value: Any) -> list[Any]:
        """Return the ``value`` of every process, in their order."""
        ...


class _Alone:
    rank, world = 0, 1

    def gather(self, value: Any) -> list[Any]:
        return [value]


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
    root: Path,
    corpus: Sequence[Path],
    tokenizer: Tokenizer,
    *,
    shard_tokens: int = SHARD_TOKENS,
    team: Team | None = None,
) -> TokenShards:
    """Open the shards of a corpus below ``root``, and make them first where they are not there.

    The processes of a ``team`` make them together. Raises ``ConfigError`` when a file is missing or
    the corpus holds no documents. Another process or team that makes the same shards is waited for.
    """
    team = team or _Alone()
    folder = root / corpus_name(corpus, tokenizer)
    with contextlib.ExitStack() as lock:
        missing = team.rank == 0 and not folder.exists()
        if missing:
            root.mkdir(parents=True, exist_ok=True)
            lock.enter_context(_locked(root))
            missing = not folder.exists()
        if team.gather(missing)[0]:
            _write_shards(folder, _Source(corpus, tokenizer), shard_tokens, team)
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


class _Source:
    """A corpus and what turns it into token ids, of so many bytes each."""

    def __init__(self, corpus: Sequence[Path], tokenizer: Tokenizer) -> None:
        self.corpus, self._tokenizer = corpus, tokenizer
        self.width = 2 if tokenizer.vocab_size <= 1 << 16 else 4
        self.code = _TYPES[self.width][0]

    def documents(self, texts: list[str]) -> Iterator[array.array[int]]:
        """Yield the token ids of each document with its end token."""
        for encoding in self._tokenizer.encode_batch(texts):
            yield array.array(self.code, [*encoding.ids, self._tokenizer.end_id])


def _write_shards(folder: Path, source: _Source, shard_tokens: int, team: Team) -> None:
    """Tokenise a corpus into a new folder, which has its name only once it is whole on the disk."""
    part = folder.with_name(folder.name + ".part")
    try:
        if team.rank == 0:
            shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
            part.mkdir()
            report(f"tokenising {', '.join(map(str, source.corpus))} into {folder}")
        team.gather(None)
        documents: Iterator[array.array[int]]
        if team.world == 1:
            documents = itertools.chain.from_iterable(
                map(source.documents, _batches(source.corpus))
            )
        else:
            documents = _joined(part, source, _write_share(part, source, team))
        if team.rank == 0:
            _write_folder(part, documents, width=source.width, shard_tokens=shard_tokens)
            part.rename(folder)
            flush_path(folder.parent)
        team.gather(None)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be written: {error.strerror}; name another folder with stream.tokens"
        ) from error
    finally:
        if team.rank == 0:
            shutil.rmtree(part, ignore_errors=True)


def _write_share(part: Path, source: _Source, team: Team) -> list[tuple[int, int]]:
    """Tokenise every ``team.world``-th batch of documents into files of this process.

    Returns when all processes have done so: for each batch of the corpus, who has tokenised it and
    how many documents it holds.
    """
    batches = []
    with _ids_of(part, team.rank).open("wb") as ids, _sizes_of(part, team.rank).open("wb") as sizes:
        for number, texts in enumerate(_batches(source.corpus)):
            owner = number % team.world
            batches.append((owner, len(texts)))
            if owner == team.rank:
                for document in source.documents(texts):
                    ids.write(document.tobytes())
                    sizes.write(len(document).to_bytes(_SIZE_BYTES, sys.byteorder))
    team.gather(None)
    return batches


def _joined(
    part: Path, source: _Source, batches: Sequence[tuple[int, int]]
) -> Iterator[array.array[int]]:
    """Yield the documents of all processes in the order of the corpus."""
    with contextlib.ExitStack() as stack:
        owners = {owner for owner, _ in batches}
        files = {
            owner: tuple(
                stack.enter_context(path.open("rb"))
                for path in (_ids_of(part, owner), _sizes_of(part, owner))
            )
            for owner in owners
        }
        for owner, count in batches:
            ids, sizes = files[owner]
            for _ in range(count):
                size = int.from_bytes(sizes.read(_SIZE_BYTES), sys.byteorder)
                yield array.array(source.code, ids.read(size * source.width))


def _write_folder(
    part: Path, documents: Iterator[array.array[int]], *, width: int, shard_tokens: int
) -> None:
    """Write all shards and their index; other files of the folder are removed."""
    sizes: list[int] = []
    while size := _write_shard(part / _shard_name(len(sizes)), documents, least=shard_tokens):
        sizes.append(size)
    if not sizes:
        raise ConfigError("the files of stream.corpus hold no documents")
    for share in part.glob("*" + _SHARE):
        share.unlink()
    (part / INDEX).write_text(json.dumps({"width": width, "shards": sizes}), encoding="utf-8")
    flush_path(part / INDEX)
    flush_path(part)


def _write_shard(path: Path, documents: Iterator[array.array[int]], *, least: int) -> int:
    """Write whole documents until there are ``least`` tokens; return how many there are."""
    size = 0
    with path.open("wb") as file:
        for ids in documents:
            file.write(ids.tobytes())
            size += len(ids)
            if size >= least:
                break
    if size:
        flush_path(path)
    else:
        path.unlink()
    return size


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


def _ids_of(part: Path, rank: int) -> Path:
    return part / f"ids-{rank}{_SHARE}"


def _sizes_of(part: Path, rank: int) -> Path:
    return part / f"sizes-{rank}{_SHARE}"


def _shard_name(number: int) -> str:
    return f"{number:05}.tokens"


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes from making shards in ``folder``."""
    with (folder / ".lock").open("w") as file:
        lock(file, wait=True)
        yield
