"""What asking would retrieve for each training question, found once and kept in a file.

The reader is asked to choose among what the whole search ranks best: landmarks, BM25 and late
interaction. Such passages are harder to tell apart than those of BM25 alone, and their retrieval
probabilities count when spans are compared, so the reader is trained with both.

The file holds JSON lines: whose search it was, then one line for each collection of documents,
known by its texts. Questions and documents that are added to the training data are searched when
they are needed, and an interrupted search goes on behind the last whole line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
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
from drt_lab.train.answering.passages import (
    Collection,
    PassageData,
    RankedChunk,
)

_RANKS = 24  # kept for each question; evidence and passages with the answer are left out of them
_REPORT_EVERY = 50  # collections

# The best chunks by the text of the question. Here documents are numbered inside their collection.
Ranks = dict[str, list[RankedChunk]]


def add_ranks(data: PassageData, runtime: Runtime, path: Path) -> None:
    """Give the questions of ``data`` their best chunks from ``path``, once they are all there.

    Collections of more chunks than ``ranks_longest``, and questions of other sources than
    ``ranks_of``, are left to BM25. Raises ``ConfigError`` where
    the file is of another model.
    """
    longest, sources = data.config.ranks_longest, data.config.ranks_of
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file, _locked(file):
        rows = _whole_lines(file)
        header = {"searched": runtime.fingerprint}
        if not rows:
            _append(file, header)
        elif rows[0] != header:
            raise ConfigError(
                f"{path} holds the ranks of another model; remove it, or name another file as "
                "passages.ranks"
            )
        ranks = {row["collection"]: _parsed(row["ranks"]) for row in rows[1:]}
        wanted: list[tuple[Collection, str, list[int]]] = []
        for collection_number, drawn in sorted(data.questions_by_collection().items()):
            collection = data.collections[collection_number]
            questions = [q for q in drawn if not sources or data.questions[q].source in sources]
            if questions and (not longest or collection.num_chunks <= longest):
                wanted.append((collection, _digest(data, collection), questions))
        missing = [
            (collection, digest, questions)
            for collection, digest, questions in wanted
            if any(data.questions[q].text not in ranks.get(digest, {}) for q in questions)
        ]
        for count, (collection, digest, questions) in enumerate(missing):
            if count % _REPORT_EVERY == 0:
                report(f"searching for training questions: {count} of {len(missing)} collections")
            asked = {data.questions[number].text for number in questions}
            ranks[digest] = _of_collection(data, runtime, collection, asked)
            _append(file, {"collection": digest, "ranks": ranks[digest]})
    for collection, digest, questions in wanted:
        for number in questions:
            question = data.questions[number]
            ranked = tuple(
                chunk._replace(document=collection.documents[chunk.document])
                for chunk in ranks[digest][question.text]
            )
            data.questions[number] = replace(question, ranked=ranked)


def _of_collection(
    data: PassageData, runtime: Runtime, collection: Collection, questions: set[str]
) -> Ranks:
    """Search a library of the collection's documents for questions."""
    texts = _texts(data, collection)
    name = f"collection of document {collection.documents[0]}"
    try:
        with library_of(runtime, texts, name=name) as (store, rows):
            places = {row.id: place for place, row in enumerate(rows)}
            return {text: _best(text, runtime, store, places) for text in sorted(questions)}
    except ConfigError as error:  # a text that reading would change: BM25 finds its passages
        report(str(error))
        return dict.fromkeys(questions, [])


def _texts(data: PassageData, collection: Collection) -> list[str]:
    return ["".join(data.documents[number].chunks) for number in collection.documents]


def _best(
    question: str, runtime: Runtime, store: Store, places: dict[str, int]
) -> list[RankedChunk]:
    """Return the best chunks with their log-probabilities among as many as asking retrieves."""
    options = SearchOptions(reader_pass=False)
    with runtime.computing(), store.snapshot() as view:
        chunks = search_by_model(runtime, view, question, options).chunks(_RANKS)
    scores = torch.tensor([chunk.score for chunk in chunks])
    log_probability: Tensor = scores - scores[: runtime.config.retrieved].logsumexp(dim=0)
    return [
        RankedChunk(places[chunk.row.document_id], chunk.row.ordinal, round(value, 3))
        for chunk, value in zip(chunks, log_probability.tolist(), strict=True)
    ]


def _digest(data: PassageData, collection: Collection) -> str:
    """Return a digest of the texts that are searched together."""
    digest = hashlib.sha256()
    for text in _texts(data, collection):
        digest.update(hashlib.sha256(text.encode()).digest())
    return digest.hexdigest()


def _parsed(ranks: dict[str, list[list[Any]]]) -> Ranks:
    return {text: [RankedChunk(*values) for values in best] for text, best in ranks.items()}


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
