"""The OpenAPI document, made from the table of routes and the schemas that the SDK publishes."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from .._schemas import schema
from .._version import __version__
from .bodies import Schema, body_schema

_ERROR: Schema = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {},
                "code": {"type": "integer"},
            },
            "required": ["message", "type", "code"],
        }
    },
    "required": ["error"],
}
_FILES: Schema = {"type": "array", "items": {"type": "string", "format": "binary"}}
_UPLOAD: Schema = {
    "type": "object",
    "properties": {"file": _FILES, "tag": {"type": "array", "items": {"type": "string"}}},
    "required": ["file"],
}
_CHAT: Schema = {
    "type": "object",
    "description": "as OpenAI's; `drt` holds options of /v1/ask",
    "properties": {
        "model": {"type": "string"},
        "messages": {"type": "array", "items": {"type": "object"}, "minItems": 1},
        "stream": {"type": "boolean"},
        "drt": {"type": "object"},
    },
    "required": ["messages"],
}


@dataclass(frozen=True)
class Operation:
    """One method of one path: what handles it, and the names of its schemas.

    ``alternative`` names that of what is returned where the request asks for more, ``events`` that
    of the data of its server-sent events; ``media_type`` is what is returned; ``query`` says what
    each parameter of the address means.
    """

    method: str
    path: str
    handler: Callable[[Request], Awaitable[Response]]
    body: str | None = None
    response: str | None = None
    alternative: str | None = None
    events: str | None = None
    media_type: str = "application/json"
    query: Mapping[str, str] = field(default_factory=dict)


def openapi(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of these operations."""
    paths: dict[str, dict[str, Any]] = {}
    names = {
        name
        for item in operations
        for name in (item.response, item.alternative, item.events)
        if name
    }
    for item in operations:
        paths.setdefault(item.path, {})[item.method.lower()] = _described(item)
    bearer = {"type": "http", "scheme": "bearer"}
    return {
        "openapi": "3.1.0",
        "info": {"title": "drt", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {name: schema(name) for name in sorted(names)} | {"error": _ERROR},
            "securitySchemes": {"token": bearer},
        },
        "security": [{}, {"token": []}],
    }


def _described(item: Operation) -> dict[str, Any]:
    summary = (item.handler.__doc__ or "").split("\n")[0]
    content = {item.media_type: {"schema": _response(item)}}
    if item.events is not None:
        content["text/event-stream"] = {"schema": _named(item.events)}
    values: dict[str, Any] = {
        "operationId": getattr(item.handler, "__name__", item.path),
        "summary": summary,
        "parameters": [*_path_parameters(item.path), *_query_parameters(item.query)],
        "responses": {
            "200": {"description": "done", "content": content},
            "default": {
                "description": "an error, in one sentence",
                "content": {"application/json": {"schema": _named("error")}},
            },
        },
    }
    if item.body is not None:
        values["requestBody"] = {"required": True, "content": _body(item.body)}
    return values


def _response(item: Operation) -> Schema:
    if item.alternative is None:
        return _named(item.response)
    return {"oneOf": [_named(item.response), _named(item.alternative)]}


def _named(name: str | None) -> Schema:
    return {} if name is None else {"$ref": f"#/components/schemas/{name}"}


def _body(name: str) -> dict[str, Any]:
    if name == "upload":
        return {"multipart/form-data": {"schema": _UPLOAD}}
    return {"application/json": {"schema": _CHAT if name == "chat" else body_schema(name)}}


def _path_parameters(path: str) -> list[dict[str, Any]]:
    text: Schema = {"type": "string"}
    return [
        {"name": name, "in": "path", "required": True, "schema": text}
        for name in re.findall(r"\{(\w+)\}", path)
    ]


def _query_parameters(query: Mapping[str, str]) -> list[dict[str, Any]]:
    text: Schema = {"type": "string"}
    return [
        {"name": name, "in": "query", "required": False, "schema": text, "description": meaning}
        for name, meaning in query.items()
    ]
