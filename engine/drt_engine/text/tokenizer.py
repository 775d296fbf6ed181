"""Encoding of text as token ids with character offsets, and decoding.

Works with any ``tokenizers`` JSON file that has the project's special tokens. They are in the
vocabulary only, never among the added tokens, so no document text can produce them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import tokenizers

from drt_engine.errors import TokenizerError
from drt_engine.files import read_small_file

PAD, LANDMARK, ANSWER, END = "<pad>", "<landmark>", "<answer>", "<end>"
SPECIAL_TOKENS = (PAD, LANDMARK, ANSWER, END)


@dataclass(frozen=True)
class Encoding:
    """Token ids of a text, and for each token where it starts and ends in it, in characters."""

    ids: list[int]
    starts: list[int]
    ends: list[int]

    def __len__(self) -> int:
        return len(self.ids)


class Tokenizer:
    """A wrapper of a ``tokenizers`` model that returns ids with exact character offsets."""

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self._inner = inner
        inner.no_padding()
        inner.no_truncation()
        ids_by_token = {token: inner.token_to_id(token) for token in SPECIAL_TOKENS}
        ids = [token_id for token_id in ids_by_token.values() if token_id is not None]
        missing = [token for token, token_id in ids_by_token.items() if token_id is None]
        if missing:
            raise TokenizerError(
                f"the tokenizer lacks {', '.join(missing)}; make one with `drt train tokenizer`"
            )
        if inner.get_added_tokens_decoder():
            raise TokenizerError(
                "the tokenizer has added tokens, which document text could imitate; remove them"
            )
        self.pad_id, self.landmark_id, self.answer_id, self.end_id = ids
        self.vocab_size: int = inner.get_vocab_size()

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Load a ``tokenizer.json``.

        Raises ``TokenizerError`` when it is missing or broken, or takes too long on some texts.
        """
        try:
            text = read_small_file(path, largest=_LARGEST).decode("utf-8")
            if _PATTERN.search(text) and not ends_in_time(text):
                raise TokenizerError(
                    f"{path} has a pattern that takes too long or too much memory on some texts; "
                    "use a model with another tokenizer"
                )
            inner = tokenizers.Tokenizer.from_str(text)
        except FileNotFoundError:
            raise TokenizerError(
                f"{path} does not exist, expected a tokenizers JSON file"
            ) from None
        except TokenizerError:
            raise
        except Exception as error:  # the library raises bare Exception for broken JSON
            raise TokenizerError(f"{path} is not a tokenizers JSON file: {error}") from error
        return cls(inner)

    def save(self, path: Path) -> None:
        """Write the tokenizer as ``tokenizer.json``."""
        path.write_text(self.to_json(), encoding="utf-8")

    def to_json(self) -> str:
        """Return the content of ``tokenizer.json``."""
        return str(self._inner.to_str())

    def vocabulary(self) -> dict[str, int]:
        """Return the ids of all tokens."""
        return dict(self._inner.get_vocab())

    def encode(self, text: str) -> Encoding:
        """Return ids and character offsets of all tokens of ``text``."""
        with _panics():
            encoding = self._inner.encode(text, add_special_tokens=False)
        return self._convert(encoding, text)

    def encode_batch(self, texts: Sequence[str]) -> list[Encoding]:
        """Return the encodings of several texts, in order."""
        with _panics():
            batch = self._inner.encode_batch(list(texts), add_special_tokens=False)
        return [self._convert(e, text) for e, text in zip(batch, texts, strict=True)]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids, special tokens left out."""
        special_ids = {self.pad_id, self.landmark_id, self.answer_id, self.end_id}
        plain_ids = [i for i in ids if i not in special_ids]
        return self._inner.decode(plain_ids, skip_special_tokens=False)

    @staticmethod
    def _convert(encoding: tokenizers.Encoding, text: str) -> Encoding:
        offsets = encoding.offsets
        starts, ends = [start for start, _ in offsets], [end for _, end in offsets]
        if not text.isascii():
            _keep_marks(text, starts, ends)
        return Encoding(encoding.ids, starts, ends)


@contextmanager
def _panics() -> Iterator[None]:
    """Turn a panic of the library (it gave up on a pattern) into ``TokenizerError``."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise TokenizerError(
            f"the tokenizer cannot split this text ({error}); use a model with another tokenizer"
        ) from None


def ends_in_time(text: str) -> bool:
    """Return whether the tokenizer in a JSON ``text`` splits awkward texts within limits.

    Its patterns are regular expressions that may backtrack exponentially, and replacements that may
    grow without end, so they are tried in a process with limits of CPU time and memory.
    """
    process = subprocess.run(
        [sys.executable, "-P", "-c", _TRIAL],
        input=text.encode("utf-8", "replace"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "RUST_BACKTRACE": "0", "TOKENIZERS_PARALLELISM": "false"},
    )
    return process.returncode == 0


# Encodes runs of each letter in the tokenizer's own patterns, and of every kind of letter, followed
# by one that makes a match fail at its end. A broken tokenizer passes: loading it names the fault.
_TRIAL = """
import json, resource, sys
text = sys.stdin.buffer.read().decode()
resource.setrlimit(resource.RLIMIT_CPU, (5, 6))
if sys.platform == "linux":
    memory = (1 << 29) + 60 * len(text)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
import tokenizers
try:
    tokenizer = tokenizers.Tokenizer.from_str(text)
except Exception:
    sys.exit(0)
kinds = {**json.loads(text), "model": None, "added_tokens": None}
own = {sign for sign in json.dumps(kinds, ensure_ascii=False) if sign.isalnum()}
for sign in sorted(own | set(" aA0.\\n\\t\\r\u00e9\u0416\u4e2d_-'"))[:400]:
    for end in ("", "!", "\\0"):
        tokenizer.encode(sign * 300 + end, add_special_tokens=False)
tokenizer.encode("ab 1\\n" * 500, add_special_tokens=False)
"""
_LARGEST = 1 << 28  # bytes of a tokenizer
_PATTERN = re.compile(r'"pattern"\s*:\s*\{')


def _keep_marks(text: str, starts: list[int], ends: list[int]) -> None:
    """Extend tokens over the combining marks that WordPiece strips from their last letter.

    Without this, offsets of "é" written as two characters would cut the accent off a quote.
    """
    for number, following in enumerate([*starts[1:], len(text)][: len(ends)]):
        end = ends[number]
        while end < following and unicodedata.category(text[end]) == "Mn":
            end += 1
        ends[number] = end


def wordpiece_from_bert(path: Path) -> Tokenizer:
    """Return a BERT WordPiece tokenizer with our special tokens in its first unused slots.

    Vocabulary size and ids stay, so that pretrained embeddings fit. Raises ``TokenizerError`` when
    the file is no WordPiece JSON with unused slots.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        vocab: dict[str, int] = data["model"]["vocab"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TokenizerError(f"{path} is not a WordPiece tokenizers JSON file: {error}") from error
    renamed = {"[PAD]": PAD, "[unused0]": LANDMARK, "[unused1]": ANSWER, "[unused2]": END}
    if data["model"].get("type") != "WordPiece" or not renamed.keys() <= vocab.keys():
        raise TokenizerError(f"{path} is not a WordPiece vocabulary with unused slots")
    data["model"]["vocab"] = {renamed.get(token, token): i for token, i in vocab.items()}
    data.update(added_tokens=[], truncation=None, padding=None, post_processor=None)
    return Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(data)))
