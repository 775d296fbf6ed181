"""The queue in front of the model: clients take turns, and nobody waits longer than the deadline.

One thread answers, or several, each with an assistant of its own. A question that would have to
wait too long is refused at once, with the time after which to ask again; so the one who is told is
the client whose own questions fill the queue.
Equal questions that wait are answered once. Knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
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
    work: Callable[[Assistant], Any]
    key: str | None = None  # no two jobs of one key are done at the same time
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


class _Lane:
    """An assistant and the thread in which it works, on one job at a time."""

    def __init__(self, assistant: Assistant, rest: Callable[[], None] | None = None) -> None:
        self.assistant = assistant
        self.rest = rest  # called in its thread after a job where no other waits
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="drt-ask")
        self.began: float | None = None  # when the job that runs began
        self.key: str | None = None  # of that job


class Questions:
    """Work for the model, done by one thread, or by several where ``add`` was called.

    At most ``limit`` jobs wait, each for at most ``max_wait`` seconds. ``waited`` and ``worked``
    are called with the seconds that each job waited and took, ``refused`` for each refusal, and
    ``done`` with the context that a job was asked in and when it was entered, begun and ended.
    ``share`` is called in a job's thread with how many jobs are done at the same time; ``alone``
    gives what a job of a session is done in, in its thread.
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
        share: Callable[[int], None] = lambda _: None,
        alone: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        self._limit, self._max_wait = limit, max_wait
        self._waited, self._worked, self._refused = waited, worked, refused
        self._done, self._share, self._alone = done, share, alone
        self._queues: dict[str, deque[_Job]] = {}  # by client, in the order of their turns
        self._lanes = [_Lane(assistant)]
        self._tasks: set[asyncio.Task[None]] = set()
        self._mean: float | None = None  # seconds of a job

    def add(self, assistant: Assistant, *, rest: Callable[[], None] | None = None) -> None:
        """Let one more assistant work, in a thread of its own.

        ``rest`` is called in that thread after a job where no other waits.
        """
        self._lanes.append(_Lane(assistant, rest))

    @property
    def assistants(self) -> list[Assistant]:
        """The assistants that work."""
        return [lane.assistant for lane in self._lanes]

    @property
    def is_busy(self) -> bool:
        """Whether a further job would wait."""
        return all(lane.began is not None for lane in self._lanes)

    @property
    def waiting(self) -> int:
        """The number of jobs that wait."""
        return sum(map(len, self._queues.values()))

    @property
    def clients(self) -> int:
        """The number of clients whose jobs wait."""
        return len(self._queues)

    def close(self) -> None:
        """Wait for the jobs that run; those that wait are dropped."""
        self._queues.clear()
        for lane in self._lanes:
            lane.thread.shutdown(cancel_futures=True)

    async def prepare(self, work: Callable[[], Result]) -> Result:
        """Do what comes before the first question in the first thread that answers."""
        return await asyncio.get_running_loop().run_in_executor(self._lanes[0].thread, work)

    async def ask(self, question: str, options: AskOptions) -> Answer:
        """Answer a question; raises ``OverloadedError`` where it would wait too long."""
        for queue in self._queues.values():
            for job in queue:
                if job.question == question and job.options == options:
                    return cast("Answer", await self._result(job))

        def work(assistant: Assistant) -> Answer:
            return assistant.ask(question, **options)

        return cast("Answer", await self._enter(_Job(question, options, work)))

    async def run(
        self,
        work: Callable[[Assistant], Result],
        *,
        session: str | None = None,
        always: bool = False,
    ) -> Result:
        """Do other work of the model in its turn; raises as ``ask`` does, unless ``always``.

        Of one ``session`` no two jobs are done at the same time.
        """
        job = _Job(None, {}, work, key=session)
        return cast(Result, await self._enter(job, always=always))

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
        if not ahead and any(lane.began is None for lane in self._lanes):
            return 0.0
        now = time.monotonic()
        running = sum(
            max(0.0, self._mean - (now - lane.began))
            for lane in self._lanes
            if lane.began is not None
        )
        return (ahead * self._mean + running) / len(self._lanes)

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
        result = self._result(job)
        self._fill()
        return await result

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

    def _result(self, job: _Job) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        job.futures.append(future)
        return future

    def _next(self) -> _Job | None:
        """Take the next job of the client whose turn it is, who then comes last.

        A job whose session another job has waits, and those behind it of other sessions do not.
        """
        busy = {lane.key for lane in self._lanes if lane.key is not None}
        for name, queue in list(self._queues.items()):
            job = next((job for job in queue if job.key not in busy), None)
            if job is None:
                continue
            queue.remove(job)
            del self._queues[name]
            if queue:
                self._queues[name] = queue
            if job.timer is not None:
                job.timer.cancel()
            return job
        return None

    def _fill(self) -> None:
        """Give each free thread the job whose turn it is."""
        for lane in self._lanes:
            while lane.began is None and (job := self._next()) is not None:
                if job.abandoned():
                    continue
                lane.began, lane.key = time.monotonic(), job.key
                task = asyncio.create_task(self._work(lane, job))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _work(self, lane: _Lane, job: _Job) -> None:
        """Do a job, and then the next that waits."""
        began = lane.began or time.monotonic()
        self._waited(began - job.entered)
        running = sum(other.began is not None for other in self._lanes)
        at_once = min(len(self._lanes), running + self.waiting)

        def work() -> Any:
            self._share(at_once)
            with nullcontext() if job.key is None else self._alone(job.key):
                return job.work(lane.assistant)

        loop = asyncio.get_running_loop()
        try:
            result = await loop.run_in_executor(lane.thread, work)
        except Exception as error:
            job.settle(None, error)
        else:
            job.settle(result)
        ended, now = time.monotonic(), time.time()
        times = (now - ended + at for at in (job.entered, began, ended))
        self._done(job.context, *times)
        self._note(ended - began)
        if lane.rest is not None and not self.waiting:
            await loop.run_in_executor(lane.thread, lane.rest)
        lane.began = lane.key = None
        self._fill()

    def _note(self, seconds: float) -> None:
        self._worked(seconds)
        old = seconds if self._mean is None else self._mean
        self._mean = old + NEWEST * (seconds - old)
