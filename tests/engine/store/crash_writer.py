"""Run by test_crash.py: a writer that works until it is killed."""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

from tests.engine.store.helpers import INT8, make_batch, make_texts, open_durable, text_id

SEGMENTS = 3
CHUNKS = 2  # per segment


def pieces(number: int) -> list[str]:
    """The text of document `number`."""
    return [f"document {number} chunk {i} 😀. " for i in range(SEGMENTS * CHUNKS)]


def write_forever(path: Path) -> None:
    """Read one document after the other, saying what was committed after each step."""
    with open_durable(path) as store:
        for number in itertools.count(1):
            # every third takes the place of the one before it
            source = f"source {number - (number % 3 == 0)}"
            done = [text_id(pieces(n)) for n in (number, number + (number % 3 == 2))]
            if any(store.document_by_id(id) is not None for id in done):
                continue
            with store.begin_document(
                document_id=text_id(pieces(number)),
                title="T",
                source=source,
                media_type="text/plain",
            ) as writer:
                for begin in range(writer.committed_chunks, SEGMENTS * CHUNKS, CHUNKS):
                    part = pieces(number)[begin : begin + CHUNKS]
                    batch = make_batch(INT8, [4] * CHUNKS, seed=number)
                    writer.append(batch, make_texts(part, start=writer.committed_characters))
                    say(f"{number} {writer.committed_chunks}")
                writer.finish(places=[])


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def main() -> None:
    write_forever(Path(sys.argv[1]))
