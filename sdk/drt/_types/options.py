"""The options of questions, searches and summaries, as keyword arguments take them."""

import datetime
from collections.abc import Sequence
from typing import Literal, TypedDict

from .documents import DocumentInfo

AnswerMode = Literal["quote", "free"]
Retriever = Literal["hybrid", "landmark", "lexical"]
SummaryMode = Literal["auto", "extractive", "abstractive"]
SummaryLength = Literal["short", "medium", "long"]


class PartOptions(TypedDict, total=False):
    """Which part of a library is asked, searched or summarised: what all of them leave.

    pages: only these pages: the first and the last.
    types: only documents of these formats, by name or suffix: "pdf", ".md".
    tags: only documents that have all of these tags.
    """

    pages: tuple[int, int] | None
    types: str | Sequence[str] | None
    tags: str | Sequence[str] | None


class FilterOptions(PartOptions, total=False):
    """Which part of a library is asked or searched: ``PartOptions``, and three more.

    documents: only these, by id, title, source or ``DocumentInfo``.
    section: only sections whose name, or that of a section around them, begins with this.
    since: only documents of this day, month or year (YYYY-MM-DD) or later: by the date that they
        name, or, where they name none with certainty, by the day when they were read.
    """

    documents: str | DocumentInfo | Sequence[str | DocumentInfo] | None
    section: str | None
    since: str | datetime.date | None


class AskOptions(FilterOptions, total=False):
    """Options of a question, the same for ``Assistant.ask``, ``stream``, ``trace`` and sessions.

    Those of ``FilterOptions``, and:
    mode: "quote" answers with spans of the documents, "free" lets the decoder write.
    top_k: chunks retrieved at a time, 1 to 64; the model's own number by default.
    retriever: how to find candidates: "landmark", "lexical" (BM25) or "hybrid" (both).
    reread: whether to run the reader pass over retrieved chunks, or use chunk memory alone.
    threshold: confidence from which an answer counts as found; the model's own by default.
    max_tokens: longest text of free mode.
    """

    mode: AnswerMode
    top_k: int | None
    retriever: Retriever
    reread: bool
    threshold: float | None
    max_tokens: int


class SearchOptions(FilterOptions, total=False):
    """Options of ``Assistant.search``: those of ``FilterOptions``, and two more.

    top_k: the largest number of passages, 1 to 50; 10 by default.
    retriever: how to find them: "landmark", "lexical" (BM25, loads no model) or "hybrid" (both).
    """

    top_k: int
    retriever: Retriever
