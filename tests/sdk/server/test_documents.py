"""Documents over HTTP: upload, list, text, passage, remove; names and files that are hostile."""

from __future__ import annotations

import errno
import json
import os
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from drt import Assistant, schema
from tests.schemas import validate
from tests.sdk.server.conftest import HANDBOOK, Client, Serve
from tests.sdk.server.test_answers import events

resource: Any
try:
    import resource
except ImportError:  # Windows
    resource = None


def send(client: Client, name: str, content: bytes, **headers: str) -> Any:
    return client.post("/v1/documents", files={"file": (name, content)}, headers=headers)


def test_a_file_is_uploaded_asked_shown_and_removed(serve: Serve, assistant: Assistant) -> None:
    client = serve()
    response = send(client, "handbook.txt", HANDBOOK.encode())
    report = response.json()
    assert response.status_code == 201, report
    validate(report, schema("ingest"))
    (document,) = report["documents"]
    assert document["source"] == "handbook.txt" and document["new"]
    assert send(client, "handbook.txt", HANDBOOK.encode()).status_code == 200
    listed = client.get("/v1/documents").json()
    validate(listed, schema("document-list"))
    answer = client.post("/v1/ask", json={"question": "Which period?"}).json()
    citation = answer["citations"][0]
    text = client.get(f"/v1/documents/{document['id']}/text").json()
    assert text["text"] == HANDBOOK and text["characters"] == len(HANDBOOK)
    assert text["text"][citation["start"] : citation["end"]] == citation["quote"]
    part = client.get("/v1/documents/handbook.txt/text", params={"start": 4, "end": 10}).json()
    assert (part["text"], part["start"], part["end"]) == ("notice", 4, 10)
    shown = client.get(f"/v1/passages/{citation['handle']}", params={"around": 10}).json()
    validate(shown, schema("show"))
    assert client.get(f"/v1/documents/{document['id']}").json()["title"]
    removed = client.delete(f"/v1/documents/{document['id']}", params={"forget": "1"})
    assert removed.json()["id"] == document["id"]
    assert client.get(f"/v1/documents/{document['id']}").status_code == 404
    uploads = client.app.state.service.uploads
    assert list(uploads.iterdir()) == []


def test_documents_are_listed_in_pages(serve: Serve) -> None:
    client = serve()
    names = [f"{number}.txt" for number in range(5)]
    for name in names:
        send(client, name, f"The number of this file is {name}.".encode())
    listed: list[str] = []
    after: dict[str, str] = {}
    for _ in range(3):
        page = client.get("/v1/documents", params={"limit": "2", **after}).json()
        validate(page, schema("document-list"))
        listed += [document["source"] for document in page["documents"]]
        after = {"after": page["next"]}
    assert listed == names and page["next"] is None
    assert client.get("/v1/documents").json()["next"] is None
    unknown = client.get("/v1/documents", params={"after": "nowhere"})
    assert unknown.status_code == 404 and "nowhere" in unknown.text
    assert client.get("/v1/documents", params={"limit": "many"}).status_code == 400


def test_a_removed_document_comes_back(serve: Serve, assistant: Assistant) -> None:
    client = serve()
    send(client, "handbook.txt", HANDBOOK.encode())
    client.patch("/v1/documents/handbook.txt", json={"add": ["signed"], "remove": []})
    client.delete("/v1/documents/handbook.txt", params={"undoable": "1"})
    assert client.get("/v1/documents").json()["documents"] == []
    listed = client.get("/v1/removed").json()
    validate(listed, schema("library-list"))
    (document,) = listed["documents"]
    assert document["source"] == "handbook.txt"
    back = client.post(f"/v1/removed/{document['id']}/undo").json()
    validate(back, schema("library-show"))
    assert back["tags"] == ["signed"] and client.get("/v1/removed").json()["documents"] == []
    assert client.post("/v1/ask", json={"question": "Which period?"}).json()["found"]
    assert client.post(f"/v1/removed/{document['id']}/undo").status_code == 404
    refused = client.delete("/v1/documents/handbook.txt?undoable=1&forget=1")
    assert refused.status_code == 400 and "forget" in refused.json()["error"]["message"]
    client.delete("/v1/documents/handbook.txt?undoable=1")
    assistant.library.compact()
    assert client.get("/v1/removed").json()["documents"] == []


