"""The application: every route with its schemas, in one table, and the life of the service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .._errors import ConfigError, DrtError
from . import answers, chat_completions, documents, sessions, writing
from .errors import respond
from .guard import Guard
from .metrics import MEDIA_TYPE
from .openapi import Operation, openapi
from .pages import page_routes
from .service import Service, service_of

if TYPE_CHECKING:
    from .._assistant import Assistant
    from .options import ServeOptions
    from .tracing import Tracing


async def health(request: Request) -> Response:  # noqa: ARG001  a route's signature
    """Say that the server answers."""
    return JSONResponse({"status": "ok"})


async def ready(request: Request) -> Response:
    """Say whether questions can be answered now; 503 and one word where they cannot."""
    problem = await run_in_threadpool(service_of(request).problem)
    if problem is None:
        return JSONResponse({"status": "ready"})
    return JSONResponse({"status": "not ready", "reason": problem}, 503)


async def metrics(request: Request) -> Response:
    """Return counters and timings in Prometheus' text format."""
    text = await run_in_threadpool(service_of(request).metrics.text)  # it looks at folders
    return Response(text, media_type=MEDIA_TYPE)


async def describe(request: Request) -> Response:
    """Return this description."""
    return JSONResponse(request.app.state.description)


def operations(*, with_search: bool) -> list[Operation]:
    """Return every operation of the server."""
    document, session = "/v1/documents/{document}", "/v1/sessions/{session}"
    search = Operation("POST", "/v1/search", answers.search, body="search", response="search")
    return [
        Operation(
            "POST",
            "/v1/ask",
            answers.ask,
            body="ask",
            response="ask",
            alternative="ask-written",
            events="ask-line",
        ),
        *([search] if with_search else []),
        Operation(
            "POST", "/v1/summarize", answers.summarize, body="summarize", response="summarize"
        ),
        Operation("POST", "/v1/trace", answers.trace, body="trace", response="trace"),
        Operation(
            "GET",
            "/v1/documents",
            documents.list_documents,
            response="document-list",
            query={
                "tag": "only documents with this tag; may be repeated",
                "type": "only documents of this format; may be repeated",
                "since": "only documents of this day, month or year, or later",
                "limit": "at most so many documents, 1,000 without it",
                "after": "the documents after this one: the next of the response before",
            },
        ),
        Operation("POST", "/v1/documents", documents.upload, body="upload", response="ingest"),
        Operation("GET", document, documents.show_document, response="library-show"),
        Operation("PATCH", document, documents.tag_document, body="tag", response="library-show"),
        Operation(
            "DELETE",
            document,
            documents.remove_document,
            response="library-show",
            query={
                "forget": "1 leaves no byte of the document",
                "undoable": "1 keeps it until the library is compacted, for undo-remove",
            },
        ),
        Operation("GET", "/v1/removed", documents.list_removed, response="library-list"),
        Operation(
            "POST",
            "/v1/removed/{document}/undo",
            documents.undo_remove,
            response="library-show",
        ),
        Operation(
            "GET",
            f"{document}/text",
            documents.document_text,
            query={"start": "first character", "end": "character after the last"},
        ),
        Operation(
            "GET",
            "/v1/passages/{handle}",
            documents.show_passage,
            response="show",
            query={"around": "characters before and after"},
        ),
        Operation(
            "GET",
            "/v1/pages/{handle}",
            documents.show_page,
            query={
                "width": "pixels, 200 to 2400",
                "page": "another page of the same file",
                "plain": "1 marks no quote",
            },
        ),
        Operation("GET", "/v1/formats", documents.list_formats),
        Operation(
            "GET",
            "/v1/sessions",
            sessions.list_sessions,
            response="session-list",
            alternative="session-search",
            query={"words": "return the turns that contain all these words"},
        ),
        Operation("GET", session, sessions.show_session, response="session-show"),
        Operation("PATCH", session, sessions.rename_session, body="rename"),
        Operation("DELETE", session, sessions.delete_session),
        Operation(
            "GET",
            "/v1/export",
            sessions.export,
            media_type="text/plain",
            query={
                "session": "the conversation",
                "turn": "number of the answer in it, from 1",
                "format": "markdown, html, obsidian, bibtex or csl-json",
            },
        ),
        Operation("POST", "/v1/chat/completions", chat_completions.complete, body="chat"),
        Operation("GET", "/v1/models", chat_completions.list_models),
        Operation("GET", "/v1/models/{model}", chat_completions.show_model),
        Operation("GET", "/v1/writer", writing.show_writer),
        Operation("GET", "/healthz", health),
        Operation("GET", "/readyz", ready),
        Operation("GET", "/metrics", metrics, media_type=MEDIA_TYPE.partition(";")[0]),
        Operation("GET", "/openapi.json", describe),
    ]


def make_app(assistant: Assistant, options: ServeOptions) -> Starlette:
    """Return the application; it loads the model when it starts and closes nothing of yours."""
    tracing = _tracing() if options.traces else None
    service = Service(assistant, options, tracing=tracing)
    table = operations(with_search=hasattr(assistant, "search"))
    app = Starlette(
        routes=[
            *page_routes(),
            *(Route(_pattern(item.path), item.handler, methods=[item.method]) for item in table),
        ],
        middleware=[
            *_traced(tracing),
            Middleware(Guard, options=options, metrics=service.metrics),
        ],
        # What is caught as an Exception alone is raised again, for the log of the ASGI server.
        exception_handlers={
            ClientDisconnect: respond,
            HTTPException: respond,
            DrtError: respond,
            Exception: respond,
        },
        lifespan=_lifespan,
    )
    app.state.service = service
    app.state.description = openapi(table)
    return app


def _tracing() -> Tracing:
    """Return where traces go; raises ``ConfigError`` without the extra ``otel``."""
    try:
        from .tracing import Tracing
    except ImportError as error:
        raise ConfigError(
            f"the package {error.name} is not installed;"
            ' pip install "drt-assistant[otel]" installs it.'
        ) from error
    return Tracing()


def _traced(tracing: Tracing | None) -> list[Middleware]:
    if tracing is None:
        return []
    from .tracing import Traced

    return [Middleware(Traced, tracing=tracing)]


def _pattern(path: str) -> str:
    """Return the path as it is matched: names of conversations may hold slashes."""
    return path.replace("{session}", "{session:path}")


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    service: Service = app.state.service
    await service.questions.prepare(service.load)
    yield
    # Not after a cancellation, by a second signal: it would wait for what runs.
    await run_in_threadpool(service.close)
    if service.tracing is not None:
        await run_in_threadpool(service.tracing.close)
