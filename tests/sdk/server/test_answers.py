"""Questions over HTTP: the published JSON, events, sessions, and what is refused."""

from __future__ import annotations

import json
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from drt import Assistant, ConfigError, ReadingStep, _engine, schema
from drt_engine import errors
from tests.log_records import Records
from tests.schemas import validate
from tests.sdk.fakes import FakeEngine
from tests.sdk.server.conftest import Client, Serve

QUESTION = "Which period?"


def events(text: str) -> list[tuple[str, Any]]:
    pairs = [part.split("\ndata: ") for part in text.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data)) for name, data in pairs]


def test_an_answer_is_as_published_and_names_no_folder(client: Client) -> None:
    response = client.post("/v1/ask", json={"question": QUESTION, "top_k": 4})
    answer = response.json()
    assert response.status_code == 200, answer
    validate(answer, schema("ask"))
    assert answer["citations"][0]["source"] == "handbook.txt"


def test_a_whole_number_may_be_written_with_a_point(client: Client, engine: FakeEngine) -> None:
    headers = {"content-type": "application/json"}
    for text, status in (("3.0", 200), ("3e0", 200), ("3.5", 400), ("1e999", 400), ("NaN", 400)):
        body = f'{{"question": "{QUESTION}", "top_k": {text}}}'
        response = client.post("/v1/ask", content=body, headers=headers)
        assert response.status_code == status, (text, response.text)
    assert [type(asked["top_k"]) for asked in engine.asked] == [int, int]


