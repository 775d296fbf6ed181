"""A lossless byte-level BPE tokenizer from corpus files; writes one file, knows no model.

Special tokens get the first ids of the vocabulary and nothing else: no merge leads to them and they
are not among the added tokens, so no text can produce them.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from drt_engine.errors import ConfigError
from drt_engine.text.tokenizer import SPECIAL_TOKENS, Tokenizer

_BYTES = 256


def train_tokenizer(corpus: Sequence[Path], out: Path, vocab_size: int = 16384) -> Path:
    """Train on corpus files, write ``out/tokenizer.json`` and return its path.

    Files are .jsonl or .jsonl.xz with a "text" field, or plain text (also .xz). A small corpus may
    give fewer than ``vocab_size`` tokens. Raises ``ConfigError`` when a file cannot be read, the
    corpus holds no text, the size has no room for all bytes, or ``out`` cannot be written.
    """
    least = len(SPECIAL_TOKENS) + _BYTES
    if vocab_size < least:
        raise ConfigError(
            f"vocab_size is {vocab_size}, expected at least {least}: special tokens and all bytes"
        )
    if not corpus:
        raise ConfigError("the corpus names no files; name at least one")
    inner = _train(_Texts(corpus), vocab_size)
    tokenizer = Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(_without_added(inner))))
    path = out / "tokenizer.json"
    part = out / "tokenizer.json.part"
    try:
        out.mkdir(parents=True, exist_ok=True)
        tokenizer.save(part)
        part.replace(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error}; name another folder") from error
    return path


class _Texts:
    """The texts of corpus files; keeps an error of reading, which the trainer would wrap."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = files
        self.error: ConfigError | None = None
        self.empty = True

    def __iter__(self) -> Iterator[str]:
        for file in self.files:
            try:
                for text in _read(file):
                    self.empty = self.empty and not text.strip()
                    yield text
            except ConfigError as error:
                self.error = error
                return


def _train(texts: _Texts, vocab_size: int) -> dict[str, Any]:
    inner = tokenizers.Tokenizer(models.BPE())
    # Offsets keep the space in front of a word, so that the pieces of a text join up to it.
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    inner.train_from_iterator(texts, trainer)
    if texts.error is not None:
        raise texts.error
    if texts.empty:
        names = ", ".join(str(file) for file in texts.files)
        raise ConfigError(f"{names} hold no text, expected documents to learn words from")
    data: dict[str, Any] = json.loads(inner.to_str())
    return data


def _without_added(data: dict[str, Any]) -> dict[str, Any]:
    """Take special tokens out of the added tokens, and any merge that spells one."""
    merges = [m for m in data["model"]["merges"] if "".join(m) not in SPECIAL_TOKENS]
    return {**data, "added_tokens": [], "model": {**data["model"], "merges": merges}}


def _read(file: Path) -> Iterator[str]:
    """Yield the texts of one file, line by line where it is plain."""
    kind = file.name.removesuffix(".xz")
    try:
        with _open(file) as lines:
            for number, line in enumerate(lines, start=1):
                yield _text_of(line, f"{file}, line {number},") if kind.endswith(".jsonl") else line
    except FileNotFoundError:
        raise ConfigError(f"{file} does not exist, expected a corpus file") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8 text: {error.reason}; convert it first") from error
    except (OSError, lzma.LZMAError, EOFError) as error:
        raise ConfigError(f"{file} cannot be read: {error}; expected text or .jsonl") from error


def _open(file: Path) -> TextIO:
    # newline="" keeps line ends as they are: they are bytes to learn as well.
    if file.suffix == ".xz":
        return lzma.open(file, "rt", encoding="utf-8", newline="")
    return file.open(encoding="utf-8", newline="")


def _text_of(line: str, where: str) -> str:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{where} is not JSON: {error.msg}; expected an object") from error
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        raise ConfigError(f'{where} has no "text", expected an object with one')
    return str(row["text"])
