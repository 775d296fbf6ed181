"""Routes of documents: upload, list, show, tag, text, remove and undo it, passages and pages.

An upload is written to a file, read by the same readers as any other file, and deleted; PDFs are
kept within a limit, to show their pages. It is acknowledged once the library holds it for good: a
server that is killed before leaves what it had read, and sending the file again goes on there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from .._errors import lacks_descriptors
from .._formats import formats
from .._passages import page_image, passage
from .._types import DocumentInfo, FormatInfo, IngestProgress, IngestReport, IngestResult
from .._writer.reasons import strip_folders
from .bodies import flag, number, read_body
from .responses import Event, described_values, events, reply, wants_events
from .service import Service, service_of
from .shared_folder import new_file, only_one

FILES = 64  # of one upload
LISTED = 1_000  # documents of one response, unless asked for
MOST_LISTED = 10_000
NAME_BYTES = 200
TEXT_CHARACTERS = 1_000_000  # of one response
AROUND = 10_000
MAX_WIDTH = 2_400  # pixels of a page


async def list_documents(request: Request) -> Response:
    """List documents of the library, all or those of a tag, a format or a time, in pages."""
    service, parameters = service_of(request), request.query_params
    limit = max(1, number(request, "limit", LISTED, maximum=MOST_LISTED))
    documents = await run_in_threadpool(
        service.library.documents,
        tags=parameters.getlist("tag"),
        types=parameters.getlist("type"),
        since=parameters.get("since"),
        after=parameters.get("after"),
        limit=limit + 1,
    )
    following = documents[limit - 1].id if len(documents) > limit else None
    return _documents_reply(service, documents[:limit], next=following)


def _documents_reply(service: Service, documents: list[DocumentInfo], **more: Any) -> Response:
    rows = [document.to_dict() for document in documents]
    return reply(service, {"library": service.library.path.name, "documents": rows, **more})


async def show_document(request: Request) -> Response:
    """Describe one document, by id, the start of an id, title or file name."""
    service = service_of(request)
    document = await run_in_threadpool(service.library.show, _named(request))
    return reply(service, document.to_dict())


async def document_text(request: Request) -> Response:
    """Return the text of a document, or of a part of it: citations count its characters."""
    service, name = service_of(request), _named(request)
    library = service.library
    start = number(request, "start", 0, maximum=10**12)
    document = await run_in_threadpool(library.show, name)
    end = number(request, "end", start + TEXT_CHARACTERS, maximum=10**12)
    end = min(end, start + TEXT_CHARACTERS, document.characters)
    text = await run_in_threadpool(library.text, document, start, max(start, end))
    return reply(
        service,
        {
            "document": document.id,
            "title": document.title,
            "characters": document.characters,
            "start": start,
            "end": start + len(text),
            "text": text,
        },
    )


async def show_passage(request: Request) -> Response:
    """Return a cited passage with the text around it, by its handle."""
    around = number(request, "around", 400, maximum=AROUND)
    service, handle = service_of(request), str(request.path_params["handle"])
    show = partial(passage, service.library, handle, around=around)
    cited = await run_in_threadpool(show)
    return reply(service, cited.to_dict())


async def show_page(request: Request) -> Response:
    """Return the page of a PDF that a citation is on as a picture, the quote in yellow."""
    service, handle = service_of(request), str(request.path_params["handle"])
    page = number(request, "page", 0, maximum=10**6)
    width = number(request, "width", 1200, maximum=MAX_WIDTH)
    marked = not flag(request, "plain")
    draw = partial(
        page_image, service.library, handle, page=page or None, width=width, marked=marked
    )
    image = await service.draw(draw)
    return reply(service, image.to_dict())


async def list_formats(request: Request) -> Response:
    """List the formats that can be read."""
    entries = await run_in_threadpool(formats)
    return reply(service_of(request), {"formats": [_format(entry) for entry in entries]})


def _format(entry: FormatInfo) -> dict[str, Any]:
    """Return a format; why a plug-in's fails may be a sentence with the path of its file."""
    problem = strip_folders(entry.problem) if entry.problem else None
    return entry.to_dict() | {"problem": problem}


async def remove_document(request: Request) -> Response:
    """Remove a document; with ``forget`` no byte of it stays, ``undoable`` keeps it for a while."""
    service = service_of(request)
    _expect_writing(service)
    forget, undoable = flag(request, "forget"), flag(request, "undoable")
    if forget and undoable:
        raise HTTPException(400, "forget leaves nothing to bring back; leave out undoable.")
    work = partial(service.library.remove, _named(request), forget=forget, undoable=undoable)
    document = await asyncio.get_running_loop().run_in_executor(service.writing, work)
    return reply(service, document.to_dict())


async def list_removed(request: Request) -> Response:
    """List the removed documents that can be brought back, the last one first."""
    service = service_of(request)
    documents = await run_in_threadpool(service.library.removed)
    return _documents_reply(service, documents)


async def undo_remove(request: Request) -> Response:
    """Bring a removed document back."""
    service = service_of(request)
    _expect_writing(service)
    work = partial(service.library.undo_remove, _named(request))
    document = await asyncio.get_running_loop().run_in_executor(service.writing, work)
    return reply(service, document.to_dict())


