"""The line that says what is waited for: on terminals alone, and gone before the answer."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import drt as sdk
from drt import ReadingStep, _engine
from drt_cli._options import Settings
from drt_cli._status import LOADING, waiting
from tests.cli.conftest import Drt

STEP = ReadingStep(8, "1", "Lease", "The notice\nperiod is \x1b[31mthirty days.", 0, 10, 2)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextmanager
def _watched(callback: Callable[[ReadingStep], None]) -> Iterator[None]:
    callback(STEP)
    yield


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setitem(vars(_engine), "watch_reading", _watched)
    return Terminal()


def test_it_shows_the_model_then_what_is_read_and_goes(
    screen: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.delitem(sys.modules, "drt_engine.runtime", raising=False)
    with waiting(Settings()) as line:
        assert line is not None
    first, loading, reading, last = screen.getvalue().split("\r\x1b[2K")
    assert (first, loading, last) == ("", LOADING, "")
    assert reading.startswith("reading 3 of 8 passages, here first: The notice period")
    assert len(reading) < 60 and "\x1b" not in reading


def test_each_batch_takes_the_place_of_the_one_before(
    screen: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", screen)
    with waiting(Settings(), loads=False) as line:
        assert line is not None
        line.reading(replace(STEP, read=4))
        line.reading(replace(STEP, read=0, passages=1))
    first, second, only = (text[:23] for text in screen.getvalue().split("\r\x1b[2K")[1:4])
    assert (first, second) == ("reading 3 of 8 passages", "reading 5 of 8 passages")
    assert only == "reading 1 of 1 passage,"


def test_it_is_not_shown_where_nobody_wants_it(
    screen: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", screen)
    with waiting(Settings(quiet=True)) as line:
        assert line is None
    monkeypatch.setattr(screen, "isatty", lambda: False)
    with waiting(Settings()) as line:
        assert line is None
    assert screen.getvalue() == ""


@pytest.mark.parametrize(
    "words", ["ask", "ask --stream", "ask --all", "trace", "trace --json"], ids=str
)
def test_questions_show_it(
    drt: Drt, screen: Terminal, handbook: Path, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", screen)
    command, *options = words.split()
    result = drt(command, "keeper", handbook, *options)
    assert result.code == 0 and "keeper" in result.out and "reading 3" not in result.out
    shown = screen.getvalue().split("\r\x1b[2K")
    assert any(text.startswith("reading 3 of 8 passages") for text in shown) and shown[-1] == ""


@pytest.mark.skipif(sys.platform != "linux", reason="no other system forks")
@pytest.mark.parametrize("words", ["--warm on serve", "serve --workers 2"])
def test_a_server_that_loads_the_model_before_it_listens_says_so(
    drt: Drt, screen: Terminal, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def preload(*_: object, **__: object) -> None:
        raise sdk.ModelError("it is not here.")

    pytest.importorskip("uvicorn")
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.delitem(sys.modules, "drt_engine.runtime", raising=False)
    monkeypatch.setitem(vars(_engine), "preload", preload)
    monkeypatch.setitem(vars(_engine), "model_path", str)
    monkeypatch.setattr(sdk, "serve", lambda *_, **__: None)
    drt(*words.split(), "--port", 0)
    assert screen.getvalue().startswith(f"\r\x1b[2K{LOADING}\r\x1b[2K")
