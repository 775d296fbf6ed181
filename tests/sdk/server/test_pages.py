"""Pages of PDFs over HTTP: uploads are kept for it, within a limit, and deleted with them."""

from __future__ import annotations

import base64
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from drt import (
    Assistant,
    ConfigError,
    MissingExtraError,
    NotFoundError,
    UnreadableDocumentError,
    page_image,
)
from drt_engine.documents.formats import format_named
from tests.engine.documents.helpers import make_pdf
from tests.sdk.server.conftest import HANDBOOK, Client, Serve
from tests.sdk.server.test_documents import send

pytest.importorskip("pypdfium2")
LINES = ["The handbook begins.", "The notice period is thirty days."]
PDF = make_pdf([["A page before."], LINES])


def handle_of(client: Client, question: str = "Which period?") -> str:
    answer = client.post("/v1/ask", json={"question": question}).json()
    return str(answer["citations"][0]["handle"])


def kept(client: Client) -> list[str]:
    uploads: Path = client.app.state.service.uploads
    return sorted(path.name for path in uploads.iterdir())


def test_an_uploaded_pdf_shows_its_page(serve: Serve) -> None:
    client = serve()
    assert send(client, "Report.PDF", PDF).status_code == 201
    assert kept(client) == ["Report.PDF"]
    page = client.get(f"/v1/pages/{handle_of(client)}", params={"width": 400}).json()
    assert (page["page"], page["pages"], page["width"]) == (2, 2, 400)
    assert base64.b64decode(page["png"]).startswith(b"\x89PNG")
    ((left, top, right, bottom),) = page["boxes"]
    assert 0 < left < right < 0.5 and 0 < top < bottom < 0.2
    other = client.get(f"/v1/pages/{handle_of(client)}", params={"page": 1, "width": 400}).json()
    assert other["page"] == 1 and other["boxes"] == []
    plain = client.get(f"/v1/pages/{handle_of(client)}", params={"plain": 1, "width": 400}).json()
    assert plain["page"] == 2 and plain["boxes"] == []


@pytest.mark.thorough
def test_what_cannot_be_shown_is_a_sentence(serve: Serve, assistant: Assistant) -> None:
    client = serve()
    send(client, "a.pdf", PDF)
    send(client, "handbook.txt", HANDBOOK.encode())
    pdf, text = (f"{document.id}:4-10" for document in assistant.library.documents())
    for handle, options, status, words in (
        (pdf, {"width": 100}, 400, "expected 200 to 2,400"),
        (pdf, {"width": 9999}, 400, "from 0 to 2,400"),
        (pdf, {"page": 7}, 422, "no page 7"),
        (text, {}, 404, "not a PDF"),
        ("nothing:1-2", {}, 404, "nothing"),
    ):
        response = client.get(f"/v1/pages/{handle}", params=options)
        assert response.status_code == status, response.json()
        assert words in response.json()["error"]["message"]
    (client.app.state.service.uploads / "a.pdf").write_bytes(PDF + b" ")
    changed = client.get(f"/v1/pages/{pdf}")
    assert changed.status_code == 422 and "has changed" in changed.json()["error"]["message"]
    (client.app.state.service.uploads / "a.pdf").unlink()
    gone = client.get(f"/v1/pages/{pdf}").json()["error"]["message"]
    assert "cannot be opened" in gone and str(assistant.library.path.parent) not in gone


@pytest.mark.thorough
def test_only_pdfs_of_documents_are_kept(serve: Serve) -> None:
    client = serve()
    send(client, "handbook.txt", HANDBOOK.encode())
    send(client, "broken.pdf", b"%PDF-1.4\n")
    send(client, "a.pdf", PDF)
    send(client, "copy.pdf", PDF)  # the same text: the document stays that of the first file
    assert kept(client) == ["a.pdf"]
    send(client, "a.pdf", make_pdf([["Another text."]]))
    assert kept(client) == ["a.pdf"]
    assert "Another text" in handle_text(client, handle_of(client, "Another?"))


def handle_text(client: Client, handle: str) -> str:
    passage = client.get(f"/v1/passages/{handle}").json()
    return str(passage["before"] + passage["quote"] + passage["after"])


@pytest.mark.thorough
def test_the_oldest_go_first_where_all_take_too_much(serve: Serve) -> None:
    pdfs = [make_pdf([[f"Text {number}."]]) for number in range(3)]
    client = serve(keep_pdfs=2 * len(pdfs[0]) + 10)
    for number, content in enumerate(pdfs):
        send(client, f"{number}.pdf", content)
        path = client.app.state.service.uploads / f"{number}.pdf"
        os.utime(path, (number + 1, number + 1))
    assert kept(client) == ["1.pdf", "2.pdf"]
    assert len(client.get("/v1/documents").json()["documents"]) == 3
    none = serve(keep_pdfs=0)
    send(none, "last.pdf", make_pdf([["The last one."]]))
    assert "last.pdf" not in kept(none)
    with pytest.raises(ConfigError, match="keep_pdfs"):
        serve(keep_pdfs=-1)


