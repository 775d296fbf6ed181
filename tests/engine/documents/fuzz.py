"""Damages documents in many ways and reads them: run as a process of its own, so that a crash or
a hang of a reader is seen from outside.

`python -m tests.engine.documents.fuzz COUNT SEED FORMAT...` prints the format and number of each
document before it is read; what ends it is the last one printed.
"""

from __future__ import annotations

import gzip
import io
import random
import resource
import signal
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from drt_engine.documents.base import BLOCK_CHARACTERS, Source
from drt_engine.documents.formats import format_named
from drt_engine.documents.opening import open_here
from drt_engine.documents.readers.archive import send_members
from drt_engine.errors import DocumentError
from tests.engine.documents.makers import make_tar, make_zip
from tests.engine.documents.test_golden import FOLDER, MADE

SECONDS = 10  # for one document of a few kilobytes
MEMORY = 2 << 30
_WORDS = (b"<", b">", b'"', b"&", b"{", b"}", b"\\", b"[", b"]", b"\0", b"\xff", b"%", b"$", b"\n",
          b"----\n", b"-1", b"99999999999", b"/Length", b"<w:p>", b"</", b"<!DOCTYPE", b"\\begin{",
          b"\r\n\r\n", b"From a 00:00\n", b"--b\n", b"'''", b"(" * 50, b"\xe2\x80\xa8")  # fmt: skip


def originals(name: str) -> list[tuple[str, bytes]]:
    """The sample documents of a format, as file names and bytes."""
    if name == "archive":
        members = {f"d{n}/{file}": data for n, (file, data) in enumerate(MADE.items())}
        made = [("a.zip", make_zip(members)), ("a.tar", make_tar(members))]
        packed = [("a.tar.gz", make_tar(members, mode="w:gz"))]
        return [*made, *packed, ("tool.py.gz", gzip.compress(MADE["tool.py"]))]
    samples = {path.stem: path.read_bytes() for path in FOLDER.glob("*.sample")} | MADE
    suffixes = format_named(name).suffixes
    return [(file, data) for file, data in sorted(samples.items()) if file.endswith(suffixes)]


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The document with some bytes changed, cut, doubled, moved, or with strange words put in."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        if not out:
            break
        at = chance.randrange(len(out))
        to = min(len(out), at + chance.choice((1, 4, 32, 512)))
        change: Callable[[], object] = chance.choice(
            (
                lambda: out.__setitem__(at, chance.randrange(256)),  # noqa: B023
                lambda: out.__delitem__(slice(at, to)),  # noqa: B023
                lambda: out.__delitem__(slice(at, None)),  # noqa: B023
                lambda: out.__setitem__(slice(at, at), out[at:to] * chance.choice((1, 8))),  # noqa: B023
                lambda: out.__setitem__(slice(at, at), chance.choice(_WORDS)),  # noqa: B023
                lambda: out.__setitem__(slice(at, at), chance.randbytes(8)),  # noqa: B023
            )
        )
        change()
    return bytes(out)


def damaged_inside(data: bytes, chance: random.Random) -> bytes:
    """A zip whose members are damaged and packed again: no checksum keeps that from a reader."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name in chance.sample(sorted(members), k=min(len(members), chance.choice((1, 1, 2)))):
        members[name] = damaged(members[name], chance)
    return make_zip(members, stored=["mimetype"])


def read(name: str, source: Source) -> None:
    """Read a document whole; only DocumentError is an answer."""
    chosen = format_named(name)
    try:
        if chosen.archive:
            send_members(source, lambda **_: None)
            return
        for block in open_here(chosen, source).blocks:
            assert 0 < len(block.text) <= BLOCK_CHARACTERS
            block.text.encode()
    except DocumentError as error:
        message = str(error)
        assert message.startswith(source.name) and message.isprintable(), message


def _limits() -> None:
    for kind, value in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (value, hard))


def main(count: int, seed: int, names: list[str]) -> None:
    """Read `count` damaged documents of each format."""
    _limits()
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            files = originals(name)
            for number in range(count):
                chance = random.Random(f"{name} {seed} {number}")
                file, data = files[number % len(files)]
                path = Path(folder) / file
                inside = data.startswith(b"PK") and number // len(files) % 2 == 1
                path.write_bytes((damaged_inside if inside else damaged)(data, chance))
                print(name, number, flush=True)
                signal.alarm(SECONDS)
                read(name, Source.from_path(path))
                signal.alarm(0)
    print("done")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
