"""Frames: messages with bytes behind them come out as they went in, or as an end."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from drt_engine.ingest.frames import read_frame, send_frame
from tests.tables import each_row


def sent(tmp_path: Path, *frames: tuple[dict[str, object], bytes]) -> bytes:
    path = tmp_path / "frames"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    for message, data in frames:
        send_frame(descriptor, message, data)
    os.close(descriptor)
    return path.read_bytes()


def test_messages_and_their_bytes_come_back(tmp_path: Path) -> None:
    named: dict[str, object] = {"path": "a\udcff.txt", "text": "café 中"}
    frames = [(named, b"\0\xff" * 9), ({}, b""), ({"n": 1}, b"x")]
    stream = io.BytesIO(sent(tmp_path, *frames))
    assert [read_frame(stream) for _ in frames] == frames
    with pytest.raises(EOFError):
        read_frame(stream)


@each_row("kept", [3, 16, 20, -1])
def test_a_message_that_is_cut_is_an_end(tmp_path: Path, kept: int) -> None:
    whole = sent(tmp_path, ({"text": "of a document"}, b"memory"))
    with pytest.raises(EOFError):
        read_frame(io.BytesIO(whole[:kept]))