def test_a_new_version_replaces_the_older_one(serve: Serve) -> None:
    client = serve()
    send(client, "note.txt", b"The gate is locked at nine.\n")
    send(client, "note.txt", b"The gate is locked at ten.\n")
    sources = [one["source"] for one in client.get("/v1/documents").json()["documents"]]
    assert sources.count("note.txt") >= 1


@pytest.mark.skipif(resource is None, reason="nothing limits descriptors here")
def test_a_shortage_of_descriptors_is_a_503_that_heals(client: Client) -> None:
    send(client, "first.txt", b"The client has read its tables.\n")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    number = os.open(os.devnull, os.O_RDONLY)  # all below it are in use
    os.close(number)
    question = {"question": "Which period?"}
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, before[1]))
    try:
        listed = client.get("/v1/documents")
        sent = send(client, "note.txt", b"The gate is locked at nine.\n")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    for response in (listed, sent):
        assert (response.status_code, response.headers["retry-after"]) == (503, "5"), response.text
        assert "too many files" in response.json()["error"]["message"]
    assert client.post("/v1/ask", json=question).status_code == 200
    assert send(client, "note.txt", b"The gate is locked at nine.\n").status_code == 201


def test_progress_comes_as_events(serve: Serve) -> None:
    response = send(serve(), "a.txt", HANDBOOK.encode(), accept="text/event-stream")
    received = events(response.text)
    assert [name for name, _ in received] == ["progress", "document", "report"]
    validate(received[1][1], schema("ingest-line"))
    assert received[0][1]["total_characters"] >= received[0][1]["characters"] > 0


@pytest.mark.parametrize(
    "name",
    ["", "..", ".hidden", "../../etc/cron.d/x", "C:\\x\\..\\.bad", "a\x00b.txt", "é" * 150],
)
def test_names_lead_nowhere_else(serve: Serve, name: str) -> None:
    client = serve()
    body = (
        '--b\r\nContent-Disposition: form-data; name="file"; filename="'
        + name.replace("\\", "\\\\")
        + '"\r\n\r\nThe gate is locked at nine.\r\n--b--\r\n'
    )
    response = client.post(
        "/v1/documents",
        content=body.encode(),
        headers={"content-type": "multipart/form-data; boundary=b"},
    )
    if response.status_code == 201:
        assert response.json()["documents"][0]["source"] == "x"
    else:
        assert response.status_code in (400, 415) and response.json()["error"]["message"]
    uploads = client.app.state.service.uploads
    assert not uploads.exists() or not list(uploads.iterdir())


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.txt", b"", "empty"),
        ("a.pdf", b"%PDF-1.7 broken", "a.pdf"),
        ("a.docx", b"PK\x03\x04 broken", "a.docx"),
        ("a.bin", bytes(range(256)) * 20, "a.bin"),
    ],
)
def test_files_that_cannot_be_read_are_a_sentence(
    serve: Serve, name: str, content: bytes, words: str
) -> None:
    response = send(serve(), name, content)
    assert response.status_code == 422, response.text
    message = response.json()["error"]["message"]
    assert words in message and "/" not in message.replace("and/or", "")


def test_one_bad_file_does_not_stop_the_others(serve: Serve) -> None:
    files = [("file", ("bad.txt", b"")), ("file", ("good.txt", HANDBOOK.encode()))]
    report = serve().post("/v1/documents", files=files).json()
    assert [one["source"] for one in report["documents"]] == ["good.txt"]
    assert report["failures"][0]["source"].endswith("bad.txt")
    assert "/" not in json.dumps(report["failures"])


