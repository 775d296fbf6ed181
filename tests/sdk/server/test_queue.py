"""Turns of clients in the queue of questions, and its deadline."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from drt import Assistant

pytest.importorskip("starlette")

from drt._server.errors import OverloadedError
from drt._server.questions import Questions, client


class Answering:
    """An assistant that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go = threading.Semaphore(0)

    def ask(self, question: str, **options: Any) -> str:
        self.asked.append(question)
        assert self.go.acquire(timeout=10)
        if question == "bad":
            raise ValueError(question)
        return question.upper()


def run(test: Callable[[Answering, Questions], Awaitable[None]], **options: Any) -> None:
    assistant = Answering()
    questions = Questions(cast(Assistant, assistant), **{"limit": 100, **options})

    async def all_of_it() -> None:
        await test(assistant, questions)
        assistant.go.release(1_000)
        questions.close()

    asyncio.run(all_of_it())


def ask(questions: Questions, name: str, question: str) -> asyncio.Task[Any]:
    """Ask as a client does, in a context of its own."""

    async def asking() -> Any:
        client.set(name)
        return await questions.ask(question, {})

    return asyncio.create_task(asking())


async def settled(tasks: list[asyncio.Task[Any]]) -> list[Any]:
    return await asyncio.gather(*tasks, return_exceptions=True)


def test_clients_take_turns() -> None:
    async def test(assistant: Answering, questions: Questions) -> None:
        tasks = [ask(questions, "a", f"a{number}") for number in range(4)]
        await asyncio.sleep(0.01)
        tasks += [ask(questions, "b", f"b{number}") for number in range(2)]
        tasks += [ask(questions, "c", "c0")]
        await asyncio.sleep(0.01)
        assert (questions.waiting, questions.clients) == (6, 3)
        assistant.go.release(7)
        assert [task.upper() for task in assistant.asked[:1]] == ["A0"]
        assert await settled(tasks) == ["A0", "A1", "A2", "A3", "B0", "B1", "C0"]
        assert assistant.asked == ["a0", "a1", "b0", "c0", "a2", "b1", "a3"]
        assert (questions.waiting, questions.clients) == (0, 0)

    run(test)


def test_who_fills_the_queue_is_told_to_come_again_and_others_are_answered() -> None:
    refusals: list[None] = []

    async def test(assistant: Answering, questions: Questions) -> None:
        questions._mean = 1.0  # seconds of an answer
        tasks = [ask(questions, "a", f"a{number}") for number in range(9)]
        await asyncio.sleep(0.01)
        # One is answered, four wait for up to 4 s and a little less than one; the fifth is late.
        assert (questions.waiting, len(refusals)) == (4, 4)
        error = tasks[-1].exception()
        assert isinstance(error, OverloadedError) and error.retry_after == 1
        assert "ask again in 1 s" in str(error)
        other = ask(questions, "b", "b0")
        await asyncio.sleep(0.01)
        assert not other.done()
        client.set("b")
        assert 2.0 < questions.expected_wait() < 4.1  # behind its own first and two of a's
        assistant.go.release(9)
        assert await other == "B0" and len(refusals) == 4
        assert sum(isinstance(result, str) for result in await settled(tasks)) == 5

    run(test, max_wait=4.5, refused=lambda: refusals.append(None))


def test_a_deadline_is_kept_where_answers_take_longer_than_before() -> None:
    waits: list[float] = []

    async def test(assistant: Answering, questions: Questions) -> None:
        first, second = ask(questions, "a", "one"), ask(questions, "b", "two")
        with pytest.raises(OverloadedError):
            await second
        assert questions.waiting == questions.clients == 0 and not first.done()
        assistant.go.release()
        assert await first == "ONE" and assistant.asked == ["one"]
        assert len(waits) == 1 and waits[0] < 0.05

    run(test, max_wait=0.05, waited=waits.append)


def test_what_follows_an_answer_is_never_refused() -> None:
    async def test(assistant: Answering, questions: Questions) -> None:
        first = ask(questions, "a", "one")
        await asyncio.sleep(0.01)
        kept = asyncio.create_task(questions.run(lambda _: "kept", always=True))
        await asyncio.sleep(0.01)
        with pytest.raises(OverloadedError):
            await questions.run(lambda _: "refused")
        assistant.go.release()
        assert (await first, await kept) == ("ONE", "kept")

    run(test, limit=1)


def test_equal_questions_are_answered_once_and_abandoned_ones_are_not() -> None:
    seconds: list[float] = []

    async def test(assistant: Answering, questions: Questions) -> None:
        first = ask(questions, "a", "one")
        await asyncio.sleep(0.01)
        same = [ask(questions, name, "same") for name in "ab"]
        left, bad = ask(questions, "b", "left"), ask(questions, "b", "bad")
        await asyncio.sleep(0.01)
        left.cancel()
        assistant.go.release(4)
        results = await settled([first, *same, bad])
        assert results[:3] == ["ONE", "SAME", "SAME"] and isinstance(results[3], ValueError)
        assert assistant.asked == ["one", "same", "bad"] and len(seconds) == 3

    run(test, worked=seconds.append)


def test_several_answer_at_once_and_share_the_threads() -> None:
    shares: list[int] = []
    rested: list[int] = []
    second = Answering()

    async def test(assistant: Answering, questions: Questions) -> None:
        questions.add(cast(Assistant, second), rest=lambda: rested.append(len(second.asked)))
        first = ask(questions, "a", "one")
        await asyncio.sleep(0.05)
        assert (assistant.asked, second.asked, shares) == (["one"], [], [1])
        tasks = [first, *(ask(questions, "a", name) for name in ("two", "three"))]
        await asyncio.sleep(0.05)
        assert (assistant.asked, second.asked, questions.waiting) == (["one"], ["two"], 1)
        second.go.release()  # the free one takes what waits
        await tasks[1]
        await asyncio.sleep(0.05)
        assert second.asked == ["two", "three"] and shares == [1, 2, 2]
        assistant.go.release()
        second.go.release()
        assert await settled(tasks) == ["ONE", "TWO", "THREE"]
        await asyncio.sleep(0.05)
        assert questions.expected_wait() == 0.0 and rested == [2]  # once nothing waits

    run(test, share=shares.append)


def test_a_session_has_one_job_at_a_time() -> None:
    second = Answering()

    async def test(assistant: Answering, questions: Questions) -> None:
        questions.add(cast(Assistant, second))

        def say(words: str, session: str | None) -> asyncio.Task[Any]:
            return asyncio.create_task(questions.run(lambda one: one.ask(words), session=session))

        tasks = [say("one", "talk"), say("two", "talk"), say("three", None), say("four", "talk")]
        await asyncio.sleep(0.05)
        assert (assistant.asked, second.asked, questions.waiting) == (["one"], ["three"], 2)
        second.go.release(4)
        await tasks[2]
        await asyncio.sleep(0.05)
        assert questions.waiting == 2  # though one is free
        assistant.go.release(4)
        assert await settled(tasks) == ["ONE", "TWO", "THREE", "FOUR"]
        assert [*assistant.asked, *second.asked].index("two") < 3

    run(test)
