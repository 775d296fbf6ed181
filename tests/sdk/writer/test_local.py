"""Language models on this machine are found by their lists, and nothing else is believed."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

from drt import LocalWriter, WriterOptions, local_writers
from tests.sdk.writer.models import listed, offering
from tests.tables import each_row


def test_programs_and_their_models_are_found() -> None:
    with offering(listed("llama3.2", "qwen3"), listed("phi")) as (first, second):
        found = local_writers(ports={"Ollama": first, "vLLM": second})
        assert found == (
            LocalWriter("Ollama", f"http://127.0.0.1:{first}/v1", ("llama3.2", "qwen3")),
            LocalWriter("vLLM", f"http://127.0.0.1:{second}/v1", ("phi",)),
        )
        assert WriterOptions(found[0].url, found[0].models[0]).host == f"127.0.0.1:{first}"


@each_row(
    "body",
    [
        b"<html>another program</html>",
        b"[" * 100_000,
        b"x" * (2 << 20),
        {"data": "many"},
        {"data": [1, None, {"id": 3}, {"id": "a\x1b[31m"}, {"id": "x" * 999}]},
        {"models": []},
        listed("drt-small-en", owner="drt"),  # a server of ours, which does not write
        listed("gpt-oss:120b-cloud", "deepseek:cloud"),  # not on this machine
    ],
    ids=range(8),
)
def test_what_is_no_list_of_models_is_passed_over(body: Any) -> None:
    with offering(body) as (port,):
        assert local_writers(ports={"llama.cpp": port}) == ()


@pytest.mark.thorough
def test_nobody_there_and_nobody_in_time() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert local_writers(ports={"Ollama": free.getsockname()[1]}) == ()
    with offering(listed("slow"), wait=0.6) as (port,):
        began = time.monotonic()
        assert local_writers(ports={"Ollama": port}, timeout=0.1) == ()
        assert time.monotonic() - began < 0.5
    with offering(listed("slow" * 9), drips=0.02) as (port,):
        began = time.monotonic()
        assert local_writers(ports={"Ollama": port}, timeout=0.2) == ()
        assert time.monotonic() - began < 1.0