async def tag_document(request: Request) -> Response:
    """Give a document tags and take some away."""
    service = service_of(request)
    _expect_writing(service)
    body = await read_body(request, "tag")
    work = partial(service.library.tag, _named(request), **body)
    document = await asyncio.get_running_loop().run_in_executor(service.writing, work)
    return reply(service, document.to_dict())


async def upload(request: Request) -> Response:
    """Read files into the library, with tags if there are; the report is that of ``drt ingest``."""
    service = service_of(request)
    _expect_writing(service)
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise HTTPException(415, 'send the files as multipart/form-data, each as a field "file".')
    await run_in_threadpool(service.expect_space)
    with contextlib.ExitStack() as stack:
        stack.enter_context(service.uploading())
        files, tags = await _received(request, service)
        # Reading goes on where the client leaves: what was sent is read, as a command would.
        items = _started(service, files, tags, finished=stack.pop_all().close)
    if wants_events(request):
        return events(request, items)
    report = None
    async for name, value in items:
        report = value if name == "report" else report
    assert report is not None
    if report["failures"] and not report["documents"]:
        raise HTTPException(422, " ".join(failure["message"] for failure in report["failures"]))
    status = 201 if any(document["new"] for document in report["documents"]) else 200
    return reply(service, report, status)


async def _received(request: Request, service: Service) -> tuple[list[tuple[str, Path]], list[str]]:
    """Return the names of the files that a form holds, each with a copy of it, and the tags."""
    files: list[tuple[str, Path]] = []
    try:
        async with request.form(max_files=FILES, max_fields=FILES) as form:
            tags = [tag for tag in form.getlist("tag") if isinstance(tag, str)]
            for part in form.getlist("file"):
                if not isinstance(part, UploadFile):
                    raise HTTPException(400, 'the field "file" has no file name; send a file.')
                name = safe_name(part.filename or "")
                copy = partial(_copy, part, service.uploads)
                files.append((name, await run_in_threadpool(copy)))
        if not files:
            raise HTTPException(400, 'the form holds no file; send files as fields "file".')
    except BaseException:
        _delete(path for _, path in files)
        raise
    return files, tags


def safe_name(name: str) -> str:
    """Return the file's name without any folder; 400 where it is none that a file may have."""
    last = PurePosixPath(name.replace("\\", "/")).name
    try:
        size = len(last.encode())
    except UnicodeEncodeError:
        size = NAME_BYTES + 1
    if not last or last.startswith(".") or not last.isprintable() or size > NAME_BYTES:
        raise HTTPException(
            400,
            f"a file is called {last[:40]!r}; expected 1 to {NAME_BYTES} bytes of printable"
            " characters that do not begin with a dot.",
        )
    return last


def _named(request: Request) -> str:
    return str(request.path_params["document"])


def _expect_writing(service: Service) -> None:
    if service.options.read_only:
        raise HTTPException(403, "this server is read-only; it takes and removes no documents.")
    if service.library.several:
        raise HTTPException(
            403,
            "this server asks several libraries as one and changes none of them; serve one of them,"
            " or read documents into it with `drt ingest`.",
        )


def _copy(part: UploadFile, folder: Path) -> Path:
    """Copy a part to a file of its own; return its path."""
    descriptor, path = new_file(folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            while piece := part.file.read(1 << 20):
                file.write(piece)
    except BaseException:
        _delete([Path(path)])
        raise
    return Path(path)


def _delete(paths: Any) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()


def _started(
    service: Service,
    files: list[tuple[str, Path]],
    tags: list[str],
    *,
    finished: Callable[[], None],
) -> AsyncIterator[Event]:
    """Read the files in the writer's thread; return its progress, each result, and the report."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Event | None] = asyncio.Queue()

    def emit(item: Event | None) -> None:
        loop.call_soon_threadsafe(queue.put_nowait, item)

    work = partial(_read, service, files, tags=tags, emit=emit)
    job = loop.run_in_executor(service.writing, work)

    def end(_: object) -> None:
        queue.put_nowait(None)
        finished()
        with contextlib.suppress(asyncio.CancelledError):
            job.exception()  # nobody else may ask for it, where the client has left

    job.add_done_callback(end)

    async def items() -> AsyncIterator[Event]:
        while (item := await queue.get()) is not None:
            yield item
        await job

    return items()


def _read(
    service: Service,
    files: list[tuple[str, Path]],
    *,
    tags: list[str],
    emit: Callable[[Event], None],
) -> None:
    """Read files one after the other, each under its own name, and delete them."""
    results: list[IngestResult] = []
    try:
        for name, path in files:
            place, is_kept = service.uploads / name, False
            with only_one(place):
                path.replace(place)
                try:
                    for result in _ingested(service, place, tags=tags, emit=emit):
                        if result.error is not None and lacks_descriptors(result.error):
                            raise result.error
                        results.append(result)
                        emit(("document", described_values(result.to_dict(), service)))
                    is_kept = service.keep_pdf(place)
                finally:
                    if not is_kept:
                        _delete([place])
    finally:
        _delete(path for _, path in files)
    emit(("report", described_values(IngestReport.of(results).to_dict(), service)))


def _ingested(
    service: Service, place: Path, *, tags: list[str], emit: Callable[[Event], None]
) -> Iterator[IngestResult]:
    assert service.writer is not None

    def report(step: IngestProgress) -> None:
        emit(("progress", {**vars(step)}))

    for result in service.writer.ingest_each(place, tags=tags, progress=report):
        service.metrics.count_tokens(result.tokens)
        yield result
