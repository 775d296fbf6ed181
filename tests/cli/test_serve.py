"""`drt serve`: what it hands to the SDK, and what it refuses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import drt as sdk
from tests.cli.conftest import Drt

TOKEN = "0123456789abcdef0123"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []

    def serve(assistant: Any, options: Any, *, ready: Any) -> None:
        calls.append(options)
        ready("http://127.0.0.1:1")

    monkeypatch.setattr(sdk, "serve", serve)
    monkeypatch.delenv("DRT_SERVE_TOKEN", raising=False)
    return calls


def test_options_and_the_address(drt: Drt, served: list[Any], tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    words = ["--host", "0.0.0.0", "--port", 0, "--token-file", file, "--allow-host", "a.example"]
    words += ["--allow-origin", "https://a.example", "--max-upload", 1, "--queue", 2, "--read-only"]
    words += ["--at-once", 3]
    ended = drt("serve", *words, "--timeout", 5)
    assert (ended.code, ended.err) == (0, "Serving http://127.0.0.1:1; Ctrl-C ends it.\n")
    (options,) = served
    assert (options.token, options.max_upload, options.queue) == (TOKEN, 1 << 20, 2)
    assert options.allowed_hosts == ("a.example",) and options.read_only
    assert options.at_once == 3


def test_a_writer_is_handed_over(
    drt: Drt, served: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRT_WRITER_KEY", "secret")
    words = ["--writer", "http://127.0.0.1:9/v1", "--writer-timeout", 3, "--strict"]
    assert drt("serve", *words, "--writer-model", "m").code == 0
    writer = served[0].writer
    assert (writer.url, writer.model, writer.timeout) == ("http://127.0.0.1:9/v1", "m", 3)
    assert writer.strict and writer.key == "secret" and "secret" not in repr(served[0])
    for wrong in (words, ["--strict"], ["--writer", "nowhere"]):
        ended = drt("serve", *wrong)
        assert ended.code != 0 and "writer" in ended.err and "Traceback" not in ended.err
    assert len(served) == 1


def test_the_token_is_taken_from_the_environment(
    drt: Drt, served: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRT_SERVE_TOKEN", TOKEN)
    assert drt("serve", "--quiet").err == ""
    assert served[0].token == TOKEN


def test_other_addresses_need_a_token(drt: Drt, served: list[Any], tmp_path: Path) -> None:
    ended = drt("serve", "--host", "0.0.0.0")
    assert ended.code == 1 and "needs a token" in ended.err and len(ended.err.splitlines()) == 1
    empty = tmp_path / "empty"
    empty.touch()
    assert "is empty" in drt("serve", "--token-file", empty).err
    assert served == []


def test_without_the_extra_it_is_a_sentence(drt: Drt, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("drt._server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    for words in (["serve"], ["bench", "serve"]):
        if words == ["bench", "serve"]:
            monkeypatch.setitem(sys.modules, "h11", None)
        ended = drt(*words)
        assert ended.code == 1
        assert ended.err.endswith('pip install "drt-assistant[serve]" installs it.\n'), ended.err


def test_a_ray_is_handed_over(drt: Drt, monkeypatch: pytest.MonkeyPatch) -> None:
    rays: list[Any] = []

    def serve(assistant: Any, options: Any, *, ready: Any) -> None:  # noqa: ARG001
        rays.append(assistant._opened._ray)

    monkeypatch.setattr(sdk, "serve", serve)
    assert drt("serve", "--ray", "head:6379", "--deadline", 2.5).code == 0
    assert drt("serve", "--ray", "local").code == drt("serve").code == 0
    assert [(ray.address, ray.deadline) for ray in rays[:2]] == [
        ("head:6379", 2.5),
        ("local", None),
    ]
    assert rays[2] is None
    for words in (["--deadline", 2], ["--ray", "local", "--deadline", 0]):
        ended = drt("serve", *words)
        assert ended.code != 0 and "deadline" in ended.err and "Traceback" not in ended.err
