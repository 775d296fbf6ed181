"""A question and a saved turn where any call to the operating system fails: one sentence, the
conversation as it was or as it would be, and the same answer afterwards.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from drt_engine.answer.ask import ask
from drt_engine.answer.options import AskOptions
from drt_engine.answer.result import AnswerResult
from drt_engine.answer.session import SessionState
from drt_engine.errors import EngineError
from drt_engine.store import Store
from tests.engine.store.disks import ERRORS
from tests.engine.store.failing_calls import FailingCalls
from tests.model_folder import MANUAL, library, read_text, runtime

QUESTIONS = ("Who keeps the key?", "And what does it burn?")
OPTIONS = AskOptions(threshold=0.0)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A library with a conversation of one turn."""
    folder = tmp_path_factory.mktemp("asking")
    with library(folder / "library") as store:
        read_text(store, folder, name="manual.md", text=MANUAL)
        session = SessionState.new(runtime(), store, "talk")
        ask(runtime(), store, QUESTIONS[0], OPTIONS, session=session)
        session.save()
    yield folder / "library"


def go_on(path: Path) -> AnswerResult:
    """Open, restore, ask, save."""
    model = runtime()
    with Store.open(path, fingerprint=model.fingerprint, layout=model.layout) as store:
        session = SessionState.restore(model, store, "talk")
        answer = ask(model, store, QUESTIONS[1], OPTIONS, session=session)
        session.save()
        return answer


def fail_every_call(base: Path, folder: Path, codes: list[int], *, every: int = 1) -> int:
    shutil.copytree(base, folder / "whole")
    wanted = go_on(folder / "whole")
    for at in range(1, 1_000, every):
        path = folder / f"faults-{at}"
        shutil.copytree(base, path)
        calls, failed = FailingCalls(path, at, codes[at % len(codes)]), False
        try:
            with calls.running():
                answer = go_on(path)
        except EngineError as error:
            failed = True
            assert str(error).count("\n") == 0
        else:
            assert answer == wanted
        with library(path) as store:
            session = SessionState.restore(runtime(), store, "talk")
            questions = [turn["question"] for turn in session.turns]
            assert questions == list(QUESTIONS) or (failed and questions == [QUESTIONS[0]])
            if questions == [QUESTIONS[0]]:
                assert ask(runtime(), store, QUESTIONS[1], OPTIONS, session=session) == wanted
        shutil.rmtree(path)
        if calls.left > 0:
            assert not failed
            return at
    raise AssertionError("it never got through")


@pytest.mark.thorough
def test_a_turn_may_fail_at_some_calls(base: Path, tmp_path: Path) -> None:
    assert fail_every_call(base, tmp_path, list(ERRORS), every=61) > 10


@pytest.mark.slow
@pytest.mark.parametrize("error", ERRORS, ids=lambda code: errno.errorcode[code])
def test_a_turn_may_fail_at_any_call(base: Path, tmp_path: Path, error: int) -> None:
    calls = fail_every_call(base, tmp_path, [error])
    print(f"a turn, {errno.errorcode[error]}: each of {calls - 1} calls failed once")
    assert calls > 10
