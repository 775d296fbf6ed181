"""Published schemas: they hold for what is given out, and for nothing with more or less in it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from drt import Assistant, NotFoundError, formats, models, passage, schema, schemas
from tests.schemas import validator
from tests.tables import each_row


@pytest.fixture
def results(assistant: Assistant, handbook: Path) -> dict[str, Any]:
    report = assistant.ingest_many([handbook, "missing.txt"])
    session = assistant.session("review")
    answer = session.ask("Which period?")
    document = report.documents[0]
    values = {
        "ask": answer.to_dict(),
        "ask-all": assistant.ask_all("Which period?").to_dict(),
        "ask-line": {"type": "answer", **answer.to_dict()},
        "chat-line": assistant.ask("Which zeppelin?").to_dict(),
        "formats": {"formats": [entry.to_dict() for entry in formats()]},
        "ingest": report.to_dict(),
        "ingest-line": next(assistant.ingest_each("missing.txt")).to_dict(),
        "library-check": {"findings": [one.to_dict() for one in assistant.library.check()]},
        "document-list": {"library": "here", "documents": [document.to_dict()], "next": None},
        "library-list": {"library": "here", "documents": [document.to_dict()]},
        "library-show": document.to_dict(),
        "library-stats": assistant.library.stats(),
        "model-info": models()[0].to_dict(),
        "model-list": {"models": [model.to_dict() for model in models()]},
        "search": assistant.search("Which period?").to_dict(),
        "search-line": assistant.search("Which period?").hits[0].to_dict(),
        "session-list": {"sessions": [one.to_dict() for one in assistant.library.sessions()]},
        "session-show": {"session": "review", "turns": [one.to_dict() for one in session.turns]},
        "show": passage(assistant.library, answer.citations[0]).to_dict(),
        "summarize": assistant.summarize(document, since=str(handbook)).to_dict(),
        "trace": assistant.trace("Which period?").to_dict(),
    }
    return json.loads(json.dumps(values))  # type: ignore[no-any-return]


def checker(name: str) -> jsonschema.Draft202012Validator:
    return validator(schema(name))


@each_row("name", schemas())
def test_every_schema_is_one(name: str) -> None:
    checker(name)
    assert schema(name)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.thorough
def test_results_keep_to_their_schemas(results: dict[str, Any]) -> None:
    for name, value in results.items():
        checker(name).validate(value)


@pytest.mark.thorough
def test_a_schema_refuses_more_and_less(results: dict[str, Any]) -> None:
    for name, value in results.items():
        more = {**copy.deepcopy(value), "unheard of": 1}
        less = dict(list(value.items())[1:])
        for wrong in (more, less):
            assert list(checker(name).iter_errors(wrong)), name


def test_a_share_is_between_nothing_and_all(results: dict[str, Any]) -> None:
    wrong = {**results["ask"], "confidence": 1.5}
    assert list(checker("ask").iter_errors(wrong))


def test_an_unknown_schema_is_a_sentence() -> None:
    with pytest.raises(NotFoundError, match="summarize"):
        schema("summarise")
