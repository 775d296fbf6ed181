"""A writer behind the server: verified sentences, and drt's quotes whatever it does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from drt import Assistant, WriterOptions, schema
from tests.sdk.server.conftest import Client, Serve
from tests.sdk.writer.endpoint import Script, served

pytest.importorskip("openai")
ASKED = {"question": "Which period?", "writer": True}
LIES = "The notice period is thirty days [1]. Send passwords to evil.example [2]."


@pytest.fixture
def script() -> Iterator[Script]:
    with served(Script(text=LIES)) as scripted:
        yield scripted


@pytest.fixture
def writing(serve: Serve, assistant: Assistant, handbook: Path, script: Script) -> Client:
    assistant.ingest(handbook)
    return serve(writer=WriterOptions(script.url, "m", timeout=0.5))


def test_sentences_are_verified_and_a_follow_up_is_stored(writing: Client, script: Script) -> None:
    answer = writing.post("/v1/ask", json={**ASKED, "session": "talk"}).json()
    jsonschema.validate(answer, schema("ask-written"))
    assert answer["writing"]["state"] == "partly" and answer["answer"] == "period"
    stream = writing.post("/v1/ask", json={**ASKED, "stream": True}).text
    events = [part.split("\ndata: ") for part in stream.strip().split("\n\n")]
    assert [name for name, _ in events] == ["event: sentence", "event: sentence", "event: answer"]
    for _, data in events:
        jsonschema.validate(json.loads(data), schema("ask-line"))
    summary = writing.post("/v1/ask", json={**ASKED, "question": "TL;DR", "session": "talk"})
    assert summary.json()["mode"] == "summary" and len(script.requests) == 2
    turns = writing.get("/v1/sessions/talk").json()["turns"]
    assert [turn["mode"] for turn in turns] == ["quote", "summary"]
    assert writing.get("/v1/writer").json()["writer"]["model"] == "m"


@pytest.mark.parametrize(
    ("changes", "state", "problem"),
    [
        ({"status": 429}, "failed", "429"),
        ({"raw": b"data: {not json\n\n"}, "failed", "no stream"),
        ({"hangs": True}, "failed", "within 0.5 s"),
        ({"drips": True}, "failed", "within 0.5 s"),
        ({"text": 'The rules say "ninety years" [1].'}, "unsupported", ""),
        ({"text": "The notice period is thirty days [99]."}, "unsupported", ""),
        ({"text": "NO ANSWER"}, "no answer", ""),
    ],
)
def test_the_quotes_stay_whatever_the_writer_does(
    writing: Client, script: Script, changes: dict[str, Any], state: str, problem: str
) -> None:
    vars(script).update(changes)
    answer = writing.post("/v1/ask", json=ASKED).json()
    assert (answer["writing"]["state"], answer["answer"]) == (state, "period")
    assert problem in answer["writing"]["problem"]


def test_a_writer_that_keeps_no_limit_is_given_up(
    serve: Serve, assistant: Assistant, handbook: Path, script: Script
) -> None:
    assistant.ingest(handbook)
    client = serve(writer=WriterOptions(script.url, "m", timeout=0.2), timeout=4)
    script.drips_head = True
    answer = client.post("/v1/ask", json=ASKED).json()
    script.go.set()
    assert (answer["writing"]["state"], answer["answer"]) == ("failed", "period")
    assert "did not finish" in answer["writing"]["problem"]


def test_a_document_that_is_removed_meanwhile_keeps_the_quotes(
    writing: Client, script: Script, assistant: Assistant
) -> None:
    script.hook = lambda: assistant.library.remove("handbook.txt")
    answer = writing.post("/v1/ask", json=ASKED).json()
    assert (answer["writing"]["state"], answer["answer"]) == ("failed", "period")
    assert "was removed" in answer["writing"]["problem"] and answer["citations"]


def test_no_request_names_a_writer(client: Client, script: Script) -> None:
    refused = client.post("/v1/ask", json=ASKED)
    assert refused.status_code == 400 and "has no writer" in refused.json()["error"]["message"]
    for value in (script.url, {"url": script.url}):
        assert client.post("/v1/ask", json={**ASKED, "writer": value}).status_code == 400
    streamed = client.post("/v1/ask", json={**ASKED, "stream": True})
    assert streamed.status_code == 400
    assert client.post("/v1/ask", json={**ASKED, "writer_url": script.url}).status_code == 400
    chat = {"messages": [{"role": "user", "content": "Which period?"}], "drt": {"writer": True}}
    assert client.post("/v1/chat/completions", content=json.dumps(chat)).status_code == 400
    assert client.get("/v1/writer").json() == {"writer": None} and script.requests == []
