"""The queue in front of the model: one thread answers, in the order in which questions came.

Questions with the same options that wait at the same time are handed to ``Assistant.ask_many``
together; equal ones are answered once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .overload import OverloadedError

if TYPE_CHECKING:
    from .._assistant import Assistant
    from .._types import Answer, AskOptions

Result = TypeVar("Result")
BATCH = 16  # questions handed over together; others wait no longer than for these


@dataclass
class _Job:
    """Work that waits or runs; ``question`` is None for what is not a plain question."""

    question: str | None
    options: AskOptions
    work: Callable[[], Any] | None
    futures: list[asyncio.Future[Any]] = field(default_factory=list)

    def abandoned(self) -> bool:
        """Return whether nobody waits for the result any more."""
        return all(future.done() for future in self.futures)

    def settle(self, result: Any, error: BaseException | None = None) -> None:
        """Hand the result, or the error, to all who wait; called in the event loop's thread."""
        for future in self.futures:
            if future.done():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)


class Questions:
    """Work for the model, done by one thread; at most ``limit`` jobs wait."""

    def __init__(self, assistant: Assistant, *, limit: int) -> None:
        self._assistant = assistant
        self._limit = limit
        self._jobs: deque[_Job] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="drt-ask")
        self._drain: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """The number of jobs that wait."""
        return len(self._jobs)

    def close(self) -> None:
        """Wait for the job that runs; those that wait are dropped."""
        self._jobs.clear()
        self._thread.shutdown(cancel_futures=True)

    async def ask(self, question: str, options: AskOptions) -> Answer:
        """Answer a question; raises ``OverloadedError`` where too many wait, else as the SDK."""
        for job in self._jobs:
            if job.question == question and job.options == options:
                return cast("Answer", await self._result(job))
        return cast("Answer", await self._enter(_Job(question, options, None)))

    async def run(self, work: Callable[[], Result]) -> Result:
        """Do other work of the model in its turn; raises as ``ask`` does."""
        return cast(Result, await self._enter(_Job(None, {}, work)))

    async def _enter(self, job: _Job) -> Any:
        if len(self._jobs) >= self._limit:
            raise OverloadedError(
                f"{self._limit} questions are waiting, which is as many as may; ask again later."
            )
        self._jobs.append(job)
        if self._drain is None or self._drain.done():
            self._drain = asyncio.create_task(self._work())
        return await self._result(job)

    async def _result(self, job: _Job) -> Any:
        future = asyncio.get_running_loop().create_future()
        job.futures.append(future)
        return await future

    async def _work(self) -> None:
        """Do all jobs that wait, and end."""
        loop = asyncio.get_running_loop()
        while self._jobs:
            job = self._jobs.popleft()
            if job.abandoned():
                continue
            if job.question is None:
                await self._run(job)
                continue
            batch = [job, *(waiting for waiting in self._jobs if _together(job, waiting))][:BATCH]
            for waiting in batch[1:]:
                self._jobs.remove(waiting)
            await loop.run_in_executor(self._thread, self._answer, batch, loop)

    async def _run(self, job: _Job) -> None:
        assert job.work is not None
        try:
            result = await asyncio.get_running_loop().run_in_executor(self._thread, job.work)
        except Exception as error:
            job.settle(None, error)
        else:
            job.settle(result)

    def _answer(self, batch: list[_Job], loop: asyncio.AbstractEventLoop) -> None:
        """Answer questions of equal options; an error is that of one question, others go on."""
        unanswered = deque(batch)
        current: list[_Job] = []

        def questions() -> Iterator[str]:
            while unanswered:
                job = unanswered.popleft()
                if not job.abandoned():
                    current.append(job)
                    yield job.question or ""

        while unanswered:
            try:
                for answer in self._assistant.ask_many(questions(), **batch[0].options):
                    loop.call_soon_threadsafe(current.pop(0).settle, answer)
            except Exception as error:
                for job in current:
                    loop.call_soon_threadsafe(job.settle, None, error)
                current.clear()


def _together(job: _Job, waiting: _Job) -> bool:
    return waiting.question is not None and waiting.options == job.options
