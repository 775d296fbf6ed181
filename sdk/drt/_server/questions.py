"""The queue in front of the model: clients take turns, and nobody waits longer than the deadline.

One thread answers. A question that would have to wait too long is refused at once, with the time
after which to ask again; so the one who is told is the client whose own questions fill the queue.
Equal questions that wait are answered once. Knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import functools
import math
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .overload import OverloadedError

if TYPE_CHECKING:
    from .._assistant import Assistant
    from .._types import Answer, AskOptions

Result = TypeVar("Result")
NEWEST = 0.2  # weight of the last answer in the mean of their seconds
# Who asks, in whose turn a question is answered; set for each request.
client: ContextVar[str] = ContextVar("client", default="")


@dataclass(eq=False)
class _Job:
    """Work that waits or runs; ``question`` is None for what is not a plain question."""

    question: str | None
    options: AskOptions
    work: Callable[[], Any]
    entered: float = field(default_factory=time.monotonic)
    context: Context = field(default_factory=copy_context)  # of the request that asked first
    futures: list[asyncio.Future[Any]] = field(default_factory=list)
    timer: asyncio.TimerHandle | None = None  # refuses it when the deadline has passed

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
    """Work for the model, done by one thread.

    At most ``limit`` jobs wait, each for at most ``max_wait`` seconds. ``waited`` and ``worked``
    are called with the seconds that each job waited and took, ``refused`` for each refusal, and
    ``done`` with the context that a job was asked in and when it was entered, begun and ended.
    """

    def __init__(
        self,
        assistant: Assistant,
        *,
        limit: int,
        max_wait: float = math.inf,
        waited: Callable[[float], None] = lambda _: None,
        worked: Callable[[float], None] = lambda _: None,
        refused: Callable[[], None] = lambda: None,
        done: Callable[[Context, float, float, float], None] = lambda *_: None,
    ) -> None:
        self._assistant = assistant
        self._limit, self._max_wait = limit, max_wait
        self._waited, self._worked, self._refused = waited, worked, refused
        self._done = done
        self._queues: dict[str, deque[_Job]] = {}  # by client, in the order of their turns
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="drt-ask")
        self._drain: asyncio.Task[None] | None = None
        self._began: float | None = None  # when the job that runs began
        self._mean: float | None = None  # seconds of a job

    @property
    def waiting(self) -> int:
        """The number of jobs that wait."""
        return sum(map(len, self._queues.values()))

    @property
    def clients(self) -> int:
        """The number of clients whose jobs wait."""
        return len(self._queues)

    def close(self) -> None:
        """Wait for the job that runs; those that wait are dropped."""
        self._queues.clear()
        self._thread.shutdown(cancel_futures=True)

    async def prepare(self, work: Callable[[], Result]) -> Result:
        """Do what comes before the first question in the thread that answers."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def ask(self, question: str, options: AskOptions) -> Answer:
        """Answer a question; raises ``OverloadedError`` where it would wait too long."""
        for queue in self._queues.values():
            for job in queue:
                if job.question == question and job.options == options:
                    return cast("Answer", await self._result(job))
        work = functools.partial(self._assistant.ask, question, **options)
        return cast("Answer", await self._enter(_Job(question, options, work)))

    async def run(self, work: Callable[[], Result], *, always: bool = False) -> Result:
        """Do other work of the model in its turn; raises as ``ask`` does, unless ``always``."""
        return cast(Result, await self._enter(_Job(None, {}, work), always=always))

    def expect_room(self) -> None:
        """Raise ``OverloadedError`` where a question of this client would wait too long."""
        wait, mean = self.expected_wait(), self._mean or 1.0
        excess = wait - self._max_wait
        if self.waiting >= self._limit:
            excess = max(excess, mean)
        if excess <= 0:
            return
        self._refused()
        raise self._overloaded(wait, excess)

    def expected_wait(self) -> float:
        """Return the seconds that a new question of this client would wait.

        Its turn comes after as many questions of each other client as it has waiting itself, and
        one more. Before the first answer nobody knows, and the wait is 0.
        """
        if self._mean is None:
            return 0.0
        ours = len(self._queues.get(client.get(), ()))
        others = (queue for name, queue in self._queues.items() if name != client.get())
        ahead = ours + sum(min(len(queue), ours + 1) for queue in others)
        running = 0.0
        if self._began is not None:
            running = max(0.0, self._mean - (time.monotonic() - self._began))
        return ahead * self._mean + running

    def _overloaded(self, wait: float, excess: float) -> OverloadedError:
        retry = math.ceil(min(max(excess, 1.0), 60.0))
        return OverloadedError(
            f"{self.waiting} questions are waiting, and this one would wait {wait:.0f} s or longer;"
            f" ask again in {retry} s.",
            retry_after=retry,
        )

    async def _enter(self, job: _Job, *, always: bool = False) -> Any:
        if not always:
            self.expect_room()
            if self._max_wait < math.inf:
                loop = asyncio.get_running_loop()
                job.timer = loop.call_later(self._max_wait, self._expire, client.get(), job)
        self._queues.setdefault(client.get(), deque()).append(job)
        if self._drain is None or self._drain.done():
            self._drain = asyncio.create_task(self._work())
        return await self._result(job)

    def _expire(self, name: str, job: _Job) -> None:
        """Refuse a job that waits when its deadline has passed: others took longer than before."""
        queue = self._queues.get(name)
        if queue is None or job not in queue:
            return
        queue.remove(job)
        if not queue:
            del self._queues[name]
        self._refused()
        mean = self._mean or 1.0
        job.settle(None, self._overloaded(self._max_wait, mean))

    async def _result(self, job: _Job) -> Any:
        future = asyncio.get_running_loop().create_future()
        job.futures.append(future)
        return await future

    def _next(self) -> _Job:
        """Take the next job of the client whose turn it is, who then comes last."""
        name = next(iter(self._queues))
        queue = self._queues.pop(name)
        job = queue.popleft()
        if queue:
            self._queues[name] = queue
        if job.timer is not None:
            job.timer.cancel()
        return job

    async def _work(self) -> None:
        """Do all jobs that wait, and end."""
        loop = asyncio.get_running_loop()
        while self._queues:
            job = self._next()
            if job.abandoned():
                continue
            self._began = time.monotonic()
            self._waited(self._began - job.entered)
            try:
                result = await loop.run_in_executor(self._thread, job.work)
            except Exception as error:
                job.settle(None, error)
            else:
                job.settle(result)
            ended, now = time.monotonic(), time.time()
            times = (now - ended + at for at in (job.entered, self._began, ended))
            self._done(job.context, *times)
            self._note(ended - self._began)
            self._began = None

    def _note(self, seconds: float) -> None:
        self._worked(seconds)
        old = seconds if self._mean is None else self._mean
        self._mean = old + NEWEST * (seconds - old)
