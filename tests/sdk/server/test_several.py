"""A server over several libraries: read, asked, searched, summarised, talked to; never changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drt import Assistant, ServeOptions, asgi_app, schema
from tests.schemas import validate
from tests.sdk.fakes import FakeEngine
from tests.sdk.server.conftest import HANDBOOK, Client

OTHER = "Another period of the year.\n"


@pytest.fixture
def several(engine: FakeEngine, tmp_path: Path) -> Iterator[Client]:  # noqa: ARG001  its model
    """A client of a server over two libraries, and one that is not there."""
    for name in ("starlette", "multipart", "prometheus_client", "httpx2"):
        pytest.importorskip(name)
    from starlette.testclient import TestClient

    paths = [tmp_path / name for name in ("first", "second", "gone")]
    for path, name, text in zip(paths, ("handbook", "other"), (HANDBOOK, OTHER), strict=False):
        file = tmp_path / f"{name}.txt"
        file.write_text(text)
        with Assistant(path) as one:
            one.ingest(file)
    with Assistant(paths) as many:
        app = asgi_app(many, ServeOptions())
        address = "http://127.0.0.1:8080"
        with TestClient(app, base_url=address, raise_server_exceptions=False) as client:
            yield client


@pytest.mark.thorough
def test_all_of_them_are_read(several: Client) -> None:
    listed = several.get("/v1/documents").json()
    validate(listed, schema("document-list"))
    assert [document["title"] for document in listed["documents"]] == ["handbook.txt", "other.txt"]
    for name, text in (("handbook.txt", HANDBOOK), ("other.txt", OTHER)):
        assert several.get(f"/v1/documents/{name}/text").json()["text"] == text
    for route, body in (
        ("ask", {"question": "Which period?"}),
        ("search", {"query": "period"}),
        ("summarize", {"documents": ["other.txt"]}),
        ("trace", {"question": "Which period?"}),
    ):
        response = several.post(f"/v1/{route}", json=body)
        assert response.status_code == 200, response.text
        validate(response.json(), schema(route))
        if route != "trace":
            (missing,) = response.json()["unread_libraries"]
            assert missing["library"].endswith("gone")
    answer = several.post("/v1/ask", json={"question": "Which period?"}).json()
    handles = {citation["handle"]: citation["library"] for citation in answer["citations"]}
    assert any(name.endswith("first") for name in handles.values())
    for handle in handles:
        assert several.get(f"/v1/passages/{handle}").json()["quote"]
    unknown = several.get("/v1/documents/none")
    assert unknown.status_code == 404 and "/gone" not in unknown.text


@pytest.mark.thorough
def test_no_response_has_a_path_of_the_server(several: Client, tmp_path: Path) -> None:
    question = {"question": "Which period?"}
    several.post("/v1/ask", json={**question, "session": "talk"})
    messages = {"messages": [{"role": "user", "content": "Which period?"}]}
    for response in (
        several.post("/v1/ask", json=question),
        several.post("/v1/ask", json={**question, "stream": True}),
        several.post("/v1/trace", json=question),
        several.post("/v1/search", json={"query": "period"}),
        several.post("/v1/summarize", json={"documents": ["other.txt"]}),
        several.post("/v1/chat/completions", json=messages),
        several.get("/v1/sessions/talk"),
        several.get("/v1/documents"),
        several.get("/v1/documents/none"),
        several.get("/v1/formats"),
    ):
        assert str(tmp_path) not in response.text, response.request.url
    (missing,) = several.post("/v1/ask", json=question).json()["unread_libraries"]
    assert missing["library"] == "gone" and " library at gone: " in missing["reason"]
    assert "not looked for in gone" in several.get("/v1/documents/none").text


def test_libraries_of_one_name_are_told_apart(tmp_path: Path, engine: FakeEngine) -> None:
    from drt._server.service import Service

    paths = [tmp_path / folder / "notes" for folder in ("a", "b")]
    with Assistant(paths) as many:
        names = Service(many, ServeOptions()).folder_names
    assert [names[str(path)] for path in paths] == ["notes", "notes (2)"]


@pytest.mark.thorough
def test_conversations_are_kept_and_summarise(several: Client) -> None:
    asked = {"question": "Which period?", "session": "talk"}
    assert several.post("/v1/ask", json=asked).json()["state"] == "answer"
    asked["question"] = "Summarize other.txt"
    summary = several.post("/v1/ask", json=asked).json()
    assert summary["mode"] == "summary" and summary["answer"].splitlines()[1] in OTHER
    assert summary["citations"][0]["library"].endswith("second")
    assert [entry["library"][-4:] for entry in summary["unread_libraries"]] == ["gone"]
    asked["question"] = "Summarize it"
    assert several.post("/v1/ask", json=asked).json()["answer"] == summary["answer"]
    turns = several.get("/v1/sessions/talk").json()["turns"]
    assert len(turns) == 3
    assert several.patch("/v1/sessions/talk", json={"name": "kept"}).status_code == 200
    assert several.delete("/v1/sessions/kept").status_code == 200


@pytest.mark.thorough
def test_none_of_them_is_changed(several: Client) -> None:
    for response in (
        several.post("/v1/documents", files={"file": ("new.txt", b"New.")}),
        several.delete("/v1/documents/handbook.txt"),
        several.patch("/v1/documents/handbook.txt", json={"add": ["x"], "remove": []}),
    ):
        assert response.status_code == 403
        message = response.json()["error"]["message"]
        assert "asks several libraries as one and changes none of them" in message
    assert len(several.get("/v1/documents").json()["documents"]) == 2