def test_fields_of_one_name_are_read_one_after_the_other(serve: Serve) -> None:
    """The later version of a name replaces the earlier one; repeated tags are one."""
    client = serve()
    files = [("file", ("a.txt", f"The number is {number}.\n".encode())) for number in range(3)]
    tags = {"tag": ["coal", "coal"], "other": "field"}
    report = client.post("/v1/documents", files=files, data=tags)
    assert report.status_code == 201 and len(report.json()["documents"]) == 3
    [document] = client.get("/v1/documents").json()["documents"]
    assert (document["source"], document["tags"]) == ("a.txt", ["coal"])
    assert client.get("/v1/documents/a.txt/text").json()["text"] == "The number is 2.\n"


def test_a_form_without_files_and_many_files_are_refused(serve: Serve) -> None:
    client = serve()
    assert client.post("/v1/documents", data={"file": "text"}).status_code in (400, 415)
    assert client.post("/v1/documents", json={}).status_code == 415
    many = [("file", (f"{number}.txt", b"x")) for number in range(65)]
    assert client.post("/v1/documents", files=many).status_code == 400
    headers = {"content-type": "multipart/form-data"}
    assert client.post("/v1/documents", content=b"x", headers=headers).status_code == 400


def test_a_library_grows_no_larger_than_allowed(serve: Serve, client: Client) -> None:
    full = serve(max_library=1)
    refused = send(full, "a.txt", HANDBOOK.encode())
    assert refused.status_code == 507 and "up to 1;" in refused.json()["error"]["message"]
    assert full.delete("/v1/documents/handbook.txt").status_code == 200
    size = client.app.state.service.library_bytes()
    assert size > 1_000 and f"drt_library_bytes {float(size)}" in client.get("/metrics").text
    assert send(serve(max_library=2 * size), "a.txt", HANDBOOK.encode()).status_code == 201


