"""Routes of stored conversations: list, search, show, rename, delete."""

from __future__ import annotations

from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from .bodies import read_body
from .responses import reply
from .service import service_of


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
    service, body = service_of(request), await read_body(request, "rename")
    await service.questions.run(
        partial(service.library.rename_session, _named(request), body["name"])
    )
    return reply(service, {"session": body["name"]})


async def delete_session(request: Request) -> Response:
    """Delete a conversation for good."""
    service, name = service_of(request), _named(request)
    await service.questions.run(partial(service.library.delete_session, name))
    return reply(service, {"session": name})


def _named(request: Request) -> str:
    return str(request.path_params["session"])
