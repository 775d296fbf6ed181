"""Abstractive summaries: text written by the decoder, kept where the documents support it."""

from __future__ import annotations

from collections.abc import Sequence

from drt_engine.answer.support import Evidence
from drt_engine.generate.memory_writer import rewrite_from_memory
from drt_engine.generate.passage_memory import PassageReader, passage_reader
from drt_engine.generate.prompt_run import open_prompt
from drt_engine.generate.sampling import write
from drt_engine.retrieval.library import SearchOptions
from drt_engine.runtime import Runtime
from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView
from drt_engine.summary.extractive import candidates_of_documents, extractive_summary
from drt_engine.summary.options import SummaryOptions
from drt_engine.summary.result import SummaryResult
from drt_engine.summary.selection import pick_sentences
from drt_engine.text.sentences import split_sentences

_LONGEST_PART = 96  # tokens written for one prompt
_WORDS_PER_TOPIC = 50  # of the budget: one topic, and so one prompt, for each
_LONGEST_TOPIC = 60  # words, for a prompt has few tokens
_QUESTION = "What is this text about?"


def abstractive_summary(
    runtime: Runtime, view: LibraryView, documents: Sequence[DocumentRow], options: SummaryOptions
) -> SummaryResult:
    """Return text that the decoder writes about the sentences an extract would take.

    A model with a decoder rewrites each of them (extract, then rewrite: arXiv 1805.11080), another
    writes on from the first ones. Written sentences that no retrieved sentence supports are left
    out; where none is left, the summary is extractive. Raises as ``extractive_summary`` does, and
    ``QuestionError`` for a focus without words or too long.
    """
    rows = {row.id: row for row in documents}
    evidence = Evidence(view, rows.__getitem__)
    decoder = passage_reader(runtime)
    if decoder is not None:
        sentences = _rewritten(runtime, view, documents, options, decoder, evidence)
    else:
        sentences = _written(runtime, view, documents, options, evidence)
    if not sentences:
        return extractive_summary(runtime, view, documents, options)
    tokens = sum(document.tokens for document in documents)
    return SummaryResult(" ".join(sentences), "abstractive", evidence.citations, tokens)


def _rewritten(
    runtime: Runtime,
    view: LibraryView,
    documents: Sequence[DocumentRow],
    options: SummaryOptions,
    decoder: PassageReader,
    evidence: Evidence,
) -> list[str]:
    """Return the supported ones of the extract's sentences as the decoder rewrites them."""
    candidates = candidates_of_documents(runtime, view, documents, options)
    sentences: list[str] = []
    for picked in pick_sentences(candidates, options.budget):
        document = documents[picked.document]
        text = " ".join(view.text(document.id, picked.start, picked.end).split())
        how = SearchOptions(document_ids=(document.id,), reader_pass=False)
        run = open_prompt(runtime, view, _shortened(text), how, what="focus")
        written = rewrite_from_memory(decoder, text, run.passages, max_tokens=_LONGEST_PART)
        evidence.add(run.passages)
        chunks = [p.row.id for p in run.passages if p.row.start < picked.end]
        if written and written not in sentences and evidence.supports(written, chunks):
            sentences.append(written)
    return sentences


def _written(
    runtime: Runtime,
    view: LibraryView,
    documents: Sequence[DocumentRow],
    options: SummaryOptions,
    evidence: Evidence,
) -> list[str]:
    """Return the supported sentences that a model without a decoder of its own writes."""
    question = options.focus or _QUESTION
    sentences: list[str] = []
    for topic in _topics(runtime, view, documents, options):
        words_left = options.budget - sum(len(sentence.split()) for sentence in sentences)
        if words_left <= 0:
            break
        prompt = f"{question} {topic}"
        ids = tuple(row.id for row in documents)
        sentences += _write_part(
            runtime, view, prompt, document_ids=ids, words=words_left, evidence=evidence
        )
    return sentences


def _topics(
    runtime: Runtime, view: LibraryView, documents: Sequence[DocumentRow], options: SummaryOptions
) -> list[str]:
    """Return the first sentences of an extractive summary, each the topic of a written part."""
    candidates = candidates_of_documents(runtime, view, documents, options)
    picked = pick_sentences(candidates, options.budget)
    count = max(1, options.budget // _WORDS_PER_TOPIC)
    texts = [view.text(documents[c.document].id, c.start, c.end) for c in picked[:count]]
    return [_shortened(text) for text in texts]


def _shortened(text: str) -> str:
    """Return as many words of a text as a prompt takes."""
    return " ".join(text.split()[:_LONGEST_TOPIC])


def _write_part(
    runtime: Runtime,
    view: LibraryView,
    prompt: str,
    *,
    document_ids: tuple[str, ...],
    words: int,
    evidence: Evidence,
) -> list[str]:
    """Write up to ``words`` words for a prompt; return the sentences that ``evidence`` supports."""
    run = open_prompt(runtime, view, prompt, SearchOptions(document_ids=document_ids), what="focus")
    passage_texts = [passage.row.text for passage in run.passages]
    # The model has learnt that what follows a prompt is mostly the few words of an answer.
    longest = min(_LONGEST_PART, 2 * words)
    pieces = write(
        runtime,
        run.decoder,
        run.answer_state,
        sources=passage_texts,
        max_tokens=longest,
        min_tokens=longest // 2,
    )
    text = "".join(pieces)
    for passages in run.source.passages:
        evidence.add(passages)
    supported: list[str] = []
    for sentence in split_sentences(text):
        words -= len(sentence.text.split())
        if words >= 0 and evidence.supports(sentence.text):
            supported.append(sentence.text)
    return supported
