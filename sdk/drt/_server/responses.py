"""Responses: values without folders of the server, and server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import PurePath
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse

from .errors import described
from .service import Service, service_of

INSIDE = "!/"  # between an archive and the name of its member
Event = tuple[str, dict[str, Any]]


def public(value: Any) -> Any:
    """Return plain values in which a document's source is the file's name alone."""
    if isinstance(value, dict):
        return {
            name: source_name(item) if name == "source" and isinstance(item, str) else public(item)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [public(item) for item in value]
    return value


def source_name(source: str) -> str:
    """Return a source without its folder, as in ``letters.zip!/may/first.eml``."""
    file, mark, member = source.partition(INSIDE)
    return PurePath(file).name + mark + member


def reply(value: Any, status: int = 200) -> JSONResponse:
    """Return a JSON response without folders of the server."""
    return JSONResponse(public(value), status)


def wants_events(request: Request) -> bool:
    """Return whether a client asks for server-sent events."""
    return "text/event-stream" in request.headers.get("accept", "")


def event(name: str | None, value: Any) -> str:
    """Return one server-sent event; without a name it is only data, as OpenAI's are."""
    head = "" if name is None else f"event: {name}\n"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"{head}data: {text}\n\n"


def events(request: Request, items: AsyncIterator[Event]) -> StreamingResponse:
    """Stream events; an error is the last one, as its JSON."""
    return stream(_lines(items, service_of(request)))


def stream(lines: AsyncIterator[str]) -> StreamingResponse:
    """Stream lines that are events already."""
    return StreamingResponse(
        lines, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )


async def _lines(items: AsyncIterator[Event], service: Service) -> AsyncIterator[str]:
    try:
        async for name, value in items:
            yield event(name, public(value))
    except Exception as error:
        _, body = described(error, service)
        yield event("error", body)
