"""The child process of complex formats: what it gives, what it may not do, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drt_engine import errors
from drt_engine.documents import Block, OpenDocument, Source, formats, open_document
from drt_engine.documents.sandbox import process as module
from drt_engine.documents.sandbox.process import (
    FRAME_BYTES,
    Limits,
    block_of,
    pages_of,
    read_isolated,
    skipped_of,
)
from drt_engine.errors import DocumentError, EmptyDocument, UnreadableDocument
from tests.engine.documents import samples
from tests.engine.documents.helpers import joined
from tests.tables import each_row

HERE = "tests.engine.documents.test_sandbox"


class Misbehaving:
    """A reader that does what the document's first word says."""

    def recognises(self, head: bytes) -> bool:
        return False

    def open(self, source: Source) -> OpenDocument:
        with source.open() as file:
            word = file.read().decode()
        if word == "refuse":
            raise EmptyDocument(f"{source.name} is empty in a new way.")
        return OpenDocument("title", "text/x-test", getattr(self, word)())

    def speak(self) -> Iterator[Block]:
        yield Block("one\n", 1, "a > b", 7, ((0, 3), (2, 9, 12)))
        yield Block("two \ud800 \u2028 \U0001f600")

    def hang(self) -> Iterator[Block]:
        yield Block("before")
        time.sleep(600)

    def spin(self) -> Iterator[Block]:
        while True:
            pass
        yield Block("never")

    def swell(self) -> Iterator[Block]:
        held = []
        while True:
            held.append(bytearray(1 << 24))
        yield Block(str(held))

    def crash(self) -> Iterator[Block]:
        yield Block("before")
        os.kill(os.getpid(), signal.SIGSEGV)

    def leave(self) -> Iterator[Block]:
        os._exit(3)
        yield Block("never")

    def fail(self) -> Iterator[Block]:
        raise RuntimeError("a mistake")
        yield Block("never")

    def flood(self) -> Iterator[Block]:
        while True:
            yield Block("x" * 65_536)

    def overlong(self) -> Iterator[Block]:
        yield Block("x" * 65_537)

    def print(self) -> Iterator[Block]:
        sys.stdout.write("00000002{}")
        sys.stdout.flush()
        os.write(1, b"00000002{}")
        yield Block("said\n")

    def write(self) -> Iterator[Block]:
        try:
            Path("written").write_text("x" * 10)
        except OSError as error:
            yield Block(type(error).__name__)

    def wait(self) -> Iterator[Block]:
        yield Block("before")
        while True:
            time.sleep(0.01)


