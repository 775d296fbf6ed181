"""What the model's thread yields for one request, in its turn, with what it reads for that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .._reading import watch_reading
from .._types import ReadingStep
from .responses import Event
from .service import Service

if TYPE_CHECKING:
    from .._assistant import Assistant

Item = TypeVar("Item")
_END = object()


async def in_turn(
    service: Service,
    make: Callable[[Assistant], Iterable[Item]],
    *,
    session: str | None = None,
) -> AsyncIterator[Item | ReadingStep]:
    """Yield what the model's thread iterates over, and before it what is read for that.

    It stops where the client has left.
    """
    loop = asyncio.get_running_loop()
    items: asyncio.Queue[Any] = asyncio.Queue()
    left = False

    def emit(item: Item | ReadingStep) -> None:
        loop.call_soon_threadsafe(items.put_nowait, item)

    def work(assistant: Assistant) -> None:
        with watch_reading(emit):
            for item in make(assistant):
                if left:
                    return
                emit(item)

    job = asyncio.create_task(service.questions.run(work, session=session))
    job.add_done_callback(lambda _: items.put_nowait(_END))
    try:
        while (item := await items.get()) is not _END:
            yield cast("Item | ReadingStep", item)
        await job
    finally:
        left = True
        job.cancel()


def reading(step: ReadingStep) -> Event:
    """Return the event of what a question is about to read."""
    return "reading", {"type": "reading", **vars(step)}
