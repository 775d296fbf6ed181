"""Requests' bodies: their JSON Schemas, made from the SDK's types, and checking them.

The same schemas are in the OpenAPI document. Options that the SDK gains are accepted by themselves.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
from starlette.exceptions import HTTPException
from starlette.requests import Request

from .._assistant import Assistant
from .._types import AskOptions, DocumentInfo

Schema = dict[str, Any]
QUESTION_CHARACTERS = 20_000
DOCUMENTS = 1000  # that one request may name
TAGS = 100
_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 1000}
_PLAIN: dict[object, Schema] = {
    str: {"type": "string", "maxLength": QUESTION_CHARACTERS},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
}
WITHHELD = frozenset({"self", "progress", "return"})  # what is Python's


def _of(kind: object) -> Schema | None:
    """Return the schema of an option's type, None where it has no form in JSON."""
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return {"enum": list(inside)}
    if origin in (typing.Union, types.UnionType):
        members = [schema for schema in map(_of, inside) if schema is not None]
        return {"anyOf": members} if members else None
    if origin is tuple and Ellipsis not in inside:
        count = len(inside)
        return {"type": "array", "items": _of(inside[0]), "minItems": count, "maxItems": count}
    if origin in (list, tuple, Sequence):
        items = _of(inside[0])
        return None if items is None else {"type": "array", "items": items, "maxItems": DOCUMENTS}
    return None  # DocumentInfo, paths and functions


def _object(properties: Schema, *required: str) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _options(hints: dict[str, object]) -> Schema:
    """Return the schemas of options that can be sent."""
    named = {name: _of(hint) for name, hint in hints.items() if name not in WITHHELD}
    return {name: schema for name, schema in named.items() if schema is not None}


def _parameters(name: str) -> Schema:
    """Return the schemas of the parameters of a method of ``Assistant``."""
    method = getattr(Assistant, name)
    types = {"StrPath": str, "Path": Path, "DocumentInfo": DocumentInfo}
    hints = typing.get_type_hints(method, localns=types)
    for name, hint in list(hints.items()):
        if typing.get_origin(hint) is typing.Unpack:  # as in ``**options: Unpack[SearchOptions]``
            del hints[name]
            hints |= typing.get_type_hints(typing.get_args(hint)[0])
    return _options(hints)


@cache
def body_schema(name: str) -> Schema:
    """Return the schema of the body of a route: ask, trace, search, summarize, tag, rename."""
    question: Schema = {"type": "string", "minLength": 1, "maxLength": QUESTION_CHARACTERS}
    options = _options(typing.get_type_hints(AskOptions))
    if name == "ask":
        stream = {"type": "boolean", "description": "answer as server-sent events"}
        session = {**_NAME, "description": "the conversation to continue and store, by name"}
        writer = {"type": "boolean", "description": "let the server's writer write the answer"}
        ask_options = {"session": session, "stream": stream, "writer": writer}
        return _object({"question": question, **options, **ask_options}, "question")
    if name == "trace":
        return _object({"question": question, **options}, "question")
    if name == "rename":
        return _object({"name": _NAME}, "name")
    if name == "summarize":
        parameters = _parameters("summarize")
        parameters.pop("document", None)
        documents = {"type": "array", "items": _NAME, "minItems": 1, "maxItems": DOCUMENTS}
        # A date alone: anything else would name a file of the server.
        return _object({"documents": documents, **parameters, "since": {"type": "string"}})
    if name == "tag":
        tags = {"type": "array", "items": _NAME, "maxItems": TAGS}
        return _object({"add": tags, "remove": tags})
    parameters = _parameters(name)
    return _object(parameters, next(iter(parameters)))


@cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(body_schema(name))


async def read_object(request: Request) -> dict[str, Any]:
    """Return the JSON object that a request holds; 400 where it holds something else."""
    content = await request.body()
    try:
        value = json.loads(content, parse_float=_number)
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body is no JSON; send one JSON object.") from None
    if not isinstance(value, dict):
        raise HTTPException(400, "the body is JSON, but no object; send one JSON object.")
    return value


def _number(text: str) -> int | float:
    """Return 3.0 as 3: a JSON Schema's integers may be written so, and Python's are not."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 1 << 53 else value


async def read_body(request: Request, name: str) -> dict[str, Any]:
    """Return a request's JSON object, checked by its schema; 400 says where it differs."""
    value = await read_object(request)
    expect_short_lists(value)
    problem = jsonschema.exceptions.best_match(_validator(name).iter_errors(value))
    if problem is not None:
        where = ".".join(map(str, problem.absolute_path))
        message = problem.message
        if len(message) > 300:
            message = f"{message[:120]} ... {message[-120:]}"
        raise HTTPException(400, f"{where or 'the body'}: {message}; /openapi.json has the schema.")
    return value


def expect_short_lists(value: dict[str, Any]) -> None:
    """Refuse lists that no schema here allows, with 400: each item would be validated first."""
    for name, item in value.items():
        if isinstance(item, list) and len(item) > DOCUMENTS:
            raise HTTPException(
                400, f"{name[:40]}: {len(item):,} items, expected at most {DOCUMENTS:,}."
            )


def flag(request: Request, name: str) -> bool:
    """Return whether a parameter of the address is set: 1 or true."""
    return request.query_params.get(name, "").lower() in ("1", "true")


def number(request: Request, name: str, default: int, *, maximum: int) -> int:
    """Return a number of the address, from 0 to ``maximum``; 400 for anything else."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 16 and int(text) <= maximum):
        raise HTTPException(
            400, f"{name} is {text[:40]!r}, expected a number from 0 to {maximum:,}."
        )
    return int(text)
