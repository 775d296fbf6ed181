"""Readers of the project's data files: questions, their documents, summaries and corpora.

JSON lines, plain or xz, one record at a time. Training and evaluation read the same files with the
same functions; every record is checked, and a wrong one is named by file and line. Knows nothing
of models or metrics.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from drt_engine.errors import ConfigError
from drt_engine.text.sentences import Span
from drt_lab.data.json_lines import Record, read_records

Kind = Literal["extractive", "abstractive", "unanswerable"]
KINDS: tuple[Kind, ...] = ("extractive", "abstractive", "unanswerable")
_PLAIN_SUFFIXES = (".md", ".txt")


@dataclass(frozen=True)
class Question:
    """A question on one document; ``evidence`` are character spans of the document's text.

    ``type`` is the kind of answer it expects and ``yes_no`` the answer of a yes-or-no question;
    both are empty where the data does not tell.
    """

    id: str
    source: str
    license: str
    doc_id: str
    question: str
    answers: tuple[str, ...]
    evidence: tuple[Span, ...]
    kind: Kind
    type: str = ""
    yes_no: str = ""


@dataclass(frozen=True)
class QADocument:
    """A document that questions refer to; the title may be empty."""

    doc_id: str
    title: str
    text: str


@dataclass(frozen=True)
class SummaryItem:
    """A document with the summary that came with it."""

    id: str
    source: str
    license: str
    title: str
    document: str
    summary: str


@dataclass(frozen=True)
class CorpusDocument:
    """A whole document of a language-modelling corpus."""

    id: str
    title: str
    source: str
    license: str
    text: str


@dataclass(frozen=True)
class FileQuestion:
    """A question about a file; ``pattern`` matches a right answer, ``None``: the file has none."""

    file: str
    type: str
    question: str
    pattern: re.Pattern[str] | None


def read_questions(path: Path) -> Iterator[Question]:
    """Yield the questions of a file. Raises ``ConfigError`` naming file, line and fault."""
    return (_question(record) for record in read_records(path))


def read_documents(path: Path) -> Iterator[QADocument]:
    """Yield the documents of a file, or the one document that a .md or .txt file is.

    A plain file's ``doc_id`` and title are its name without the suffix; in a corpus file the
    ``doc_id`` is called ``id``. Raises ``ConfigError``.
    """
    if path.suffix.lower() in _PLAIN_SUFFIXES:
        yield _plain_document(path)
        return
    for record in read_records(path):
        yield QADocument(
            doc_id=record.string("id" if "doc_id" not in record.fields else "doc_id"),
            title=_optional(record, "title"),
            text=record.string("text"),
        )


def read_summaries(path: Path) -> Iterator[SummaryItem]:
    """Yield the summaries of a file. Raises ``ConfigError`` naming file, line and fault."""
    for record in read_records(path):
        yield SummaryItem(
            id=record.string("id"),
            source=record.string("source"),
            license=record.string("license", empty=True),
            title=record.string("title", empty=True),
            document=record.string("document"),
            summary=record.string("summary"),
        )


def read_corpus(path: Path) -> Iterator[CorpusDocument]:
    """Yield the documents of a corpus file. Raises ``ConfigError`` naming file, line and fault."""
    for record in read_records(path):
        yield CorpusDocument(
            id=record.string("id"),
            title=record.string("title", empty=True),
            source=record.string("source", empty=True),
            license=record.string("license", empty=True),
            text=record.string("text"),
        )


def read_texts(corpus: Sequence[Path]) -> Iterator[str]:
    """Yield only the texts of corpus files, empty ones too. Raises ``ConfigError``.

    Training reads them so: rows of tokens need no id or title.
    """
    for path in corpus:
        for record in read_records(path):
            yield record.string("text", empty=True)


def read_file_questions(path: Path) -> Iterator[FileQuestion]:
    """Yield questions about files: ``file``, ``type``, ``question`` and ``answer``.

    An answer is a regular expression or null. Raises ``ConfigError`` naming file, line and fault.
    """
    for record in read_records(path):
        answer = record.fields.get("answer")
        try:
            text = None if answer is None else record.string("answer")
            pattern = None if text is None else re.compile(text, re.IGNORECASE)
        except re.error as error:
            raise record.fault(f"'answer' is not a regular expression ({error})") from None
        yield FileQuestion(
            file=record.string("file"),
            type=record.string("type"),
            question=record.string("question"),
            pattern=pattern,
        )


def load_qa(
    question_files: Sequence[Path], document_files: Sequence[Path]
) -> tuple[list[Question], dict[str, QADocument]]:
    """Read questions and their documents whole and check each question against its document.

    A document may be in any of the document files. Returns the questions in the order of the files
    and the documents they refer to, by ``doc_id``. Raises ``ConfigError`` where a document is
    absent or given twice, or evidence is not what it should be.
    """
    documents_by_id: dict[str, QADocument] = {}
    for path in document_files:
        for document in read_documents(path):
            if document.doc_id in documents_by_id:
                raise ConfigError(
                    f"{path}: the document '{document.doc_id}' is given twice, "
                    "expected each doc_id once"
                )
            documents_by_id[document.doc_id] = document
    questions: list[Question] = []
    for path in question_files:
        for record in read_records(path):
            question = _question(record)
            _check_pair(record, question, documents_by_id)
            questions.append(question)
    used_ids = {question.doc_id for question in questions}
    return questions, {i: d for i, d in documents_by_id.items() if i in used_ids}


def _question(record: Record) -> Question:
    kind = record.string("kind")
    if kind not in KINDS:
        raise record.fault(f"the kind is '{kind}', expected one of {', '.join(KINDS)}")
    question = Question(
        id=record.string("id"),
        source=record.string("source"),
        license=record.string("license", empty=True),
        doc_id=record.string("doc_id"),
        question=record.string("question"),
        answers=record.strings("answers"),
        evidence=record.spans("evidence"),
        kind=kind,
        type=_optional(record, "type"),
        yes_no=_optional(record, "yes_no"),
    )
    if kind == "unanswerable" and (question.answers or question.evidence):
        raise record.fault("an unanswerable question has answers or evidence, expected neither")
    if kind != "unanswerable" and not question.answers:
        raise record.fault(f"the list 'answers' is empty, expected an answer as it is {kind}")
    return question


def _optional(record: Record, name: str) -> str:
    return record.string(name, empty=True) if name in record.fields else ""


def _check_pair(record: Record, question: Question, documents: Mapping[str, QADocument]) -> None:
    document = documents.get(question.doc_id)
    if document is None:
        raise record.fault(
            f"the document '{question.doc_id}' is not in the documents file, "
            "expected every doc_id there"
        )
    for start, end in question.evidence:
        if end > len(document.text):
            raise record.fault(
                f"the evidence ends at {end}, but the document '{question.doc_id}' has "
                f"{len(document.text)} characters; check that both files belong together"
            )
        quote = document.text[start:end]
        if question.kind == "extractive" and quote not in question.answers:
            raise record.fault(
                f"the evidence at {start} reads '{quote[:60]}', "
                "expected one of 'answers' character for character"
            )


def _plain_document(path: Path) -> QADocument:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 at byte {error.start}, expected UTF-8") from error
    if not text.strip():
        raise ConfigError(f"{path}: holds no words, expected a document")
    return QADocument(doc_id=path.stem, title=path.stem, text=text)
