"""A served library over the fake engine, and a client in the same process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from drt import Assistant, ReadingStep, ServeOptions, _engine
from tests.sdk.fakes import FakeEngine

HANDBOOK = "The notice period is thirty days. The keeper signs every log.\nSee the annex.\n"
Client = Any
Serve = Callable[..., Client]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    fake = FakeEngine()
    fake.install(lambda name, value: monkeypatch.setitem(vars(_engine), name, value))
    return fake


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def assistant(engine: FakeEngine, tmp_path: Path) -> Iterator[Assistant]:
    with Assistant(tmp_path / "notes.library") as opened:
        yield opened
        assert [one for one in opened.library.check() if one.severity == "error"] == []


@pytest.fixture
def handbook(tmp_path: Path) -> Path:
    file = tmp_path / "handbook.txt"
    file.write_text(HANDBOOK, encoding="utf-8")
    return file


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> ReadingStep:
    """A step that is told of before anything else of an answer."""
    step = ReadingStep(8, "1", "Lease", "The notice period is thirty days.", 0, 33, 2)

    @contextmanager
    def watch_reading(callback: Callable[[ReadingStep], None]) -> Iterator[None]:
        callback(step)
        yield

    monkeypatch.setitem(vars(_engine), "watch_reading", watch_reading)
    return step


@pytest.fixture
def serve(assistant: Assistant) -> Iterator[Serve]:
    """Makes a client of a server with these options."""
    for name in ("starlette", "multipart", "prometheus_client", "httpx2"):
        pytest.importorskip(name)
    from starlette.testclient import TestClient

    from drt import asgi_app

    with ExitStack() as stack:

        def start(**options: Any) -> Client:
            app = asgi_app(assistant, ServeOptions(**options))
            client = TestClient(
                app, base_url="http://127.0.0.1:8080", raise_server_exceptions=False
            )
            return stack.enter_context(client)

        yield start


@pytest.fixture
def client(serve: Serve, assistant: Assistant, handbook: Path) -> Client:
    """A client of a server whose library has the handbook."""
    assistant.ingest(handbook)
    return serve()