def test_events_are_pieces_then_the_answer(client: Client) -> None:
    response = client.post("/v1/ask", json={"question": QUESTION, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    received = events(response.text)
    for _, value in received:
        validate(value, schema("ask-line"))
    assert [name for name, _ in received] == ["piece", "piece", "answer"]
    assert "".join(v["text"] for _, v in received[:-1]) == received[-1][1]["answer"]


def test_two_questions_are_answered_at_once(
    serve: Serve, engine: FakeEngine, assistant: Assistant, handbook: Path
) -> None:
    assistant.ingest(handbook)
    client = serve(at_once=2)
    both, answer = threading.Barrier(2), engine.ask

    def together(*arguments: Any, **options: Any) -> Any:
        both.wait(10)  # none of them ends without the other
        return answer(*arguments, **options)

    engine.ask = together  # type: ignore[method-assign]
    vars(_engine)["ask"] = together
    names = [{"session": "a"}, {"session": "b"}]
    with ThreadPoolExecutor(2) as pool:
        answers = [
            pool.submit(client.post, "/v1/ask", json={"question": QUESTION, **name})
            for name in names
        ]
    assert [one.result().json()["answer"] for one in answers] == ["period"] * 2
    assert {one.name for one in assistant.library.sessions()} == {"a", "b"}
    with pytest.raises(ConfigError, match="at_once is 0"):
        serve(at_once=0)


def test_what_is_read_comes_first(client: Client, watched: ReadingStep) -> None:
    received = events(client.post("/v1/ask", json={"question": QUESTION, "stream": True}).text)
    assert received[0] == ("reading", {"type": "reading", **vars(watched)})
    validate(received[0][1], schema("ask-line"))
    assert [name for name, _ in received[1:]] == ["piece", "piece", "answer"]
    chat = {"messages": [{"role": "user", "content": QUESTION}], "stream": True}
    assert "thirty days. The" not in client.post("/v1/chat/completions", json=chat).text


def test_an_error_in_a_stream_is_its_last_event(client: Client) -> None:
    response = client.post(
        "/v1/ask", json={"question": "?!"}, headers={"accept": "text/event-stream"}
    )
    ((name, value),) = events(response.text)
    assert name == "error" and "no words" in value["error"]["message"]


def test_a_conversation_is_stored_listed_renamed_and_deleted(client: Client) -> None:
    asked = {"question": QUESTION, "session": "a/b"}
    assert client.post("/v1/ask", json=asked).json()["found"]
    client.post("/v1/ask", json={**asked, "stream": True})
    (info,) = client.get("/v1/sessions").json()["sessions"]
    assert (info["name"], info["turns"]) == ("a/b", 2)
    assert len(client.get("/v1/sessions", params={"words": "period"}).json()["turns"]) == 2
    assert client.patch("/v1/sessions/a/b", json={"name": "kept"}).status_code == 200
    shown = client.get("/v1/sessions/kept").json()
    validate(shown, schema("session-show"))
    assert client.delete("/v1/sessions/kept").status_code == 200
    assert client.get("/v1/sessions").json() == {"sessions": []}


@pytest.mark.slow
def test_ten_thousand_conversations_are_listed_searched_and_opened(
    client: Client, assistant: Assistant
) -> None:
    from drt_engine.store import sessions as stored
    from drt_engine.store.store import Store

    client.post("/v1/ask", json={"question": "Which period?", "session": "talk"})
    with Store.open(assistant.library.path) as store:
        row = store.load_session("talk")
        text = json.dumps(row.transcript)
        with store._sessions._database.transaction() as connection:
            for number in range(10_000):
                values = (f"talk {number}", 1, row.created, row.updated, "{}", text, row.state)
                stored._put(connection, values)
    listed = client.get("/v1/sessions").json()["sessions"]
    assert len(listed) == 10_001
    assert client.get("/v1/sessions/talk 9999").json()["turns"][0]["answer"] == "period"
    assert len(client.get("/v1/sessions?words=period").json()["turns"]) == 10_001
    again = client.post("/v1/ask", json={"question": "Which keeper?", "session": "talk 5000"})
    assert again.json()["answer"] == "keeper"


def test_a_summary_and_a_trace(client: Client) -> None:
    summary = client.post("/v1/summarize", json={"documents": ["handbook.txt"], "words": 30})
    validate(summary.json(), schema("summarize"))
    trace = client.post("/v1/trace", json={"question": QUESTION})
    validate(trace.json(), schema("trace"))


def test_a_search_is_as_published(client: Client) -> None:
    found = client.post("/v1/search", json={"query": "notice period", "retriever": "lexical"})
    validate(found.json(), schema("search"))
    assert client.post("/v1/search", json={"words": "x"}).status_code == 400
    early = {"query": "notice", "retriever": "lexical", "since": "1993"}
    assert client.post("/v1/search", json=early).status_code == 200


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 400, "question"),
        ({"question": 3}, 400, "string"),
        ({"question": "x", "zeppelin": 1}, 400, "zeppelin"),
        ({"question": "x", "mode": "sing"}, 400, "mode"),
        ({"question": "x" * 20_001}, 400, "too long"),
        ({"question": "?!"}, 400, "no words"),
        ({"question": "x", "documents": ["none.txt"]}, 404, "none.txt"),
        ({"question": "x", "documents": ["/etc/passwd"]}, 404, "passwd"),
        ({"question": "x \ud800"}, 400, "UTF-8"),
        ([], 400, "object"),
    ],
)
def test_bad_questions_are_refused_in_a_sentence(
    client: Client, body: Any, status: int, words: str
) -> None:
    response = client.post("/v1/ask", content=json.dumps(body))
    error = response.json()["error"]
    assert response.status_code == status, error
    assert words in error["message"] and "Traceback" not in error["message"]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a": NaN'])
def test_what_is_no_json_is_refused(client: Client, content: bytes) -> None:
    for path in ("/v1/ask", "/v1/chat/completions"):
        assert client.post(path, content=content).status_code == 400


def test_no_file_of_the_server_can_be_named(client: Client) -> None:
    for since in ("/etc/passwd", "handbook.txt"):
        body = {"documents": ["handbook.txt"], "since": since}
        assert client.post("/v1/summarize", json=body).status_code == 400
    assert client.post("/v1/summarize", json={"documents": ["/etc/hostname"]}).status_code == 404
    for path in (
        "/v1/documents/..%2f..%2fetc%2fpasswd/text",
        "/../pyproject.toml",
        "/v1/passages/x",
    ):
        assert client.get(path).status_code == 404


def test_what_a_client_does_wrong_is_no_traceback_in_the_log(
    client: Client, records: Records
) -> None:
    """The application raises nothing of it to its server, which would log it as its own."""
    from starlette.testclient import TestClient

    strict = TestClient(client.app, base_url="http://127.0.0.1:8080")
    assert strict.get("/v1/documents/nothing").status_code == 404
    assert strict.post("/v1/ask", json={"question": "?", "top_k": 0}).status_code == 400
    assert strict.delete("/v1/sessions/nothing").status_code == 404
    assert records.records == []