def test_a_folder_of_many_segments_is_measured_again_only_if_it_changed(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from drt._server import service

    size, looked_at = client.app.state.service.library_bytes(), []
    measure = service._engine.folder_bytes
    monkeypatch.setattr(
        service._engine,
        "folder_bytes",
        lambda folder: looked_at.append(folder.name) or measure(folder),
    )
    for _ in range(2):
        assert client.app.state.service.library_bytes() == size
    assert "segments" not in looked_at
    assert send(client, "more.txt", b"The boat comes on Fridays.").status_code == 201
    assert client.app.state.service.library_bytes() > size
    assert looked_at.count("segments") == 1


def test_more_uploads_than_are_read_are_refused(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    from drt._server import service

    monkeypatch.setattr(service, "UPLOADS", 1)
    client = serve()
    with client.app.state.service.uploading():
        refused = send(client, "a.txt", HANDBOOK.encode())
    assert refused.status_code == 429 and refused.headers["retry-after"]
    for name in ("", "a.txt", "b.txt"):  # one that failed counts no longer, either
        accepted = send(client, name, HANDBOOK.encode(), accept="text/event-stream")
    assert accepted.status_code == 200 and "report" in accepted.text


def test_a_full_disk_is_said(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any, **options: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device", "/secret/place")

    client = serve()
    monkeypatch.setattr(tempfile, "mkstemp", full)
    response = send(client, "a.txt", HANDBOOK.encode())
    assert response.status_code == 507 and "disk is full" in response.text
    assert "secret" not in response.text


def test_a_read_only_server_takes_and_removes_nothing(serve: Serve) -> None:
    client = serve(read_only=True)
    assert send(client, "a.txt", b"text").status_code == 403
    assert client.delete("/v1/documents/x").status_code == 403


@pytest.mark.parametrize("query", ["start=-1", "start=x", "end=1e9", "start=" + "9" * 30])
def test_places_that_are_no_numbers_are_refused(client: Client, query: str) -> None:
    assert client.get(f"/v1/documents/handbook.txt/text?{query}").status_code == 400


def test_formats_are_listed(client: Client) -> None:
    assert any(".pdf" in one["suffixes"] for one in client.get("/v1/formats").json()["formats"])


def test_tags_are_given_changed_and_filtered_by(client: Client) -> None:
    files = {"file": ("coal.md", b"# Coal\n\nThe coal comes on Tuesday.\n")}
    sent = client.post("/v1/documents", files=files, data={"tag": ["mail", "may"]})
    assert sent.json()["documents"][0]["tags"] == ["mail", "may"]
    bad = client.post("/v1/documents", files=files, data={"tag": ["two words"]})
    assert bad.status_code == 400 and "two words" in bad.json()["error"]["message"]

    def titles(query: str) -> list[str]:
        documents = client.get(f"/v1/documents?{query}").json()["documents"]
        return [document["source"] for document in documents]

    assert titles("tag=mail&tag=may&type=md&since=1990") == ["coal.md"]
    assert titles("type=txt") == ["handbook.txt"]
    assert client.get("/v1/documents?tag=none").status_code == 404
    assert client.get("/v1/documents?since=soon").status_code == 400
    changed = client.patch("/v1/documents/coal.md", json={"add": ["read"], "remove": ["may"]})
    assert changed.json()["tags"] == ["mail", "read"]
    for body in ({"add": "read"}, {"put": []}, {"add": ["a b"]}):
        assert client.patch("/v1/documents/coal.md", json=body).status_code == 400


def test_filters_leave_a_part_for_questions_and_summaries(client: Client) -> None:
    files = {"file": ("coal.md", b"# Coal\n\nThe coal comes on Tuesday.\n")}
    client.post("/v1/documents", files=files, data={"tag": "mail"})
    search = {"query": "notice", "retriever": "lexical", "tags": ["mail"]}
    assert client.post("/v1/search", json=search).json()["hits"] == []
    part = {"tags": "mail", "since": "1990"}
    summary = client.post("/v1/summarize", json=part).json()
    assert [one["source"] for one in summary["sentences"]] == ["coal.md"], summary
    assert client.post("/v1/summarize", json={}).status_code == 400
    for pages in ([1], [3, 1], [1, 2, 3], "1-2"):
        body = {"question": "Which period?", "pages": pages}
        assert client.post("/v1/ask", json=body).status_code == 400, pages
    assert client.post("/v1/summarize", json={"since": "1990-02-31"}).status_code == 400


def test_another_server_may_delete_the_empty_folder_of_uploads(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = serve()
    folder = client.app.state.service.uploads
    made = tempfile.mkstemp
    deleted: list[str] = []

    def late(*, prefix: str, dir: Path) -> tuple[int, str]:
        if dir == folder and not deleted:
            dir.rmdir()
            deleted.append(prefix)
        return made(prefix=prefix, dir=dir)

    monkeypatch.setattr(tempfile, "mkstemp", late)
    assert send(client, "handbook.txt", HANDBOOK.encode()).status_code == 201
    assert deleted and list(folder.iterdir()) == []


def test_servers_of_a_library_read_uploads_of_one_name_in_turn(tmp_path: Path) -> None:
    from drt._server.shared_folder import only_one

    place = tmp_path / "terms.txt"
    turns: list[str] = []
    first, waits = threading.Event(), threading.Event()

    def read(number: int) -> None:
        if number:
            first.wait()
            waits.set()
        with only_one(place):
            turns.append(f"{number} begins")
            if not number:
                first.set()
                waits.wait()
                time.sleep(0.05)  # the other waits for the lock of a file that is deleted then
            turns.append(f"{number} ends")

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(read, range(3)))
    assert turns[:2] == ["0 begins", "0 ends"]
    assert sorted(turns[2:4]) in (["1 begins", "1 ends"], ["2 begins", "2 ends"])
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_stopped_keeps_no_conversation_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from drt._server import shared_folder

    monkeypatch.setattr(shared_folder, "PATIENCE", 0.05)
    name = "desk " * 100  # longer than a file's name
    folder = tmp_path / "uploads"
    with shared_folder.conversation_lock(folder, name):
        with pytest.raises(TimeoutError), shared_folder.conversation_lock(folder, name):
            pass
        with shared_folder.conversation_lock(folder, "another"):
            pass
    with shared_folder.conversation_lock(folder, name):
        pass
    assert list(folder.iterdir()) == []
