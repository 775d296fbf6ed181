"""A tiny random model with a tokenizer of its own, made once for all tests of a run.

It answers nonsense, by the same code and with the same promises as a trained one.
"""

from __future__ import annotations

import contextlib
import json
import re
import string
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from drt_engine.documents import Source
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.model.weights import save_model
from drt_engine.runtime import Runtime
from drt_engine.store import DocumentRow, Store
from drt_engine.text.tokenizer import SPECIAL_TOKENS, Tokenizer
from tests.engine.model.factories import make_model, small_like

MANUAL = """\
# Lighthouse manual

The lamp of the northern lighthouse burns whale oil. Captain Vera Holm keeps the key of the store.
A new keeper signs the log on the first Monday of May, and pays nine crowns for the coat.

## Fog

In fog the bell rings every forty seconds. If the bell is broken, the keeper fires the gun twice
an hour. Captain Holm wrote this rule after the wreck of the Marigold in 1871.

| Signal | Meaning |
| ------ | ------- |
| bell   | fog     |
| gun    | wreck   |

## Leave

The notice period for a keeper is thirty days. Nobody leaves the island in a storm, whatever the
contract says! The boat of the mainland comes on Fridays. It brings flour, letters and lamp oil.
"""

LETTERS = """\
Dear Jonas, the harvest of 1902 was poor. We sold two cows and bought a plough.
Your sister Anna teaches at the school in Bergen, where forty children learn to read.

The railway to the coast opens in spring. A ticket costs three crowns, and the journey takes a day.
Please write before the lake freezes. Your father mends nets and says that ice comes early.
"""


@cache
def model_folder(
    kind: str = "wordpiece", seed: int = 0, *, writes: bool = True, **changes: Any
) -> Path:
    """The folder of a model with the options of the shipped one; `kind` is its tokenizer's.

    One that `writes` has a decoder, which then also quotes, in place of the quote head.
    """
    tokenizer = make_tokenizer(kind)
    folder = _scratch() / f"model-{len(list(_scratch().iterdir()))}"
    changes = {"lower_layers": 1, **changes}  # a second one is the first again
    model = make_model(small_like(vocab=tokenizer.vocab_size, **changes), seed=seed)
    save_model(model, tokenizer, folder, dtype=_fp32())
    if writes:
        from drt_engine.decoder.saved import save_decoder
        from tests.engine.decoder.tiny import tiny_decoder, tiny_tokenizer

        save_decoder(tiny_decoder(), tiny_tokenizer(), folder / "decoder", dtype=_fp32())
    return folder


@cache
def runtime(kind: str = "wordpiece", **changes: Any) -> Runtime:
    """The loaded model, in fp32 on one thread."""
    folder = model_folder(kind, **changes)
    return Runtime.load(folder, device="cpu", threads=1, dtype="fp32")


def quoting(**changes: Any) -> Runtime:
    """The same model without a decoder: its quote head quotes."""
    return runtime(writes=False, **changes)


@cache
def make_tokenizer(kind: str) -> Tokenizer:
    """A lower-casing WordPiece like the shipped model's, or a byte-level BPE."""
    inner = _wordpiece() if kind == "wordpiece" else _bpe()
    data = json.loads(inner.to_str()) | {"added_tokens": []}
    return Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(data)))


def _wordpiece() -> tokenizers.Tokenizer:
    """Short words are tokens, long ones fall to pieces; its trainer would break ties at random."""
    known = re.findall(r"\w+|[^\w\s]", (MANUAL + LETTERS).lower())
    words = sorted({word for word in known if len(word) < 8})
    letters = sorted({*string.ascii_lowercase, *string.digits, *string.punctuation, "é"} - {*words})
    tails = [f"##{letter}" for letter in string.ascii_lowercase + string.digits + "é"]
    vocab = [*SPECIAL_TOKENS, "[UNK]", *words, *letters, *tails, "##ing", "##er", "##ed", "##tion"]
    inner = tokenizers.Tokenizer(
        models.WordPiece({token: i for i, token in enumerate(vocab)}, unk_token="[UNK]")
    )
    inner.normalizer = normalizers.BertNormalizer()
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    return inner


def _bpe() -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    inner.train_from_iterator([MANUAL, LETTERS], trainer)
    return inner


@contextlib.contextmanager
def library(path: Path, model: Runtime | None = None, **options: Any) -> Iterator[Store]:
    """The library at `path`, open for a model, which must be whole when it is closed.

    It does not wait for the disk: only a power cut would tell the difference.
    """
    model = model or runtime()
    with (
        mock.patch("os.fsync", lambda descriptor: None),
        Store.open(
            path, fingerprint=model.fingerprint, layout=model.layout, create=True, **options
        ) as store,
    ):
        store._database._open().execute("PRAGMA synchronous = OFF")
        yield store
        assert errors(store) == []


def read(store: Store, file: Path, model: Runtime | None = None) -> DocumentRow:
    """Read a file into a library."""
    return ingest_source(model or runtime(), store, Source.from_path(file))[0]


def read_text(store: Store, folder: Path, *, name: str, text: str) -> DocumentRow:
    """Write a file and read it."""
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return read(store, file)


def errors(store: Store) -> list[str]:
    """What `check` finds, without the harmless notes."""
    return [f"{f.kind} {f.where}: {f.message}" for f in store.check() if f.severity == "error"]


def text_of(store: Store, row: DocumentRow) -> str:
    """A document's whole text."""
    return "".join(store.iter_text(row.id))


@cache
def _scratch() -> Path:
    return Path(_keep(tempfile.TemporaryDirectory(prefix="drt-test-")).name)


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


def _keep(folder: tempfile.TemporaryDirectory[str]) -> tempfile.TemporaryDirectory[str]:
    _KEPT.append(folder)  # until the process ends
    return folder


def _fp32() -> Any:
    import torch

    return torch.float32