def _path() -> str:
    return os.pathsep.join(entry for entry in sys.path if entry)


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Children that know the misbehaving reader, by a module that Python imports as it starts."""
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(
        "from drt_engine.documents import formats\n"
        f"odd = formats.Format('html', 'test', ('.html',), {HERE + ':Misbehaving'!r})\n"
        "formats.BUILT_IN = (odd, *(f for f in formats.BUILT_IN if f.name != 'html'))\n"
    )
    path = os.pathsep.join([str(hook), os.getcwd(), _path()])
    monkeypatch.setattr(module, "_environment", lambda: os.environ | {"PYTHONPATH": path})
    monkeypatch.chdir(tmp_path)


def asked(tmp_path: Path, word: str, **limits: Any) -> OpenDocument:
    path = tmp_path / "a.html"
    path.write_text(word)
    chosen = formats.format_named("html")
    return read_isolated(chosen, Source.from_path(path), Limits(**limits))


def refusal(tmp_path: Path, word: str, **limits: Any) -> str:
    with pytest.raises(UnreadableDocument) as caught:
        list(asked(tmp_path, word, **limits).blocks)
    assert str(caught.value).startswith(str(tmp_path / "a.html")), caught.value
    return str(caught.value)


@pytest.mark.thorough
@pytest.mark.usefixtures("worker")
def test_blocks_come_back_whole(tmp_path: Path) -> None:
    document = asked(tmp_path, "speak")
    assert (document.title, document.media_type) == ("title", "text/x-test")
    assert list(document.blocks) == [
        Block("one\n", 1, "a > b", 7, ((0, 3), (2, 9, 12))),
        Block("two ? \u2028 \U0001f600"),
    ]


@pytest.mark.few(1)
@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize(
    ("word", "sentence", "limits"),
    [
        ("hang", "said nothing for", {"silence": 0.5}),
        pytest.param(
            *("spin", "took more than 1 s of computing", {"cpu_seconds": 1}), marks=pytest.mark.slow
        ),
        pytest.param(
            *("swell", "takes more than 200 MB of memory", {"memory_bytes": 200 << 20}),
            marks=pytest.mark.thorough,
        ),
        ("crash", r"crashed \(SIGSEGV\)", {}),
        ("leave", r"exit code 3", {}),
        pytest.param("fail", "failed with RuntimeError", {}, marks=pytest.mark.thorough),
        ("flood", "far more text than", {"characters": 1 << 20}),
        pytest.param("overlong", "something that is no text", {}, marks=pytest.mark.thorough),
    ],
)
def test_what_goes_wrong_is_a_sentence(
    tmp_path: Path, word: str, sentence: str, limits: dict[str, Any]
) -> None:
    assert re.search(sentence, refusal(tmp_path, word, **limits))


@pytest.mark.usefixtures("worker")
def test_errors_keep_their_kind(tmp_path: Path) -> None:
    with pytest.raises(EmptyDocument, match="is empty in a new way"):
        asked(tmp_path, "refuse")


@pytest.mark.thorough
@pytest.mark.usefixtures("worker")
def test_a_library_that_prints_cannot_break_the_frames(tmp_path: Path) -> None:
    assert joined(list(asked(tmp_path, "print").blocks)) == "said\n"


@pytest.mark.thorough
@pytest.mark.usefixtures("worker")
def test_nothing_is_written_to_disk(tmp_path: Path) -> None:
    assert joined(list(asked(tmp_path, "write").blocks)) == "PermissionError"
    assert not (tmp_path / "written").exists()


@pytest.mark.thorough
@pytest.mark.usefixtures("worker")
def test_no_child_outlives_its_document(tmp_path: Path) -> None:
    document = asked(tmp_path, "wait")
    pid = document.blocks._child._process.pid  # type: ignore[attr-defined]
    assert next(document.blocks).text == "before"
    document.close()
    assert next(document.blocks, None) is None
    assert not _alive(pid)
    dropped = asked(tmp_path, "wait")
    pid = dropped.blocks._child._process.pid  # type: ignore[attr-defined]
    del dropped
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.thorough
@pytest.mark.usefixtures("worker")
def test_a_child_ends_with_its_parent(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("wait")
    code = (
        "import sys\nfrom drt_engine.documents import Source, formats\n"
        "from drt_engine.documents.sandbox import process\n"
        "html = formats.format_named('html')\n"
        "document = process.read_isolated(html, Source.from_path('a.html'))\n"
        "print(document.blocks._child._process.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    env = module._environment()
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=-1, stdout=-1, cwd=tmp_path, env=env
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert _alive(pid)
        parent.kill()
    deadline = time.monotonic() + 10
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _alive(pid)


@each_row(
    "answer",
    [
        b"",
        b"zzzzzzzz",
        b"%08x" % (FRAME_BYTES + 1),
        b'0000000d{"title":"t"}00000004nope',
    ],
)
def test_what_is_no_frame_is_refused(
    tmp_path: Path, answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "drt_engine" / "documents" / "sandbox"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").write_text("")
    (package / "worker.py").write_text(f"import os; os.write(1, {answer!r})")
    monkeypatch.setattr(module, "_environment", lambda: {"PYTHONPATH": str(tmp_path)})
    refusal(tmp_path, "x", silence=10.0)


@each_row(
    "frame",
    [
        {},
        {"text": ""},
        {"text": 1},
        {"text": "a" * 65_537},
        {"text": "a", "page": "1"},
        {"text": "a", "section": 1},
        {"text": "a", "line": 1.5},
        {"text": "a", "origin": [["0", 1]]},
        {"text": "a", "origin": {"a": 1}},
        {"text": "a", "line": 0},
        {"text": "a", "origin": [[1, 2, 3, 4]]},
        {"text": "a", "origin": [[1, 3, 2]]},
        {"text": "a", "origin": [[1, -2]]},
        {"text": "a", "origin": [[1, True]]},
        {"text": "a", "origin": [[1, 2], [0, 3]]},
        {"text": "a", "origin": [5]},
    ],
)
def test_a_frame_that_is_no_block_is_refused(frame: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no text"):
        block_of(frame)


@pytest.mark.parametrize(
    ("said", "pages"), [(3, 3), (0, 0), (-1, 0), (1 << 60, 0), ("3", 0), (True, 0), (None, 0)]
)
def test_the_number_of_pages_is_one_or_unknown(said: object, pages: int) -> None:
    assert pages_of({"pages": said}) == pages and pages_of({}) == 0


@each_row("said", [5, "abc", None, ["x"] * 101])
def test_a_frame_that_skips_nothing_sensible_is_refused(said: object) -> None:
    with pytest.raises(ValueError, match="no list"):
        skipped_of({"skipped": said})


def test_the_child_is_started_with_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    assert "SECRET_TOKEN" not in module._environment()
    (tmp_path / "json.py").write_text("raise SystemExit('taken from the current folder')")
    (tmp_path / "a.html").write_text("<p>Words.")
    monkeypatch.chdir(tmp_path)
    assert joined(list(open_document(Source.from_path("a.html")).blocks)) == "Words.\n"


def test_what_the_child_imports() -> None:
    code = "import drt_engine.documents.sandbox.worker, sys; print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=module._environment()
    )
    loaded = set(ended.stdout.split())
    assert "drt_engine.documents.sandbox.worker" in loaded
    assert not loaded & {"torch", "numpy", "tokenizers", "pypdfium2", "click", "subprocess"}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["report.pdf", "contract.docx", "novel.epub"])
def test_a_child_reads_what_the_reader_reads(name: str, tmp_path: Path) -> None:
    if name.endswith(".pdf"):
        pytest.importorskip("pypdfium2")
    made = {**samples.PDFS, **samples.DOCXS, **samples.EPUBS}
    source = Source.from_path(tmp_path / name)
    (tmp_path / name).write_bytes(made[name])
    isolated, here = open_document(source), open_document(source, isolate=False)
    assert list(isolated.blocks) == list(here.blocks)
    assert isolated.skipped == here.skipped != ()
    assert (isolated.title, isolated.media_type) == (here.title, here.media_type)


def test_every_document_error_can_be_sent() -> None:
    kinds = [one for one in vars(errors).values() if isinstance(one, type)]
    assert [one.__name__ for one in kinds if issubclass(one, DocumentError)] == [
        "DocumentError",
        "UnsupportedFormat",
        "MissingExtra",
        "EmptyDocument",
        "UnreadableDocument",
        "ScannedPages",
    ]
