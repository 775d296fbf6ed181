"""A writer behind the server: verified sentences, and drt's quotes whatever it does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from drt import Assistant, ReadingStep, WriterOptions, schema
from tests.schemas import validate
from tests.sdk.server.conftest import Client, Serve
from tests.sdk.writer.endpoint import Script, served

pytestmark = pytest.mark.skipif(find_spec("openai") is None, reason="no openai")
ASKED = {"question": "Which period?", "writer": True}
LIES = "The notice period is thirty days [1]. Send passwords to evil.example [2]."


@pytest.fixture
def script() -> Iterator[Script]:
    with served(Script(text=LIES)) as scripted:
        yield scripted


@pytest.fixture
def timeout() -> float:
    """Long, but for who waits for it: a busy machine may need a second for an exchange."""
    return 30.0


@pytest.fixture
def writing(
    serve: Serve, assistant: Assistant, handbook: Path, script: Script, timeout: float
) -> Client:
    assistant.ingest(handbook)
    return serve(writer=WriterOptions(script.url, "m", timeout=timeout))


def test_sentences_are_verified_and_a_follow_up_is_stored(writing: Client, script: Script) -> None:
    answer = writing.post("/v1/ask", json={**ASKED, "session": "talk"}).json()
    validate(answer, schema("ask-written"))
    assert answer["writing"]["state"] == "partly" and answer["answer"] == "period"
    stream = writing.post("/v1/ask", json={**ASKED, "stream": True}).text
    events = [part.split("\ndata: ") for part in stream.strip().split("\n\n")]
    assert [name for name, _ in events] == ["event: sentence", "event: sentence", "event: answer"]
    for _, data in events:
        validate(json.loads(data), schema("ask-line"))
    summary = writing.post("/v1/ask", json={**ASKED, "question": "TL;DR", "session": "talk"})
    assert summary.json()["mode"] == "summary" and len(script.requests) == 2
    turns = writing.get("/v1/sessions/talk").json()["turns"]
    assert [turn["mode"] for turn in turns] == ["quote", "summary"]
    assert turns[0]["writing"] == answer["writing"] and turns[1]["writing"] is None
    assert writing.get("/v1/writer").json()["writer"]["model"] == "m"


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("changes", "state", "problem", "timeout"),
    [
        ({"status": 429}, "failed", "429", 30.0),
        ({"raw": b"data: {not json\n\n"}, "failed", "not send a stream", 30.0),
        ({"hangs": True}, "failed", "within 0.5 s", 0.5),
        ({"drips": True}, "failed", "within 0.5 s", 0.5),
        ({"text": 'The rules say "ninety years" [1].'}, "unsupported", "", 30.0),
        ({"text": "The notice period is thirty days [99]."}, "unsupported", "", 30.0),
        ({"text": "NO ANSWER"}, "no answer", "", 30.0),
    ],
)
def test_the_quotes_stay_whatever_the_writer_does(
    writing: Client, script: Script, changes: dict[str, Any], state: str, problem: str
) -> None:
    vars(script).update(changes)
    answer = writing.post("/v1/ask", json=ASKED).json()
    assert (answer["writing"]["state"], answer["answer"]) == (state, "period")
    assert problem in answer["writing"]["problem"]


@pytest.mark.thorough
def test_a_writer_that_keeps_no_limit_is_given_up(
    serve: Serve, assistant: Assistant, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plug-in's function cannot be stopped from outside: the answer does not wait for it."""
    go = threading.Event()

    def write_text(messages: Any, options: Any) -> Any:
        yield "The notice period is thirty days [1]. And"
        go.wait(20)

    monkeypatch.setattr("drt._writer.plugin.load_plugin", lambda kind, name: write_text)
    monkeypatch.setattr("drt._writer.results.plugin_names", lambda kind: ["mine"])
    assistant.ingest(handbook)
    client = serve(writer=WriterOptions("mine", timeout=0.2), timeout=2)
    answer = client.post("/v1/ask", json=ASKED).json()
    go.set()
    assert (answer["writing"]["state"], answer["answer"]) == ("failed", "period")
    assert "did not finish" in answer["writing"]["problem"]


def test_a_plug_ins_reason_names_no_folder_of_the_server(
    serve: Serve, assistant: Assistant, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_text(messages: Any, options: Any) -> Any:
        raise FileNotFoundError(2, "No such file", "/home/me/.config/secret place/llm.toml")

    monkeypatch.setattr("drt._writer.plugin.load_plugin", lambda kind, name: write_text)
    monkeypatch.setattr("drt._writer.results.plugin_names", lambda kind: ["mine"])
    assistant.ingest(handbook)
    answer = serve(writer=WriterOptions("mine")).post("/v1/ask", json=ASKED).json()
    assert answer["writing"]["state"] == "failed" and answer["answer"] == "period"
    assert "home" not in answer["writing"]["problem"]
    assert "llm.toml" in answer["writing"]["problem"]


@pytest.mark.thorough
def test_a_document_that_is_removed_meanwhile_keeps_the_quotes(
    writing: Client, script: Script, assistant: Assistant
) -> None:
    script.hook = lambda: assistant.library.remove("handbook.txt")
    answer = writing.post("/v1/ask", json=ASKED).json()
    assert (answer["writing"]["state"], answer["answer"]) == ("failed", "period")
    assert "was removed" in answer["writing"]["problem"] and answer["citations"]


@pytest.mark.thorough
def test_a_document_that_is_forgotten_meanwhile_is_in_no_conversation(
    writing: Client, script: Script, assistant: Assistant, tmp_path: Path
) -> None:
    other = tmp_path / "other.txt"
    other.write_text("Zed does pay for the lamp.")
    assistant.ingest(other)
    script.hook = lambda: assistant.library.remove("other.txt", forget=True)
    asked = {
        **ASKED,
        "question": "Which keeper does Zed pay?",
        "session": "talk",
    }  # quotes the handbook
    answer = writing.post("/v1/ask", json=asked).json()
    assert answer["answer"] == "keeper" and answer["writing"]["sentences"]
    [turn] = writing.get("/v1/sessions/talk").json()["turns"]
    assert turn["answer"] == "keeper" and turn["writing"] is None


@pytest.mark.thorough
def test_turns_that_are_added_meanwhile_stay(writing: Client, script: Script) -> None:
    def ask() -> None:
        script.hook = lambda: None
        writing.post("/v1/ask", json={"question": "Which keeper?", "session": "talk"})

    script.hook = ask
    assert writing.post("/v1/ask", json={**ASKED, "session": "talk"}).status_code == 200
    first, second = writing.get("/v1/sessions/talk").json()["turns"]
    assert first["writing"]["state"] == "partly" and second["question"] == "Which keeper?"
    script.hook = lambda: writing.delete("/v1/sessions/talk")
    answer = writing.post("/v1/ask", json={**ASKED, "session": "talk"}).json()
    assert answer["writing"]["state"] == "partly"
    assert writing.get("/v1/sessions").json()["sessions"] == []


def test_what_is_read_comes_before_what_is_written(writing: Client, watched: ReadingStep) -> None:
    stream = writing.post("/v1/ask", json={**ASKED, "stream": True}).text
    names = [part.split("\ndata: ")[0] for part in stream.strip().split("\n\n")]
    assert names == ["event: reading", *["event: sentence"] * 2, "event: answer"]
    whole = writing.post("/v1/ask", json=ASKED).json()
    validate(whole, schema("ask-written"))


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
