"""Responses: values without folders of the server, and server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import PurePath
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse

from .errors import described, strip_paths
from .service import Service, service_of

EVENTS = "text/event-stream"
INSIDE = "!/"  # between an archive and the name of its member
Event = tuple[str, dict[str, Any]]


SENTENCES = frozenset({"reason", "notes"})  # that drt itself wrote, and which may name a folder


def public(value: Any, service: Service) -> Any:
    """Return plain values in which files and libraries have their names alone."""
    if isinstance(value, dict):
        return {name: _public(name, item, service) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [public(item, service) for item in value]
    return value


def _public(name: str, value: Any, service: Service) -> Any:
    if name == "source" and isinstance(value, str):
        return source_name(value)
    if name == "library" and isinstance(value, str):
        return service.folder_names.get(value, PurePath(value).name)
    if name in SENTENCES:
        return described_values(value, service)
    return public(value, service)


def described_values(value: Any, service: Service) -> Any:
    """Return plain values of which no sentence names a folder of the server."""
    if isinstance(value, dict):
        return {name: described_values(item, service) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [described_values(item, service) for item in value]
    return strip_paths(value, service) if isinstance(value, str) else value


def source_name(source: str) -> str:
    """Return a source without its folder, as in ``letters.zip!/may/first.eml``."""
    file, mark, member = source.partition(INSIDE)
    return PurePath(file).name + mark + member


def reply(service: Service, value: Any, status: int = 200) -> JSONResponse:
    """Return a JSON response without folders of the server."""
    return JSONResponse(public(value, service), status)


def wants_events(request: Request) -> bool:
    """Return whether a client asks for server-sent events."""
    return EVENTS in request.headers.get("accept", "")


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
    return StreamingResponse(lines, media_type=EVENTS, headers={"X-Accel-Buffering": "no"})


async def _lines(items: AsyncIterator[Event], service: Service) -> AsyncIterator[str]:
    try:
        async for name, value in items:
            yield event(name, public(value, service))
    except Exception as error:
        _, body = described(error, service)
        yield event("error", body)
