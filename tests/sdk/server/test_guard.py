"""Names, origins, tokens and sizes; what the server says about itself."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from drt import Assistant, ConfigError, ServeOptions
from drt._server.pages import FILES
from tests.schemas import validate
from tests.sdk.server.conftest import Client, Serve
from tests.sdk.server.test_answers import events

TOKEN = "0123456789abcdef0123"


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8080", 200),
        ("localhost", 200),
        ("[::1]:8080", 200),
        ("192.168.1.7", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost:99999", 421),
        ("evil.example@127.0.0.1", 421),
        ("", 421),
        ("evil.example\\.localhost", 421),
        ("evil.example/.localhost", 421),
        ("evil.example#.localhost", 421),
        ("evil.example%2f.localhost", 421),
        ("[::1].evil", 421),
        ("[::1]evil.example:8080", 421),
        ("notes.localhost:8080", 200),
        ("LOCALHOST", 200),
    ],
)
def test_names_that_were_pointed_here_are_unknown(client: Client, host: str, status: int) -> None:
    assert client.get("/v1/documents", headers={"host": host}).status_code == status


def test_pages_of_others_are_refused(client: Client, serve: Serve) -> None:
    for origin in (
        *("https://evil.example", "null", "http://127.0.0.1:9999", "http://["),
        *("ftp://127.0.0.1:8080", "http://127.0.0.1:8080@evil.example"),
    ):
        refused = client.get("/v1/documents", headers={"origin": origin})
        assert refused.status_code == 403 and "access-control-allow-origin" not in refused.headers
    ours = client.get("/v1/documents", headers={"origin": "http://127.0.0.1:8080"})
    assert ours.status_code == 200
    assert client.get("/v1/models", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    open_to = serve(allowed_origins=("https://notes.example",), allowed_hosts=("drt.example",))
    headers = {"origin": "https://notes.example", "host": "drt.example"}
    asked = open_to.options("/v1/ask", headers=headers)
    assert asked.headers["access-control-allow-origin"] == "https://notes.example"
    assert open_to.get("/v1/documents", headers=headers).status_code == 200


def test_a_token_is_needed_for_all_but_health_and_the_page(serve: Serve) -> None:
    client = serve(token=TOKEN, host="0.0.0.0")
    assert client.get("/healthz").json() == {"status": "ok"}
    for given in (None, "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer ", "Bearer é"):
        headers = {} if given is None else {"authorization": given.encode("latin-1")}
        refused = client.get("/v1/documents", headers=headers)
        assert refused.status_code == 401 and refused.headers["www-authenticate"] == "Bearer"
        assert client.get("/metrics", headers=headers).status_code == 401
    good = client.get("/v1/documents", headers={"authorization": f"Bearer {TOKEN}"})
    assert good.status_code == 200


@pytest.mark.parametrize(
    "options",
    [
        {"host": "0.0.0.0"},
        {"host": "192.168.1.7"},
        {"host": "::"},
        {"token": "short"},
        {"token": "with spaces in the middle"},
        {"queue": 0},
        {"max_wait": 0},
        {"max_library": 0},
        {"access_log": "xml"},
    ],
)
def test_options_that_are_not_safe_are_refused(options: Any) -> None:
    with pytest.raises(ConfigError, match="expected|token"):
        ServeOptions(**options)


def test_bodies_that_are_too_long_are_refused(client: Client, serve: Serve) -> None:
    long = b'{"question": "' + b"x" * (1 << 20) + b'"}'
    assert client.post("/v1/ask", content=long).status_code == 413
    small = serve(max_upload=1000)
    response = small.post("/v1/documents", files={"file": ("a.txt", b"x" * 2000)})
    assert response.status_code == 413 and small.get("/v1/documents").status_code == 200


def test_long_lists_are_refused_before_each_item_is_validated(client: Client) -> None:
    names = ["handbook.txt"] * 50_000
    began = time.process_time()
    for path, body in {
        "/v1/ask": {"question": "?", "documents": names},
        "/v1/summarize": {"documents": names},
        "/v1/chat/completions": {
            "messages": [{"role": "user", "content": "?"}],
            "drt": {"documents": names},
        },
    }.items():
        refused = client.post(path, json=body)
        assert refused.status_code == 400, path
        assert "50,000 items, expected at most 1,000" in refused.json()["error"]["message"]
    assert time.process_time() - began < 2.0


def test_a_body_that_comes_too_slowly_is_refused(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    from drt._server import guard

    monkeypatch.setattr(guard, "BODY_SECONDS", 0.02)
    status: list[int] = []

    async def ask() -> None:
        async def receive() -> Any:
            await asyncio.sleep(60)

        async def send(message: Any) -> None:
            status.append(message.get("status", 0))

        headers = [(b"host", b"127.0.0.1")]
        scope = {"type": "http", "method": "POST", "path": "/v1/ask", "headers": headers}
        scope |= {"query_string": b"", "root_path": "", "http_version": "1.1", "raw_path": b""}
        await client.app(scope, receive, send)

    asyncio.run(ask())
    assert status[0] == 408


@pytest.mark.thorough
def test_events_that_take_too_long_end_with_an_error(
    serve: Serve, assistant: Assistant, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import drt._engine as seam

    assistant.ingest(handbook)
    go = threading.Event()

    def slow(plain: Any) -> Any:
        def ask(*arguments: Any, **options: Any) -> Any:
            go.wait(10)
            return plain(*arguments, **options)

        return ask

    for name in ("ask", "stream"):
        monkeypatch.setitem(vars(seam), name, slow(vars(seam)[name]))
    client = serve(timeout=0.2)
    asked = {"question": "Which period?", "session": "talk"}
    response = client.post("/v1/ask", json={**asked, "stream": True})
    whole = client.post("/v1/ask", json=asked)
    go.set()
    assert whole.status_code == 504 and "0.2 s" in whole.json()["error"]["message"]
    [(name, value)] = events(response.text)
    assert (name, value["error"]["code"]) == ("error", 504)


def test_a_server_is_ready_while_it_can_answer(
    serve: Serve, client: Client, assistant: Assistant, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = serve(token=TOKEN)
    assert ready.get("/readyz").json() == {"status": "ready"}
    questions = ready.app.state.service.questions
    monkeypatch.setattr(questions, "expected_wait", lambda: 11.0)
    crowded = ready.get("/readyz")
    assert (crowded.status_code, crowded.json()["reason"]) == (503, "overloaded")
    monkeypatch.undo()
    catalogue = assistant.library.path / "catalog.db"
    hidden = catalogue.rename(catalogue.with_name("hidden"))
    try:
        assert ready.get("/readyz").json() == {"status": "not ready", "reason": "library"}
        assert ready.get("/healthz").status_code == 200
    finally:
        hidden.rename(catalogue)


def test_requests_are_logged_without_what_was_asked(
    serve: Serve, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    from drt._server.access_log import logging_to_stderr

    logged = serve(access_log="json", client_header="X-Real-IP")
    with logging_to_stderr("json"):
        asked = {"question": "Which period?"}
        headers = {"x-real-ip": "made up, 192.0.2.7", "x-request-id": "abc-1"}
        response = logged.post("/v1/ask", json=asked, headers=headers)
        logged.get("/v1/documents/handbook.txt", headers={"x-request-id": "a b"})
    assert response.headers["x-request-id"] == "abc-1"
    lines = capsys.readouterr().err.splitlines()
    first, second = map(json.loads, lines)
    assert (first["client"], first["route"], first["status"]) == ("192.0.2.7", "/v1/ask", 200)
    assert first["request_id"] == "abc-1" and first["level"] == "info" and first["seconds"] > 0
    assert second["route"] == "/v1/documents/{document}" and second["client"] == "testclient"
    assert len(second["request_id"]) == 32, "a new one in place of one with a space"
    assert "period" not in "".join(lines) and "handbook" not in "".join(lines)


def test_an_error_is_logged_as_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    from drt._server.access_log import logging_to_stderr
    from drt._server.errors import log

    with logging_to_stderr("json"):
        try:
            raise RuntimeError("two\nlines")
        except RuntimeError as error:
            log.error("unexpected error", exc_info=error)
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["level"] == "error" and "two\nlines" in json.loads(line)["exception"]
    with logging_to_stderr("off"):
        log.info("nothing")
    assert capsys.readouterr().err == ""


def test_every_response_has_headers_that_protect(client: Client) -> None:
    for path in ("/healthz", "/v1/documents", "/nothing"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    assert client.get("/nothing").json()["error"]["code"] == 404
    assert client.get("/v1/ask").status_code == 405


def test_metrics_count_requests_by_route(client: Client) -> None:
    client.get("/v1/documents/handbook.txt")
    client.get("/nothing/at/all")
    for number in range(3):  # each would be a series, and take memory for ever
        assert client.request(f"MADE-UP-{number}", "/v1/ask").status_code == 405
    text = client.get("/metrics").text
    assert "MADE-UP" not in text and 'method="other",route="/v1/ask",status="405"} 3.0' in text
    assert (
        'drt_requests_total{method="GET",route="/v1/documents/{document}",status="200"} 1.0' in text
    )
    assert 'route="other"' in text and "process_resident_memory_bytes" in text
    assert "drt_questions_waiting 0.0" in text


@pytest.mark.thorough
def test_the_description_has_every_route_and_sound_schemas(client: Client) -> None:
    description = client.get("/openapi.json").json()
    routes = {(route.path, method) for route in client.app.routes for method in route.methods}
    described = {
        (path.replace("{session}", "{session:path}"), method.upper())
        for path, item in description["paths"].items()
        for method in item
    }
    assert {pair for pair in routes if pair[1] != "HEAD"} <= described | {
        (path, "GET") for path in FILES
    }
    for given in description["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(given)
    metrics = description["paths"]["/metrics"]["get"]["responses"]["200"]["content"]
    assert list(metrics) == ["text/plain"]
    found = description["paths"]["/v1/sessions"]["get"]["responses"]["200"]["content"]
    schemas = found["application/json"]["schema"]["oneOf"]
    turns = client.get("/v1/sessions?words=period").json()
    assert schemas[1] == {"$ref": "#/components/schemas/session-search"}
    validate(turns, description["components"]["schemas"]["session-search"])
    ask = description["paths"]["/v1/ask"]["post"]["requestBody"]["content"]["application/json"]
    assert {"question", "documents", "top_k", "session"} <= set(ask["schema"]["properties"])
    names = set(description["components"]["schemas"])
    assert {"ask", "ask-line", "ingest", "show", "error"} <= names
