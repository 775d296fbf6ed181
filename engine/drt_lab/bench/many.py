"""A library of many small documents and the files they were read from, with a tiny random model.

What grows with the number of documents is the catalogue and the files, not the model: the records
of most documents are made up, as in made_up.py, and only what is timed is read by the model.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import torch

from drt_engine.config.model import EncoderConfig, preset
from drt_engine.documents import Source
from drt_engine.errors import ConfigError
from drt_engine.ingest.identity import file_digest
from drt_engine.model.drt import DRT
from drt_engine.model.folder import TOKENIZER, model_folder
from drt_engine.model.weights import save_model
from drt_engine.runtime import Runtime
from drt_engine.store import ChunkText, Store
from drt_engine.store.filesystem.disk import Disk
from drt_engine.store.identity import TextHash
from drt_engine.text.tokenizer import Tokenizer
from drt_lab.bench.made_up import MadeUp

_FOLDER_FILES = 1_000  # of one folder
_CHUNK = 64  # tokens, as the shipped model has
_CHUNK_CHARACTERS = 320
_LEAST_SENTENCES, _SPREAD = 10, 5  # of a document


def tiny_runtime(folder: Path, model: str | Path) -> Runtime:
    """Make and load a random model of width 32 with the tokenizer of ``model``."""
    tokenizer = Tokenizer.load(model_folder(model) / TOKENIZER)
    config = preset(
        "drt-tiny",
        vocab=tokenizer.vocab_size,
        chunk=_CHUNK,
        window=_CHUNK,
        encoder=EncoderConfig(kind="bert", layers=1, heads=4, mlp=48, positions=_CHUNK + 2),
        landmark_pooling="mean",
        landmark_query="state+landmark",
        normalised_scores=True,
        lexical_scores=True,
        late_interaction=True,
        gca_output="residual",
        question_states=True,
        quote_head=True,
        reread=True,
        reread_relevance=True,
        reread_layers=1,
    )
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        save_model(DRT(config).eval(), tokenizer, folder, dtype=torch.float32)
    return Runtime.load(folder, device="cpu", threads=1, dtype="fp32")


class SmallTexts:
    """Texts of about 1 to 5 kB, small ones more often, of made-up words in sentences."""

    def __init__(self, runtime: Runtime, seed: int) -> None:
        self.made_up = MadeUp(runtime, seed=seed)
        self._chance = random.Random(seed)

    def text(self, number: int) -> str:
        """Return a text that no other number has."""
        sentences = round(_LEAST_SENTENCES * _SPREAD ** self._chance.random())
        lengths = (self._chance.randrange(8, 25) for _ in range(sentences))
        said = (self.made_up.text(length).strip().capitalize() for length in lengths)
        return f"Document {number}. {'. '.join(said)}.\n"


def small_file(files: Path, number: int) -> Path:
    """Return where the file of a document is."""
    return files / f"{number // _FOLDER_FILES:04}" / f"{number}.txt"


def make_many(runtime: Runtime, library: Path, files: Path, count: int) -> int:
    """Make the files of ``count`` documents and their library; go on with one that was begun.

    Returns how many documents were made. Raises ``ConfigError`` for a library with more. Nothing
    waits for the disk: what a power cut leaves is to be removed.
    """
    with Store.open(
        library,
        fingerprint=runtime.fingerprint,
        layout=runtime.layout,
        vocabulary=runtime.config.vocab,
        create=True,
        disk=_Unsynced(),
    ) as store:
        with store.catalog.database.reading() as connection:
            connection.execute("PRAGMA synchronous = OFF")
        for row in store.partial_documents():
            store.remove_document(row.id)
        present = store.count_documents()
        if present > count:
            raise ConfigError(
                f"the library at {library} has {present:,} documents, expected {count:,}: it is of"
                " another benchmark, remove it"
            )
        texts = SmallTexts(runtime, seed=present)
        for number in range(present, count):
            _make(store, texts.made_up, small_file(files, number), texts.text(number))
    return count - present


class _Unsynced(Disk):
    """Files that are not waited for."""

    def sync(self, descriptor: int, path: Path) -> None:
        """Leave it to the system when a file's bytes are written."""

    def sync_folder(self, path: Path) -> None:
        """Leave it to the system when a folder's names are written."""


def _make(store: Store, made_up: MadeUp, file: Path, text: str) -> None:
    """Write a file and its document, as reading it would, but for the model's numbers."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    pieces = list(_pieces(text))
    text_hash = TextHash()
    text_hash.update(piece.text for piece in pieces)
    source = Source.from_path(file)
    with store.begin_document(
        document_id=text_hash.document_id,
        title=file.name,
        source=source.location,
        media_type="text/plain",
    ) as writer:
        writer.append(made_up.batch(len(pieces)), pieces)
        writer.finish(places=[(0, None, None)])
    digest = file_digest(source)
    assert digest is not None
    store.note_source(source.location, digest, text_hash.document_id)


def _pieces(text: str) -> Iterator[ChunkText]:
    """Yield a text cut at spaces, each piece about a chunk."""
    start = 0
    while start < len(text):
        end = text.find(" ", start + _CHUNK_CHARACTERS) + 1
        if not end or len(text) - end < _CHUNK_CHARACTERS // 2:
            end = len(text)
        yield ChunkText(start, text[start:end])
        start = end
