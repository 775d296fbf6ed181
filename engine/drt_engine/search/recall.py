"""What the approximate index finds of what an exact scan does, with questions of the library.

Sentences are drawn from the library's texts and asked as a search asks its query, so that their
vectors are those of real questions more than landmarks would be.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from drt_engine.generate.decode import Decoder
from drt_engine.generate.prompt_run import feed_query_chunks, question_ids
from drt_engine.model.gca_layer import ChunkMemory
from drt_engine.model.scorer import LandmarkScorer
from drt_engine.results import IndexRecall
from drt_engine.retrieval.index import measure_recall, required_index
from drt_engine.retrieval.sources import Retrieval
from drt_engine.runtime import Runtime
from drt_engine.store.view import LibraryView
from drt_engine.text.sentences import sentence_spans

QUESTIONS = 32
_WORD = re.compile(r"\w+")  # marks alone, as in a table's rule, are no words to ask
_WORDS = range(5, 40)  # of a sentence that is asked


@dataclass
class _QueryNote:
    """A source that notes the query vector of the last landmark, and retrieves nothing."""

    query: Tensor | None = None

    def find(
        self,
        query: Tensor,
        scorer: LandmarkScorer,  # noqa: ARG002  the source's interface
        query_chunk: ChunkMemory,  # noqa: ARG002
    ) -> Retrieval | None:
        self.query = query.float().cpu()
        return None

    def add(self, memory: ChunkMemory) -> None:
        """Forget a closed chunk of the query."""


def index_recall(
    runtime: Runtime,
    view: LibraryView,
    *,
    questions: int = QUESTIONS,
    probes: Sequence[int] = (),
) -> list[IndexRecall]:
    """Measure recall and time of the index at several numbers of probed lists.

    The best chunks compared are as many as late interaction is given. Raises StoreError without an
    index or a sentence, CorruptStore for a damaged index.
    """
    config = runtime.config
    count = config.retrieved
    if runtime.model.scorer.late is not None:
        count = max(count, config.late_candidates)
    with view.snapshot() as snapshot, runtime.computing():
        required_index(snapshot)  # before questions are computed in vain
        queries = [query_vector(runtime, sentence) for sentence in _sentences(snapshot, questions)]
        return measure_recall(snapshot, queries, count=count, probes=probes)


def query_vector(runtime: Runtime, question: str) -> Tensor:
    """Return the query vector [E] of a question's last landmark, fp32."""
    note = _QueryNote()
    decoder = Decoder(runtime.model, note, dtype=runtime.dtype, retrieves_only=True)
    feed_query_chunks(decoder, question_ids(runtime, question))
    assert note.query is not None
    return note.query


def _sentences(view: LibraryView, count: int) -> Iterator[str]:
    """Yield sentences of chunks drawn at random, the same each time; fewer where there are few."""
    chance = random.Random(1)
    documents = view.documents()
    weights = [document.chunks for document in documents]
    for _ in range(4 * count if documents else 0):
        if not count:
            return
        document = chance.choices(documents, weights)[0]
        ordinal = chance.randrange(document.chunks)
        text = view.chunk_texts(document.id, range(ordinal, ordinal + 1))[0].text
        spans = [s for s in sentence_spans(text) if len(_WORD.findall(text[slice(*s)])) in _WORDS]
        if spans:
            count -= 1
            yield text[slice(*chance.choice(spans))]