def test_mistakes_of_the_program_are_not_shown(client: Client, engine: FakeEngine) -> None:
    engine.raises["ask"] = RuntimeError("/secret/folder")
    response = client.post("/v1/ask", json={"question": QUESTION})
    assert response.status_code == 500 and "secret" not in response.text


def test_errors_of_the_library_name_no_folder(serve: Serve, engine: FakeEngine) -> None:
    client = serve()
    assert "/" not in client.post("/v1/ask", json={"question": QUESTION}).json()["error"]["message"]
    engine.raises["ask"] = errors.LockTimeout("busy")
    # Without documents it is refused before the engine is asked.
    assert client.post("/v1/ask", json={"question": QUESTION}).status_code in (400, 503)


def test_questions_wait_in_a_queue_and_equal_ones_are_answered_once(
    client: Client, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    import drt._engine as seam

    waiting, go = threading.Event(), threading.Event()
    plain = engine.ask

    def slow(*arguments: Any, **options: Any) -> Any:
        waiting.set()
        go.wait(10)
        return plain(*arguments, **options)

    monkeypatch.setitem(vars(seam), "ask", slow)
    service = client.app.state.service
    with ThreadPoolExecutor(8) as pool:

        def ask(question: str) -> Any:
            return client.post("/v1/ask", json={"question": question})

        first = pool.submit(ask, "Which keeper?")
        assert waiting.wait(10)
        same = [pool.submit(ask, QUESTION) for _ in range(5)]
        bad = pool.submit(ask, "?!")
        deadline = threading.Event()
        for _ in range(200):
            jobs = [job for queue in service.questions._queues.values() for job in queue]
            if sum(len(job.futures) for job in jobs) == 6:
                break
            deadline.wait(0.01)
        assert service.questions.waiting == 2
        go.set()
        assert first.result().status_code == 200 and bad.result().status_code == 400
        assert {one.result().json()["answer"] for one in same} == {"period"}
    assert [one["question"] for one in engine.asked].count(QUESTION) == 1


def test_too_many_questions_are_refused_with_a_time_to_come_again(
    serve: Serve, client: Client
) -> None:
    from drt._server.questions import _Job

    crowded = serve(queue=1)
    questions = crowded.app.state.service.questions
    questions._queues["another"] = deque([_Job("Which keeper?", {}, lambda: None)])
    asked = {"question": QUESTION}
    chat = {"messages": [{"role": "user", "content": QUESTION}], "stream": True}
    for path, body in (
        ("/v1/ask", asked),
        ("/v1/ask", {**asked, "stream": True}),
        ("/v1/chat/completions", chat),
    ):
        response = crowded.post(path, json=body)
        assert (response.status_code, response.headers["retry-after"]) == (429, "1"), path
        assert "ask again in 1 s" in response.json()["error"]["message"]
    questions._queues.clear()
    assert "drt_questions_refused_total 3.0" in crowded.get("/metrics").text


def test_a_request_that_takes_too_long_is_given_up(
    serve: Serve, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    import drt._engine as seam

    hurried, go = serve(timeout=0.05), threading.Event()
    monkeypatch.setitem(vars(seam), "ask", lambda *_, **__: go.wait(5))
    response = hurried.post("/v1/ask", json={"question": QUESTION})
    go.set()
    assert response.status_code == 504 and "0.05 s" in response.json()["error"]["message"]


def test_an_answer_of_a_conversation_is_exported(client: Client) -> None:
    for question in ("Which period?", "Which keeper?"):
        client.post("/v1/ask", json={"question": question, "session": "a/b"})
    asked = {"session": "a/b", "turn": 2, "format": "html"}
    page = client.get("/v1/export", params=asked)
    assert page.headers["content-disposition"] == 'attachment; filename="answer.html"'
    assert (
        page.headers["content-type"].startswith("text/html") and "<mark>keeper</mark>" in page.text
    )
    assert "See the annex." in page.text  # the text around comes from the library
    entries = client.get("/v1/export", params=asked | {"format": "csl-json"}).json()
    assert entries[0]["archive_location"] == "handbook.txt"
    for wrong, status in (
        ({"turn": 3}, 404),
        ({"turn": 0}, 404),
        ({"turn": "x"}, 400),
        ({"format": "word"}, 400),
        ({"session": "nobody"}, 404),
    ):
        refused = client.get("/v1/export", params=asked | wrong)
        assert refused.status_code == status and refused.json()["error"]["message"]
