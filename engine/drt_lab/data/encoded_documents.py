"""Documents of files as token ids, a group of them at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from drt_engine.text.tokenizer import Encoding, Tokenizer
from drt_lab.data.schema import QADocument, read_documents

_BATCH_CHARACTERS = 2_000_000  # tokenised at a time, so that offsets never fill the memory


def encoded_documents(
    paths: Sequence[Path], tokenizer: Tokenizer, *, wanted: Callable[[str], bool]
) -> Iterator[tuple[QADocument, Encoding]]:
    """Yield the documents of files with their tokens: those whose ids are ``wanted``, each once.

    Raises ``ConfigError`` naming file, line and fault.
    """
    seen: set[str] = set()
    documents = (document for path in paths for document in read_documents(path))
    for group in _groups(document for document in documents if wanted(document.doc_id)):
        encodings = tokenizer.encode_batch([document.text for document in group])
        for document, encoding in zip(group, encodings, strict=True):
            if len(encoding) and document.doc_id not in seen:
                seen.add(document.doc_id)
                yield document, encoding


def _groups(documents: Iterable[QADocument]) -> Iterator[list[QADocument]]:
    """Collect documents until their texts are long enough to be tokenised together."""
    group: list[QADocument] = []
    for document in documents:
        group.append(document)
        if sum(len(d.text) for d in group) >= _BATCH_CHARACTERS:
            yield group
            group = []
    if group:
        yield group
