"""JSON Schemas (2020-12) of what ``to_dict`` and ``--json`` give, made from the result types.

A schema follows its type, so it cannot fall behind it; what a type does not say stands below.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable
from typing import Any

from . import _types
from ._errors import NotFoundError
from ._log import LogEntry
from ._plugins import PluginInfo

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]
_PLAIN: dict[object, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    Any: {},
}


def schemas() -> tuple[str, ...]:
    """Return the names that ``schema`` knows."""
    return tuple(_SCHEMAS)


def schema(name: str) -> Schema:
    """Return the JSON Schema of a command's ``--json``, or (``ask-line``) of its ``--jsonl``."""
    if name not in _SCHEMAS:
        raise NotFoundError(f"there is no schema {name!r}; there are {', '.join(_SCHEMAS)}.")
    return {"$schema": DIALECT, "title": f"drt {name.replace('-', ' ')}", **_SCHEMAS[name]()}


def _of(kind: object) -> Schema:
    """Return the schema of a type: plain values, dataclasses, tuples, unions and literals."""
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _SPECIAL.get(kind, functools.partial(_fields, kind))()
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return {"enum": list(inside)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_of(member) for member in inside]}
    if origin is tuple:
        return {"type": "array", "items": _of(inside[0])}
    if origin is list:
        return {"type": "array", "items": _of(inside[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of(inside[1])}
    raise TypeError(f"{kind} has no schema")


def _fields(kind: Any, *without: str, **replaced: Schema) -> Schema:
    """Return an object with a dataclass's fields, some left out or replaced."""
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind) if field.name not in without]
    properties = {name: _of(hints[name]) for name in names if name not in replaced}
    described = (kind.__doc__ or "").split("\n")[0].replace("``", "`")
    return {"description": described, **_object(properties | replaced)}


def _object(properties: dict[str, Schema]) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _array(kind: object) -> Schema:
    return {"type": "array", "items": _of(kind)}


def _share(text: str) -> Schema:
    return {"type": "number", "minimum": 0, "maximum": 1, "description": text}


def _with(object_: Schema, **properties: Schema) -> Schema:
    """Return an object's schema with further properties, all of them required."""
    return {**object_, **_object(object_["properties"] | properties)}


_HANDLE = {"type": "string", "description": "a short name of the place, which drt show takes"}


def _citation() -> Schema:
    fields = _fields(
        _types.Citation,
        "context",
        start={"type": "integer", "minimum": 0, "description": "first character of the quote"},
        end={"type": "integer", "minimum": 0, "description": "character after its last"},
        line={
            "anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}],
            "description": "line of the file, in formats that have lines",
        },
        source_start={
            "anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}],
            "description": "first character that the quote comes from: of the file's text, of the"
            " page in a PDF; null in formats that do not tell",
        },
        source_end={
            "anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}],
            "description": "character after the last that the quote comes from",
        },
        probability=_share(
            "with what share the quoted chunk was retrieved; 0 for what was looked up"
        ),
        metadata={
            "anyOf": [{"type": "string"}, {"type": "null"}],
            "description": "a field of the file's metadata and its value, as in author: Ann Lee,"
            " where the text does not say it: the quote is empty then",
        },
        likely={
            "type": "boolean",
            "description": "a place that probably holds the answer",
        },
        more_items={
            "type": "integer",
            "minimum": 0,
            "description": "items of a long list that are left out behind the quote",
        },
        page_label={
            "anyOf": [{"type": "string"}, {"type": "null"}],
            "description": "what is printed on the page, where that is not its number",
        },
        span_start={
            "anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}],
            "description": "first character of the words in a longer quote that answer",
        },
        span_end={
            "anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}],
            "description": "character after the last of these words",
        },
    )
    sentence = {"type": "string", "description": "the sentence around the quote"}
    return _with(fields, sentence=sentence, handle=_HANDLE)


def _hit() -> Schema:
    sentence = {"type": "string", "description": "the best sentence of the passage"}
    return _with(_fields(_types.SearchHit), sentence=sentence, handle=_HANDLE)


def _chunk(kind: Any) -> Schema:
    """Return the schema of a chunk of a trace, with the place that follows from its fields."""
    end = {"type": "integer", "minimum": 0, "description": "character after its last"}
    return _with(_fields(kind), end=end, handle=_HANDLE)