@pytest.mark.thorough
@pytest.mark.few(1)
@pytest.mark.parametrize("forget", [False, True])
def test_a_kept_file_goes_with_its_document(
    serve: Serve, assistant: Assistant, forget: bool
) -> None:
    client = serve()
    send(client, "a.pdf", PDF)
    (document,) = assistant.library.documents()
    if forget:  # by another process, as `drt library remove` does
        assistant.library.remove(document, undoable=True)
        assert kept(client) == ["a.pdf"]
        assistant.library.remove(document, forget=True, undoable=True)
    else:
        client.delete(f"/v1/documents/{document.id}")
    assert kept(client) == []


@pytest.mark.thorough
def test_a_document_that_is_brought_back_shows_its_page(serve: Serve, assistant: Assistant) -> None:
    client = serve()
    send(client, "a.pdf", PDF)
    handle = handle_of(client)
    (document,) = assistant.library.documents()
    assert client.delete(f"/v1/documents/{document.id}?undoable=1").status_code == 200
    client.app.state.service.close()
    again = serve()
    assert again.post(f"/v1/removed/{document.id}/undo").status_code == 200
    assert again.get(f"/v1/pages/{handle}", params={"width": 400}).json()["boxes"]
    assistant.library.remove(document, undoable=True)
    assistant.library.compact()  # as another process does
    assert kept(again) == []


@pytest.mark.thorough
def test_kept_files_outlive_the_server_and_others_do_not(
    serve: Serve, assistant: Assistant
) -> None:
    client = serve()
    send(client, "a.pdf", PDF)
    uploads: Path = client.app.state.service.uploads
    for name in ("left.pdf", ".received", "left.txt"):
        (uploads / name).write_text("left by a server that was killed")
        os.utime(uploads / name, (1, 1))
    again = serve()
    assert kept(again) == ["a.pdf"]
    again.app.state.service.close()
    assert [path.name for path in uploads.iterdir()] == ["a.pdf"]


@pytest.mark.thorough
def test_python_draws_a_page(assistant: Assistant, tmp_path: Path, monkeypatch: Any) -> None:
    file = tmp_path / "a.pdf"
    file.write_bytes(PDF)
    document = assistant.ingest(file)
    citation = assistant.ask("Which period?").citations[0]
    image = page_image(assistant.library, citation, width=300)
    assert (image.page, image.pages, image.width) == (2, 2, 300) and len(image.boxes) == 1
    assert image.citation.document == document.id and image.to_dict()["handle"] == citation.handle
    with pytest.raises(NotFoundError):
        page_image(assistant.library, f"{document.id}:900-901")
    file.rename(tmp_path / "b.pdf")
    with pytest.raises(UnreadableDocumentError, match="cannot be opened"):
        page_image(assistant.library, citation)
    file.mkdir()
    with pytest.raises(UnreadableDocumentError, match="it is no file|directory"):
        page_image(assistant.library, citation)
    assistant.library.export_archive(tmp_path / "all.drtlib")
    with Assistant(tmp_path / "other.library") as other:
        other.library.import_archive(tmp_path / "all.drtlib")
        with pytest.raises(UnreadableDocumentError, match="not known which file"):
            page_image(other.library, citation)


@pytest.mark.thorough
def test_without_its_extra_the_sentence_names_it(
    assistant: Assistant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.pdf").write_bytes(PDF)
    assistant.ingest(tmp_path / "a.pdf")
    citation = assistant.ask("Which period?").citations[0]
    monkeypatch.setattr(type(format_named("pdf")), "installed", False)
    with pytest.raises(MissingExtraError, match="drt-assistant"):
        page_image(assistant.library, citation)


@pytest.mark.thorough
def test_too_many_pages_at_once_are_refused(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    service = pytest.importorskip("drt._server.service")
    documents = pytest.importorskip("drt._server.documents")
    monkeypatch.setattr(service, "DRAWINGS", 1)
    go = threading.Event()
    slow = documents.page_image

    def page_image(*arguments: Any, **options: Any) -> Any:
        go.wait(20)
        return slow(*arguments, **options)

    monkeypatch.setattr(documents, "page_image", page_image)
    client = serve()
    send(client, "a.pdf", PDF)
    path = f"/v1/pages/{handle_of(client)}?width=300"
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.get, path)
        while not client.app.state.service._drawing:
            time.sleep(0.01)
        assert client.get(path).status_code == 429
        go.set()
        assert first.result().status_code == 200
    assert client.get(path).status_code == 200
