"""Evaluation files are streamed and checked; a fault is named by file and line."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from drt_engine.errors import ConfigError
from drt_lab.data.schema import (
    CorpusDocument,
    QADocument,
    Question,
    SummaryItem,
    load_qa,
    read_corpus,
    read_documents,
    read_questions,
    read_summaries,
)
from tests.tables import each_row

_DOCUMENT = {"doc_id": "d/1", "title": "", "text": "The depot closes at nine."}
_QUESTION = {
    "id": "q1",
    "source": "Own",
    "license": "CC0",
    "doc_id": "d/1",
    "question": "When does the depot close?",
    "answers": ["nine"],
    "evidence": [[20, 24]],
    "kind": "extractive",
}
_UNANSWERABLE = {"kind": "unanswerable", "answers": [], "evidence": []}
_SUMMARY = {
    "id": "s",
    "source": "X",
    "license": "",
    "title": "T",
    "document": "Long.",
    "summary": "Short.",
}


def _write(path: Path, *records: object) -> Path:
    text = "".join(json.dumps(record) + "\n" for record in records)
    path.write_bytes(lzma.compress(text.encode()) if path.suffix == ".xz" else text.encode())
    return path


def _question(**changes: object) -> dict[str, Any]:
    return {**_QUESTION, **changes}


@pytest.mark.parametrize("name", ["q.jsonl", "q.jsonl.xz"])
def test_questions_and_documents_plain_and_xz(tmp_path: Path, name: str) -> None:
    questions = _write(tmp_path / name, _QUESTION, _question(**_UNANSWERABLE))
    documents = _write(tmp_path / f"docs-{name}", _DOCUMENT, {**_DOCUMENT, "doc_id": "other"})
    found, by_id = load_qa([questions], [documents])
    assert found[0] == Question(
        id="q1",
        source="Own",
        license="CC0",
        doc_id="d/1",
        question="When does the depot close?",
        answers=("nine",),
        evidence=((20, 24),),
        kind="extractive",
    )
    assert found[1].answers == () and found[1].kind == "unanswerable"
    assert by_id == {"d/1": QADocument("d/1", "", "The depot closes at nine.")}


@each_row("suffix", [".md", ".txt", ".MD"])
def test_a_plain_file_is_one_document(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"hand.book{suffix}"
    path.write_bytes("\ufeff# Café\r\nText".encode())
    assert list(read_documents(path)) == [QADocument("hand.book", "hand.book", "# Café\nText")]


def test_summaries_and_corpus(tmp_path: Path) -> None:
    assert list(read_summaries(_write(tmp_path / "s.jsonl", _SUMMARY))) == [
        SummaryItem("s", "X", "", "T", "Long.", "Short.")
    ]
    record = {"id": "c", "title": "T", "source": "o/n:p", "license": "MIT", "text": "Words."}
    assert list(read_corpus(_write(tmp_path / "c.jsonl.xz", record))) == [
        CorpusDocument("c", "T", "o/n:p", "MIT", "Words.")
    ]


def test_reading_streams(tmp_path: Path) -> None:
    path = _write(tmp_path / "q.jsonl", _QUESTION, _QUESTION, "a fault nobody reaches")
    assert [question.id for question in islice(read_questions(path), 2)] == ["q1", "q1"]


def test_blank_lines_count_but_hold_nothing(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps(_QUESTION) + "\n\n" + json.dumps(_question(kind="odd")) + "\n")
    with pytest.raises(ConfigError, match=r"q\.jsonl, line 3: the kind is 'odd', expected one of"):
        list(read_questions(path))


@each_row(
    ("changes", "message"),
    [
        ({"question": 7}, "'question' holds the number 7, expected a string"),
        ({"question": " "}, "'question' holds an empty string"),
        ({"question": "\ud800"}, "half a surrogate"),
        ({"answers": "nine"}, "'answers' is a string, expected a list"),
        ({"answers": ["nine", None]}, "'answers' holds null, expected a string"),
        ({"answers": []}, "'answers' is empty, expected an answer as it is extractive"),
        ({"evidence": [[3, 3]]}, r"holds the list \[3, 3\], expected pairs"),
        ({"evidence": [[-1, 3]]}, "expected pairs"),
        ({"evidence": [[True, 3]]}, "expected pairs"),
        ({"evidence": [20, 24]}, "the number 20, expected pairs"),
        ({"evidence": {}}, "'evidence' is an object, expected a list"),
        ({"kind": "unanswerable"}, "has answers or evidence, expected neither"),
        ({"doc_id": "gone"}, "'gone' is not in the documents file"),
        ({"evidence": [[20, 99]]}, "ends at 99, but the document 'd/1' has 25 characters"),
        ({"evidence": [[0, 3]]}, "at 0 reads 'The', expected one of 'answers'"),
    ],
)
def test_wrong_questions_are_named(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    questions = _write(tmp_path / "q.jsonl", _QUESTION, _question(**changes))
    documents = _write(tmp_path / "d.jsonl", _DOCUMENT)
    with pytest.raises(ConfigError, match=r"q\.jsonl, line 2: .*" + message):
        load_qa([questions], [documents])


def test_missing_fields_and_wrong_objects_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"line 1: the field 'text' is missing, found doc_id"):
        list(read_documents(_write(tmp_path / "d.jsonl", {"doc_id": "d", "title": ""})))
    with pytest.raises(ConfigError, match="holds the list .*, expected a JSON object"):
        list(read_corpus(_write(tmp_path / "c.jsonl", [1])))
    doubled = _write(tmp_path / "twice.jsonl", _DOCUMENT, _DOCUMENT)
    with pytest.raises(ConfigError, match="'d/1' is given twice"):
        load_qa([_write(tmp_path / "q.jsonl", _QUESTION)], [doubled])


def _truncated_xz(path: Path) -> None:
    path.write_bytes(lzma.compress(json.dumps(_QUESTION).encode())[:-12])


@each_row(
    ("name", "make", "message"),
    [
        ("a.jsonl", lambda path: None, "a.jsonl: cannot be read .No such file"),
        ("b.csv", lambda path: path.write_text("x"), "unknown type, expected a .jsonl"),
        ("c.jsonl", lambda path: path.write_text("{"), "c.jsonl, line 1: is not JSON"),
        ("d.jsonl", lambda path: path.write_bytes(b"\xff{}"), "line 1: is not UTF-8"),
        ("e.jsonl.xz", lambda path: path.write_text("{}"), "e.jsonl.xz: not a complete xz file"),
        ("f.jsonl.xz", _truncated_xz, "f.jsonl.xz: not a complete xz file"),
        ("g.jsonl", lambda path: path.mkdir(), "g.jsonl: cannot be read"),
    ],
)
def test_broken_files_are_named(
    tmp_path: Path, name: str, make: Callable[[Path], object], message: str
) -> None:
    make(tmp_path / name)
    with pytest.raises(ConfigError, match=message):
        list(read_questions(tmp_path / name))


@pytest.mark.parametrize(
    ("content", "message"), [(b" \n", "holds no words"), (b"ab\xff", "not UTF-8 at byte 2")]
)
def test_broken_plain_documents_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "d.txt"
    with pytest.raises(ConfigError, match="cannot be read"):
        list(read_documents(path))
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        list(read_documents(path))