def _answer(**first: Schema) -> Schema:
    text = {"answer": {"type": "string", "description": "empty where nothing was found"}}
    fields = _fields(
        _types.Answer,
        "text",
        "trace",
        confidence=_share("how likely the documents say it"),
        quote_probability={
            "anyOf": [_share("how likely the first citation's quote is right"), {"type": "null"}],
            "description": "null for what was looked up: no measurement says how often it is right",
        },
        passage={"type": "string", "description": "the text around the first citation"},
        second_passage={
            "type": "string",
            "description": "the text around a second likely or close place, mostly empty",
        },
    )
    sentence = {"type": "string", "description": "the sentence around the first citation's quote"}
    return {**fields, **_object(first | text | fields["properties"] | {"sentence": sentence})}


def _summary() -> Schema:
    text = {"summary": {"type": "string"}}
    fields = _fields(_types.Summary, "text")
    return {**fields, **_object(text | fields["properties"])}


def _summary_line() -> Schema:
    """Return the schema of a sentence of a summary, of a change, or of what was left out."""
    kinds = _fields(_types.Change, "new")
    omitted = _object({"changes_omitted": {"type": "integer", "minimum": 1}})
    return {"oneOf": [_citation(), _with(_citation(), **kinds["properties"]), kinds, omitted]}


def _report() -> Schema:
    failure = _object({"source": {"type": "string"}, "message": {"type": "string"}})
    return _fields(_types.IngestReport, failures={"type": "array", "items": failure})


def _result() -> Schema:
    error = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    return _fields(_types.IngestResult, "seconds", "tokens", error=error)


def _passage() -> Schema:
    around: dict[str, Schema] = {"before": {"type": "string"}, "after": {"type": "string"}}
    properties: dict[str, Schema] = _citation()["properties"]
    del properties["probability"]
    return {"description": "A cited passage.", **_object(properties | around)}


def _trace() -> Schema:
    answer = {"anyOf": [_answer(), {"type": "null"}]}
    return _fields(_types.Trace, "rendered", answer=answer)


def _model() -> Schema:
    return _fields(_types.ModelInfo, "card")


def _measured(name: str) -> Schema:
    """Return the schema of ``eval`` or ``bench``: named numbers, which depend on the task."""
    free: Schema = {"type": "object"}
    shared = {"seconds": {"type": "number"}, "model": {"type": "string"}}
    if name == "bench":
        rows = {"type": "array", "items": free}
        return _object({"bench": {"type": "string"}, "rows": rows, "calibration": free, **shared})
    named: Schema = {"type": "string"}
    counted = {"task": named, "data": named, "n": {"type": "integer"}}
    return _object({**counted, "metrics": free, "baselines": free, **shared})


def _library_stats() -> Schema:
    """Return the schema of counts and sizes; without a model where nothing was read."""
    text, integer = _of(str | None), {"type": "integer", "minimum": 0}
    counts = ("documents", "partial", "characters", "tokens", "chunks", "segments", "sessions")
    sizes = ("catalog_bytes", "segment_bytes", "removed_bytes")
    layout = {
        **dict.fromkeys(("chunk_tokens", "kv_heads", "head_size", "landmark_size"), integer),
        "encoding": _of(str),
    }
    return _object(
        {
            "path": _of(str),
            **dict.fromkeys((*counts, *sizes), integer),
            "bytes_per_token": _of(float | None),
            **dict.fromkeys(("fingerprint", "model", "created"), text),
            "layout": {"anyOf": [_object(layout), {"type": "null"}]},
        }
    )


def _ask_line() -> Schema:
    piece = _object({"type": {"const": "piece"}, "text": {"type": "string"}})
    every_place = _with(_fields(_types.AllAnswers), type={"const": "answers"})
    written = _with(_ask_written(), type={"const": "answer"})
    sentence = _with(_sentence(), type={"const": "sentence"})
    answer = _answer(type={"const": "answer"})
    reading = _with(_fields(_types.ReadingStep), type={"const": "reading"})
    return {"oneOf": [reading, piece, answer, every_place, sentence, written]}


def _sentence() -> Schema:
    return _with(_fields(_types.WrittenSentence), supported={"type": "boolean"})


def _writing() -> Schema:
    """Return the schema of what a writer wrote."""
    source = _with(_citation(), number={"type": "integer", "minimum": 1})
    fields = _fields(_types.WrittenText, sources={"type": "array", "items": source})
    return _with(fields, text={"type": "string"})


def _ask_written() -> Schema:
    """Return the schema of ``ask --writer``: an answer, and what the writer made of it."""
    return _with(_answer(), writing=_writing())


