"""Routes of stored conversations: list, search, show, rename, delete, export an answer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from .._export import FORMATS, ExportFormat, export_answer
from .bodies import number, read_body
from .responses import reply
from .service import service_of

if TYPE_CHECKING:
    from .._library import Library

_FILES = {
    "markdown": ("md", "text/markdown"),
    "html": ("html", "text/html"),
    "obsidian": ("md", "text/markdown"),
    "bibtex": ("bib", "application/x-bibtex"),
    "csl-json": ("json", "application/vnd.citationstyles.csl+json"),
}


async def list_sessions(request: Request) -> Response:
    """List the stored conversations; with ``words``, the turns that contain them all."""
    service = service_of(request)
    library = service.library
    words = request.query_params.get("words")
    if words is not None:
        turns = await run_in_threadpool(library.search_sessions, words)
        return reply(service, {"turns": [turn.to_dict() for turn in turns]})
    sessions = await run_in_threadpool(library.sessions)
    return reply(service, {"sessions": [session.to_dict() for session in sessions]})


async def show_session(request: Request) -> Response:
    """Show the turns of a conversation."""
    service, name = service_of(request), _named(request)
    turns = await run_in_threadpool(service.library.session_turns, name)
    return reply(service, {"session": name, "turns": [turn.to_dict() for turn in turns]})


async def rename_session(request: Request) -> Response:
    """Give a conversation another name."""
    service, name = service_of(request), _named(request)
    body = await read_body(request, "rename")
    rename = partial(service.library.rename_session, name, body["name"])
    await service.questions.run(lambda _: rename(), session=name)
    return reply(service, {"session": body["name"]})


async def delete_session(request: Request) -> Response:
    """Delete a conversation for good."""
    service, name = service_of(request), _named(request)
    delete = partial(service.library.delete_session, name)
    await service.questions.run(lambda _: delete(), session=name)
    return reply(service, {"session": name})


async def export(request: Request) -> Response:
    """Return an answer of a conversation for another program, as text to save."""
    service = service_of(request)
    file_format = request.query_params.get("format", "markdown")
    if file_format not in _FILES:
        raise HTTPException(400, f"format is {file_format[:40]!r}, expected {', '.join(FORMATS)}.")
    place = number(request, "turn", 1, maximum=10**6)
    text = await run_in_threadpool(
        partial(_exported, service.library, request.query_params.get("session", ""), place),
        cast(ExportFormat, file_format),
    )
    ending, media_type = _FILES[file_format]
    headers = {"Content-Disposition": f'attachment; filename="answer.{ending}"'}
    return Response(text, media_type=media_type, headers=headers)


def _exported(library: Library, session: str, place: int, file_format: ExportFormat) -> str:
    turns = library.session_turns(session)
    if not 1 <= place <= len(turns):
        raise HTTPException(404, f"{session[:100]!r} has {len(turns)} answers and no {place}.")
    return export_answer(turns[place - 1], file_format, library=library)


def _named(request: Request) -> str:
    return str(request.path_params["session"])
