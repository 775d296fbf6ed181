"""Corpus and question files made by hand, in the schema of the project's data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ARTICLE = (
    "The notice period is thirty days. The keeper signs the log each night. Before the harbour "
    "freezes, the pilot counts the boats and tells the keeper. Nobody may leave after dark. "
    "The café opens at seven and closes when the bell rings. Spare rope lies in the blue shed."
)
SHORT = "A short note: the bell rings at nine."


def _question(number: int, doc: str, question: str, answer: str | None) -> dict[str, Any]:
    text = {"article": ARTICLE, "short": SHORT}[doc]
    spans = []
    if answer is not None:
        at = text.find(answer)
        while at >= 0:
            spans.append([at, at + len(answer)])
            at = text.find(answer, at + 1)
    return {
        "id": str(number),
        "source": doc,
        "license": "ours",
        "doc_id": doc,
        "question": question,
        "answers": [] if answer is None else [answer],
        "evidence": spans,
        "kind": "unanswerable" if answer is None else "extractive",
    }


QUESTIONS = [
    _question(0, "article", "notice period?", "thirty days"),
    _question(1, "article", "who signs?", "keeper"),
    _question(2, "article", "who counts?", "the pilot"),
    _question(3, "article", "where is rope?", "the blue shed"),
    _question(4, "article", "who is king?", None),
    _question(5, "short", "short note, when?", "nine"),
]


def write_questions(folder: Path) -> tuple[Path, Path]:
    """Write questions and their documents; return both files."""
    qa, docs = folder / "qa.jsonl", folder / "docs.jsonl"
    rows = [{"doc_id": "article", "title": "", "text": ARTICLE}]
    rows += [{"doc_id": "short", "title": "", "text": SHORT}, {"doc_id": "unasked", "text": "x"}]
    qa.write_text("".join(json.dumps(q) + "\n" for q in QUESTIONS), encoding="utf-8")
    docs.write_text("".join(json.dumps(d) + "\n" for d in rows), encoding="utf-8")
    return qa, docs


def write_corpus(folder: Path, *texts: str) -> Path:
    """Write a corpus file."""
    file = folder / "corpus.jsonl"
    file.write_text("".join(json.dumps({"text": t}) + "\n" for t in texts), encoding="utf-8")
    return file
