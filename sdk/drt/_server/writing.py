"""Answers that the server's writer writes: its sentences as they come, each verified.

The model's thread retrieves what is sent; the writer is waited for in threads of its own, so that
a slow one delays no other question. No request can name a writer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from .._filters import NAMES
from .._writer.results import WrittenAnswer
from .responses import Event, reply
from .service import Service, service_of

if TYPE_CHECKING:
    from .._types import Answer
    from .._writer.results import WriterOptions, WrittenSentence
    from .._writer.write import Writing

LATER = 0.25  # of a request's time: for how long a writer that keeps no limit is waited for


async def show_writer(request: Request) -> Response:
    """Return where the server's writer is, or null where it has none."""
    options = service_of(request).options.writer
    return reply(
        {"writer": None if options is None else {"host": options.host, "model": options.model}}
    )


def written(
    service: Service, question: str, options: Any, *, session: str | None
) -> AsyncIterator[Event]:
    """Return a writer's sentences, then the answer with all of them; 400 without a writer."""
    configured = service.options.writer
    if configured is None:
        raise HTTPException(400, "this server has no writer; drt serve --writer sets one.")
    writer = replace(configured, timeout=min(configured.timeout, service.options.timeout / 2))

    def start() -> tuple[Answer, Writing | None]:
        return _started(service, question, options, writer=writer, session=session)

    return _events(service, start, writer)


async def _events(
    service: Service, start: Callable[[], tuple[Answer, Writing | None]], writer: WriterOptions
) -> AsyncIterator[Event]:
    answer, writing = await service.questions.run(start)
    if writing is None:  # a summary, which is drt's own
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
    yield "answer", {"type": "answer", **result.to_dict()}


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
    service: Service, question: str, options: Any, *, writer: WriterOptions, session: str | None
) -> tuple[Answer, Writing | None]:
    """Answer in the model's thread, and retrieve what is sent: from the part that was asked."""
    from .._writing import write

    filters = {name: options[name] for name in ("documents", *NAMES) if options.get(name)}
    if session is None:
        answer = service.assistant.ask(question, **options)
        return answer, write(service.assistant, answer, writer, **filters)
    conversation = service.assistant.session(session)
    answer = conversation.ask(question, **options)
    if answer.mode == "summary":
        return answer, None
    return answer, conversation.write(answer, writer, **filters)
