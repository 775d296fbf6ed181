"""Abstractive summaries: text written by the decoder, kept where the documents support it."""

from __future__ import annotations

from collections.abc import Sequence

from drt_engine.answer.support import Evidence
from drt_engine.generate.memory_writer import rewrite_from_memory
from drt_engine.generate.passage_memory import PassageReader, writer_of
from drt_engine.generate.prompt_run import open_prompt
from drt_engine.retrieval.library import SearchOptions
from drt_engine.runtime import Runtime
from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView
from drt_engine.summary.extractive import candidates_of_documents, extractive_summary
from drt_engine.summary.options import SummaryOptions
from drt_engine.summary.result import SummaryResult
from drt_engine.summary.selection import pick_sentences

_LONGEST = 96  # tokens of a written sentence
_LONGEST_PROMPT = 60  # words


def abstractive_summary(
    runtime: Runtime, view: LibraryView, documents: Sequence[DocumentRow], options: SummaryOptions
) -> SummaryResult:
    """Return text that the decoder writes about the sentences an extract would take.

    Each of them is rewritten (extract, then rewrite: arXiv 1805.11080). What no retrieved sentence
    supports is left out; where nothing is left, the summary is extractive. Raises as
    ``extractive_summary`` does, ``QuestionError`` for a focus without words or too long, and
    ``ConfigError`` for a model without a decoder.
    """
    rows = {row.id: row for row in documents}
    evidence = Evidence(view, rows.__getitem__)
    sentences = _rewritten(runtime, view, documents, options, writer_of(runtime), evidence)
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
        prompt = " ".join(text.split()[:_LONGEST_PROMPT])
        run = open_prompt(runtime, view, prompt, how, what="focus")
        written = rewrite_from_memory(decoder, text, run.passages, max_tokens=_LONGEST)
        evidence.add(run.passages)
        chunks = [p.row.id for p in run.passages if p.row.start < picked.end]
        if written and written not in sentences and evidence.supports(written, chunks):
            sentences.append(written)
    return sentences
