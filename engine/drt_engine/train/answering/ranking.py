"""What asking would retrieve for each training question, found once and kept in a file.

The reader is asked to choose among what the whole search ranks best: landmarks, BM25 and late
interaction. Such passages are harder to tell apart than those of BM25 alone, and their retrieval
probabilities count when spans are compared, so the reader is trained with both.

The file holds JSON lines: what was searched, then one line for each collection of documents. An
interrupted search goes on behind the last whole line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_engine.files import lock
from drt_engine.ingest.temporary import library_of
from drt_engine.progress import report
from drt_engine.retrieval.library import SearchOptions
from drt_engine.runtime import Runtime
from drt_engine.search.by_model import search_by_model
from drt_engine.store import Store
from drt_engine.train.answering.passages import (
    Collection,
    PassageData,
    PassageQuestion,
    RankedChunk,
)

_RANKS = 24  # kept for each question; evidence and passages with the answer are left out of them
_REPORT_EVERY = 50  # collections

Ranks = dict[int, list[RankedChunk]]  # by the number of the question


def add_ranks(data: PassageData, runtime: Runtime, path: Path) -> None:
    """Give every question of ``data`` its best chunks from ``path``, once they are all there.

    Raises ``ConfigError`` where the file is of other questions, documents or another model.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file, _locked(file):
        rows = _whole_lines(file)
        header = {"searched": _digest(data, runtime)}
        if not rows:
            _append(file, header)
        elif rows[0] != header:
            raise ConfigError(
                f"{path} holds the ranks of other questions, documents or another model; remove "
                "it, or name another file as passages.ranks"
            )
        ranks = {row["collection"]: _parsed(row["ranks"]) for row in rows[1:]}
        questions = data.questions_by_collection()
        missing = [number for number in sorted(questions) if number not in ranks]
        for count, number in enumerate(missing):
            if count % _REPORT_EVERY == 0:
                report(f"searching for training questions: {count} of {len(missing)} collections")
            collection = data.collections[number]
            ranks[number] = _of_collection(data, runtime, collection, questions[number])
            _append(file, {"collection": number, "ranks": ranks[number]})
    for of_collection in ranks.values():
        for question, ranked in of_collection.items():
            data.questions[question] = replace(data.questions[question], ranked=tuple(ranked))


def _of_collection(
    data: PassageData, runtime: Runtime, collection: Collection, questions: Sequence[int]
) -> Ranks:
    """Search a library of the collection's documents for their questions, given by number."""
    texts = ["".join(data.documents[number].chunks) for number in collection.documents]
    name = f"collection of document {collection.documents[0]}"
    try:
        with library_of(runtime, texts, name=name) as (store, rows):
            numbers = dict(zip((row.id for row in rows), collection.documents, strict=True))
            return {
                number: _best(data.questions[number], runtime, store, numbers)
                for number in questions
            }
    except ConfigError as error:  # a text that reading would change: BM25 finds its passages
        report(str(error))
        return {}


def _best(
    question: PassageQuestion, runtime: Runtime, store: Store, numbers: dict[str, int]
) -> list[RankedChunk]:
    """Return the best chunks with their log-probabilities among as many as asking retrieves."""
    options = SearchOptions(reader_pass=False)
    with runtime.computing(), store.snapshot() as view:
        chunks = search_by_model(runtime, view, question.text, options).chunks(_RANKS)
    scores = torch.tensor([chunk.score for chunk in chunks])
    log_probability: Tensor = scores - scores[: runtime.config.retrieved].logsumexp(dim=0)
    return [
        RankedChunk(numbers[chunk.row.document_id], chunk.row.ordinal, round(value, 3))
        for chunk, value in zip(chunks, log_probability.tolist(), strict=True)
    ]


def _digest(data: PassageData, runtime: Runtime) -> str:
    """Return a digest of all that the ranks depend on."""
    digest = hashlib.sha256(runtime.fingerprint.encode())
    for question in data.questions:
        digest.update(f"{question.document} {question.text}\n".encode())
    for collection in data.collections:
        sizes = [len(data.documents[number].ids) for number in collection.documents]
        digest.update(f"{collection.documents} {sizes}\n".encode())
    return digest.hexdigest()


def _parsed(ranks: dict[str, list[list[Any]]]) -> Ranks:
    return {
        int(number): [RankedChunk(*values) for values in best] for number, best in ranks.items()
    }


def _whole_lines(file: BinaryIO) -> list[dict[str, Any]]:
    """Return the lines of the file, and cut off one that an interruption left without its end."""
    file.seek(0)
    content = file.read()
    file.truncate(content.rfind(b"\n") + 1)
    return [json.loads(line) for line in content.splitlines(keepends=True) if line[-1:] == b"\n"]


def _append(file: BinaryIO, row: dict[str, Any]) -> None:
    file.write(json.dumps(row).encode() + b"\n")
    file.flush()


@contextmanager
def _locked(file: BinaryIO) -> Iterator[None]:
    """Let one process search; the others wait and read what it wrote."""
    lock(file, wait=True)
    yield
