"""The asynchronous assistant: the same methods and results, without blocking the event loop."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import threading
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest

import drt
import drt._engine
from drt import AsyncAnswerStream, AsyncAssistant, AsyncSession, LibraryError, QuestionError
from drt_engine.answer import preview
from drt_engine.progress import note_passages
from tests.sdk.fakes import FakeEngine
from tests.tables import each_row

PAIRS = (
    (drt.Assistant, AsyncAssistant),
    (drt.Session, AsyncSession),
    (drt.AnswerStream, AsyncAnswerStream),
)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 20))


def public(owner: type) -> dict[str, Any]:
    return {name: value for name, value in vars(owner).items() if not name.startswith("_")}


@each_row(("plain", "awaited"), PAIRS, ids=lambda kind: kind.__name__)
def test_every_method_has_its_twin_with_the_same_parameters(plain: type, awaited: type) -> None:
    assert set(public(plain)) <= set(public(awaited))
    assert set(public(awaited)) - set(public(plain)) <= {"answer"}  # an attribute of the plain one
    for name, method in public(plain).items():
        twin = public(awaited)[name]
        if isinstance(method, property):
            assert isinstance(twin, property)
            continue
        given, other = inspect.signature(method), inspect.signature(twin)
        assert [*given.parameters.values()] == [*other.parameters.values()], name


def test_the_same_constructor() -> None:
    assert inspect.signature(drt.Assistant) == inspect.signature(AsyncAssistant)


def test_the_same_answers(engine: FakeEngine, handbook: Path, tmp_path: Path) -> None:
    async def work() -> None:
        async with AsyncAssistant(tmp_path / "library") as assistant:
            document = await assistant.ingest(handbook)
            answer = await assistant.ask("Which period?", top_k=3)
            assert engine.asked[-1]["top_k"] == 3
            assert answer.text == "period" and answer.citations[0].document == document.id
            questions = ["Which keeper?", "Which notice?"]
            assert [one.text async for one in assistant.ask_many(questions)] == ["keeper", "notice"]
            assert (await assistant.summarize(document)).text
            assert (await assistant.ask_all("Which period?")).text == "period"
            (hit, *_) = (await assistant.search("period")).hits
            assert hit.sentence == "The notice period is thirty days."
            assert (await assistant.trace("Which period?")).tokens
            report = await assistant.ingest_many([handbook, "missing.txt"])
            assert len(report.documents) == len(report.failures) == 1
            results = [one async for one in assistant.ingest_each(handbook)]
            assert results[0].document is not None
            assert assistant.library.documents()[0].id == document.id
            with pytest.raises(QuestionError):
                await assistant.ask("?")

    run(work())


def test_a_closed_assistant_says_so(engine: FakeEngine, handbook: Path, tmp_path: Path) -> None:
    async def work() -> None:
        assistant = AsyncAssistant(tmp_path / "library")
        await assistant.ingest(handbook)
        await assistant.close()
        await assistant.close()
        with pytest.raises(LibraryError, match="closed"):
            await assistant.ask("Which period?")

    run(work())


def test_a_stream_gives_pieces_and_then_the_answer(
    engine: FakeEngine, handbook: Path, tmp_path: Path
) -> None:
    async def work() -> None:
        async with AsyncAssistant(tmp_path / "library") as assistant:
            await assistant.ingest(handbook)
            stream = assistant.stream("Which period?")
            assert stream.answer is None
            assert [piece async for piece in stream] == ["per", "iod"]
            assert stream.answer is not None and stream.answer.text == "period"

    run(work())


def test_a_session_keeps_its_turns(engine: FakeEngine, handbook: Path, tmp_path: Path) -> None:
    async def work() -> None:
        async with AsyncAssistant(tmp_path / "library") as assistant:
            await assistant.ingest(handbook)
            session = await assistant.session("review")
            await session.ask("Which period?")
            assert [piece async for piece in session.stream("Which keeper?")]
            await session.rename("reviewed")
            await session.save()
            assert session.name == "reviewed"
            assert [turn.answer for turn in session.turns] == ["period", "keeper"]
            assert [one.name for one in assistant.library.sessions()] == ["reviewed"]

    run(work())


def test_the_loop_goes_on_while_the_engine_works(
    engine: FakeEngine, handbook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = threading.Event()
    inner = engine.ask

    def slow(*arguments: Any, **options: Any) -> Any:
        assert free.wait(10)
        return inner(*arguments, **options)

    monkeypatch.setattr(drt._engine, "ask", slow)

    async def work() -> None:
        async with AsyncAssistant(tmp_path / "library") as assistant:
            await assistant.ingest(handbook)
            asked = asyncio.create_task(assistant.ask("Which period?"))
            await asyncio.sleep(0.05)
            assert not asked.done()
            free.set()
            assert (await asked).text == "period"

    run(work())


def test_progress_is_told_in_the_loops_thread(
    engine: FakeEngine, handbook: Path, tmp_path: Path
) -> None:
    threads: list[int] = []

    async def work() -> None:
        async with AsyncAssistant(tmp_path / "library") as assistant:
            await assistant.ingest(
                handbook, progress=lambda step: threads.append(threading.get_ident())
            )
            answers = assistant.ask_many(
                ["Which period?"], progress=lambda step: threads.append(threading.get_ident())
            )
            assert isinstance(answers, AsyncIterator)
            assert len([one async for one in answers]) == 1
            await asyncio.sleep(0.01)

    run(work())
    assert len(threads) == 2 and set(threads) == {threading.get_ident()}


@pytest.mark.parametrize("awaited", [True, False])
def test_what_is_read_is_told_in_the_loops_thread(
    engine: FakeEngine,
    handbook: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    awaited: bool,
) -> None:
    step, answer = drt.ReadingStep(8, "1", "Lease", "Thirty days.", 0, 12), engine.ask
    threads: list[int] = []
    told: list[drt.ReadingStep] = []

    def reading(*arguments: Any, **options: Any) -> Any:
        threads.append(threading.get_ident())
        for number in (0, 2):
            note_passages(None, [], number)
        return answer(*arguments, **options)

    def note(said: drt.ReadingStep) -> None:
        assert threading.current_thread() is threading.main_thread()
        told.append(said)

    monkeypatch.setattr(preview, "_step", lambda *_: step)
    engine.ask = reading  # type: ignore[method-assign]
    monkeypatch.setitem(vars(drt._engine), "ask", reading)
    steps = [step, dataclasses.replace(step, read=2)]

    async def work() -> None:
        async with AsyncAssistant(tmp_path / "library") as assistant:
            await assistant.ingest(handbook)
            with drt.watch_reading(note):
                await assistant.ask("Which period?")
                assert told == steps
                stream = assistant.stream("Which period?")
                assert [piece async for piece in stream] and told == 2 * steps
            await assistant.ask("Which period?")
        assert told == 2 * steps and threading.get_ident() not in threads

    async def work_at_once() -> None:  # in the loop's own thread
        with drt.Assistant(tmp_path / "library") as assistant, drt.watch_reading(note):
            assistant.ingest(handbook)
            assistant.ask("Which period?")
            assert told == steps

    run(work() if awaited else work_at_once())


def test_watching_lets_others_work(engine: FakeEngine, handbook: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.txt").write_text(handbook.read_text())

    async def work() -> None:
        async with AsyncAssistant(tmp_path / "library") as assistant:
            await assistant.ingest(handbook)
            async for event in assistant.watch(folder, interval=0.01):
                assert event.kind == "read" or event.kind == "removed"
                break
            assert (await assistant.ask("Which period?")).found

    (folder / "a.txt").write_text("Another period.")
    run(work())