_SPECIAL: dict[Any, Callable[[], Schema]] = {
    _types.Citation: _citation,
    _types.Answer: _answer,
    _types.ModelInfo: _model,
    _types.ScanInfo: lambda: _with(_fields(_types.ScanInfo), approximate={"type": "boolean"}),
    _types.SearchHit: _hit,
    _types.WrittenSentence: _sentence,
    _types.WrittenText: _writing,
    _types.TraceEntry: lambda: _chunk(_types.TraceEntry),
    _types.TraceCandidate: lambda: _chunk(_types.TraceCandidate),
}


def _study() -> Schema:
    """Return the schema of a study's table: mean, deviation and values of each cell."""
    text, number = {"type": "string"}, _of(float | None)
    cell = {
        "mean": number,
        "deviation": number,
        "values": {"type": "array", "items": number},  # of the row's seeds
        "paper": number,
    }
    column = {"evaluation": text, "group": text, "metric": text}
    row = {
        "run": text,
        "source": _of(str | None),
        "seeds": {"type": "array", "items": {"type": "integer"}},
        "cells": {"type": "array", "items": _object(cell)},
    }
    return _object(
        {
            "folder": text,
            "title": text,
            "columns": {"type": "array", "items": _object(column)},
            "rows": {"type": "array", "items": _object(row)},
        }
    )


def _trace_stream() -> Schema:
    """Return the schema of ``trace --stream``: chunks, and what each reads by group."""
    text, integer, number = _of(str), _of(int), _of(float)
    entry = _object({"chunk": integer, "score": number, "probability": number})
    reads: Schema = {"type": "array", "items": {"type": "array", "items": entry}}
    chunk = {"chunk": integer, "start": integer, "end": integer, "text": text, "reads": reads}
    return _object(
        {
            "file": text,
            "model": text,
            "tokens": integer,
            "total_tokens": integer,
            "groups": integer,
            "chunks": {"type": "array", "items": _object(chunk)},
        }
    )


def _warm_status() -> Schema:
    """Return the schema of ``warm status``: the helper process, null where none runs."""
    text, number = _of(str), _of(float)
    helper = {
        "pid": _of(int),
        **dict.fromkeys(("model", "device", "dtype", "version"), text),
        **dict.fromkeys(("began", "idle_minutes"), number),
        "ready": _of(bool),
        "memory_bytes": _of(int | None),
    }
    return _object({"helper": {"anyOf": [_object(helper), {"type": "null"}]}})


_SCHEMAS: dict[str, Callable[[], Schema]] = {
    "ask": _answer,
    "ask-all": lambda: _fields(_types.AllAnswers),
    "ask-line": _ask_line,
    "ask-written": _ask_written,
    "bench": lambda: _measured("bench"),
    "chat-line": _answer,
    "config-list": lambda: {"type": "object"},
    "doctor": lambda: _object({"ok": {"type": "boolean"}, "checks": _array(_types.DoctorCheck)}),
    "document-list": lambda: _object(
        {
            "library": {"type": "string"},
            "documents": _array(_types.DocumentInfo),
            "next": {"type": ["string", "null"]},
        }
    ),
    "eval": lambda: _measured("eval"),
    "formats": lambda: _object({"formats": _array(_types.FormatInfo)}),
    "ingest": _report,
    "ingest-line": _result,
    "library-backup": lambda: _of(_types.Backup),
    "library-restore": lambda: _of(_types.Backup),
    "library-check": lambda: _object({"findings": _array(_types.Finding)}),
    "library-index": lambda: _object({"index": _of(_types.IndexInfo | None)}),
    "library-index-recall": lambda: _object({"recall": _array(_types.IndexRecall)}),
    "library-list": lambda: _object(
        {"library": {"type": "string"}, "documents": _array(_types.DocumentInfo)}
    ),
    "library-show": lambda: _of(_types.DocumentInfo),
    "library-stats": _library_stats,
    "log": lambda: _object({"log": {"type": "string"}, "entries": _array(LogEntry)}),
    "model-info": _model,
    "model-list": lambda: _object({"models": _array(_types.ModelInfo)}),
    "model-verify": _model,
    "plugins": lambda: _object({"plugins": _array(PluginInfo)}),
    "search": lambda: _fields(_types.SearchResult),
    "search-line": _hit,
    "session-search": lambda: _object({"turns": _array(_types.FoundTurn)}),
    "session-list": lambda: _object({"sessions": _array(_types.SessionInfo)}),
    "session-show": lambda: _object({"session": {"type": "string"}, "turns": _array(_types.Turn)}),
    "show": _passage,
    "study": _study,
    "summarize": _summary,
    "summarize-line": _summary_line,
    "trace": _trace,
    "trace-stream": _trace_stream,
    "warm-status": _warm_status,
    "watch-line": lambda: _of(_types.WatchEvent),
}
