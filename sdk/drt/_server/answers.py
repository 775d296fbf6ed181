"""Routes of the model: ask, search, summarize, trace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from .._filters import day_of
from .._types import ReadingStep
from .bodies import read_body
from .responses import Event, events, reply, wants_events
from .service import Service, service_of
from .turns import in_turn, reading
from .writing import written

if TYPE_CHECKING:
    from .._assistant import Assistant
    from .._stream import AnswerStream
    from .._types import Answer, Trace


async def ask(request: Request) -> Response:
    """Answer a question; as server-sent events where the client asks for them."""
    service, body = service_of(request), await read_body(request, "ask")
    question, session = body.pop("question"), body.pop("session", None)
    streams = body.pop("stream", False) or wants_events(request)
    if streams:  # while the response can still have a status
        service.questions.expect_room()
    if body.pop("writer", False):
        items = written(service, question, body, session=session)
        if streams:
            return events(request, items)
        *_, (_, last) = [item async for item in items]
        del last["type"]
        return reply(service, last)
    if streams:
        return events(request, pieces(service, question, body, session=session))
    answer = await answer_once(service, question, body, session=session)
    return reply(service, answer.to_dict())


async def answer_once(
    service: Service, question: str, options: Any, *, session: str | None = None
) -> Answer:
    """Answer a question, in a stored conversation where one is named."""
    if session is None:
        return await service.questions.ask(question, options)
    return await service.questions.run(
        lambda assistant: assistant.session(session).ask(question, **options), session=session
    )


async def pieces(
    service: Service, question: str, options: Any, *, session: str | None = None
) -> AsyncIterator[Event]:
    """Yield what is read, pieces of text as they come, then the whole answer."""

    def start(assistant: Assistant) -> AnswerStream:
        asker = assistant if session is None else assistant.session(session)
        return asker.stream(question, **options)

    async for item in streamed(service, start, session=session):
        if isinstance(item, ReadingStep):
            yield reading(item)
        elif isinstance(item, str):
            yield "piece", {"type": "piece", "text": item}
        else:
            yield "answer", {"type": "answer", **item.to_dict()}


async def streamed(
    service: Service, start: Callable[[Assistant], AnswerStream], *, session: str | None = None
) -> AsyncIterator[str | ReadingStep | Answer]:
    """Yield what is read, the pieces of a stream opened in the model's thread, and its answer."""
    opened: list[AnswerStream] = []

    def texts(assistant: Assistant) -> Iterable[str]:
        opened.append(start(assistant))
        return opened[0]

    async for text in in_turn(service, texts, session=session):
        yield text
    answer = opened[0].answer
    assert answer is not None
    yield answer


async def search(request: Request) -> Response:
    """Return passages for a query, best first."""
    service, body = service_of(request), await read_body(request, "search")
    hits = await service.questions.run(lambda assistant: assistant.search(**body))
    return reply(service, hits.to_dict())


async def summarize(request: Request) -> Response:
    """Summarise documents of the library."""
    service, body = service_of(request), await read_body(request, "summarize")
    documents = body.pop("documents", None)
    body["since"] = day_of(body.get("since"))  # never a file of the server
    summary = await service.questions.run(lambda it: it.summarize(documents, **body))
    return reply(service, summary.to_dict())


async def trace(request: Request) -> Response:
    """Answer a question, and show what was retrieved, scored and read."""
    service, body = service_of(request), await read_body(request, "trace")
    question = body.pop("question")
    result: Trace = await service.questions.run(lambda it: it.trace(question, **body))
    return reply(service, result.to_dict())
