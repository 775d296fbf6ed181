"""Answers that the server's writer writes: its sentences as they come, each verified.

The model's thread retrieves what is sent; the writer is waited for in threads of its own, so that
a slow one delays no other question. No request can name a writer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from .._errors import NotFoundError
from .._filters import NAMES
from .._types import ReadingStep
from .._writer.reasons import strip_folders
from .._writer.results import WrittenAnswer
from .responses import Event, reply
from .service import Service, service_of
from .turns import in_turn, reading

if TYPE_CHECKING:
    from .._assistant import Assistant
    from .._types import Answer, WrittenSentence
    from .._writer.results import WriterOptions
    from .._writer.write import Writing

LATER = 0.25  # of a request's time: for how long a writer that keeps no limit is waited for


async def show_writer(request: Request) -> Response:
    """Return where the server's writer is, or null where it has none."""
    service = service_of(request)
    options = service.options.writer
    writer = None if options is None else {"host": options.host, "model": options.model}
    return reply(service, {"writer": writer})


def written(
    service: Service, question: str, options: Any, *, session: str | None
) -> AsyncIterator[Event]:
    """Return a writer's sentences, then the answer with all of them; 400 without a writer."""
    configured = service.options.writer
    if configured is None:
        raise HTTPException(400, "this server has no writer; drt serve --writer sets one.")
    writer = replace(configured, timeout=min(configured.timeout, service.options.timeout / 2))

    def start(assistant: Assistant) -> Iterator[_Start]:
        yield _started(assistant, question, options, writer=writer, session=session)

    return _events(service, start, writer, session=session)


@dataclass(frozen=True)
class _Start:
    """drt's answer, and what writes beside it; None where it is a summary, which is drt's own.

    ``turn`` is the number of its turn in the conversation ``session``, if it has one.
    """

    answer: Answer
    writing: Writing | None
    session: str | None = None
    turn: int = 0


async def _events(
    service: Service,
    start: Callable[[Assistant], Iterator[_Start]],
    writer: WriterOptions,
    *,
    session: str | None,
) -> AsyncIterator[Event]:
    begun: list[_Start] = []
    async for item in in_turn(service, start, session=session):
        if isinstance(item, ReadingStep):
            yield reading(item)
        else:
            begun.append(item)
    (started,) = begun
    answer, writing = started.answer, started.writing
    if writing is None:
        yield "answer", {"type": "answer", **answer.to_dict()}
        return
    loop = asyncio.get_running_loop()
    began, sentences = loop.time(), []
    end = began + writer.timeout + service.options.timeout * LATER
    try:
        while True:
            step = loop.run_in_executor(service.writers, next, writing, None)
            sentence = await asyncio.wait_for(step, max(0.0, end - loop.time()))
            if sentence is None:
                break
            sentences.append(sentence)
            yield "sentence", {"type": "sentence", **sentence.to_dict()}
    except TimeoutError:
        result = _given_up(answer, writer, tuple(sentences), loop.time() - began)
    else:
        assert writing.result is not None
        result = writing.result
    result = replace(result, problem=strip_folders(result.problem))
    await _keep(service, started, result)
    yield "answer", {"type": "answer", **result.to_dict()}


async def _keep(service: Service, started: _Start, result: WrittenAnswer) -> None:
    """Store what was written in its turn, between other questions: each stores its whole talk."""
    if started.session is None or started.writing is None:
        return
    add = service.library._add_writing  # noqa: SLF001
    work = partial(add, started.session, started.turn, result, started.writing.documents)
    # The conversation was deleted meanwhile, or a document removed that the writer has read.
    with contextlib.suppress(NotFoundError):
        await service.questions.run(lambda _: work(), session=started.session, always=True)


def _given_up(
    answer: Answer, writer: WriterOptions, sentences: tuple[WrittenSentence, ...], seconds: float
) -> WrittenAnswer:
    """Return the answer of a writer that is not waited for any longer."""
    return WrittenAnswer(
        answer=answer,
        state="failed",
        sentences=sentences,
        sources={},
        host=writer.host,
        model=writer.model,
        seconds=seconds,
        problem=f"the writer at {writer.host} failed: it did not finish within {seconds:.0f} s.",
    )


def _started(
    assistant: Assistant,
    question: str,
    options: Any,
    *,
    writer: WriterOptions,
    session: str | None,
) -> _Start:
    """Answer in the model's thread, and retrieve what is sent: from the part that was asked."""
    from .._writing import write

    filters: Any = {name: options[name] for name in ("documents", *NAMES) if options.get(name)}
    if session is None:
        answer = assistant.ask(question, **options)
        return _Start(answer, write(assistant, answer, writer, **filters))
    conversation = assistant.session(session)
    answer = conversation.ask(question, **options)
    if answer.mode == "summary":
        return _Start(answer, None)
    writing = conversation._writing(answer, writer, filters, finished=None)  # noqa: SLF001
    return _Start(answer, writing, session, len(conversation.turns))
