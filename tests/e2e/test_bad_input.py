"""What goes wrong ends in one sentence and the documented exit code, and loses nothing."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drt_engine.ingest import pipeline
from tests.e2e.conftest import Drt
from tests.engine.documents.helpers import make_pdf
from tests.model_folder import LETTERS, MANUAL, model_folder
from tests.sampling import sampled

QUESTION = "Who keeps the key?"
ANY = ("--threshold", 0)
BAD_FILES = {
    "empty.txt": (b"", "empty"),
    "blank.txt": (b" \n\n\t ", "empty"),
    "byte.txt": (b"\0", "binary"),
    "half.txt": (b"\xff", ""),
    "binary.txt": (bytes(range(256)) * 64, "binary"),
    "binary.bin": (random.Random(0).randbytes(5000), ""),
    "invisible.txt": ("\u200b\u200b".encode(), "no words"),
    "utf-16.txt": (("The lamp burns oil. " * 20).encode("utf-16-le")[:-1], "binary"),
    "broken.pdf": (b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog", ""),
    "cut.pdf": (make_pdf([["The lamp burns oil."]])[:200], ""),
    "text.pdf": (b"This is not a PDF.", ""),
}


def assert_whole(drt: Drt) -> None:
    """The library holds nothing broken."""
    checked = drt("library", "check")
    assert (checked.code, checked.err) == (0, ""), checked


@pytest.fixture
def bad(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    file: Path = tmp_path / request.param
    file.write_bytes(BAD_FILES[request.param][0])
    return file


# One of each kind; tests/engine/documents reads all.
@pytest.mark.few(1)
@pytest.mark.parametrize("bad", sampled(BAD_FILES, {0, 4, 7, 8}), ids=BAD_FILES, indirect=True)
def test_a_file_that_cannot_be_read(drt: Drt, bad: Path, manual: Path) -> None:
    result = drt("ingest", manual, bad)
    assert result.code == 3
    assert bad.name in result.sentence and BAD_FILES[bad.name][1] in result.sentence
    assert len(drt("library", "list").out.splitlines()) == 1
    alone = drt("ask", QUESTION, bad)
    assert (alone.code, alone.out) == (1, "")
    assert bad.name in alone.sentence
    assert_whole(drt)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"a", "a"),
        (b".", "."),
        ("é".encode(), "é"),
        (b"na\xefve caf\xe9 in the lamp", "naïve café in the lamp"),
    ],
)
def test_the_smallest_and_oldest_files_can_be_read(
    drt: Drt, tmp_path: Path, content: bytes, text: str
) -> None:
    file = tmp_path / "small.txt"
    file.write_bytes(content)
    answer = drt("ask", QUESTION, file, *ANY, "--json")
    assert (answer.code, answer.err) == (0, "")
    citation = answer.json["citations"][0]
    assert citation["quote"] == text[citation["start"] : citation["end"]] != ""


@pytest.mark.few(1)
@pytest.mark.parametrize("command", [["ingest"], ["ask", QUESTION]])
def test_missing_files(drt: Drt, tmp_path: Path, manual: Path, command: list[str]) -> None:
    missing = tmp_path / "nowhere.txt"
    result = drt(*command, missing)
    assert (result.code, result.out) == (1, "")
    assert "nowhere.txt does not exist" in result.sentence
    both = drt(*command, missing, manual)
    assert both.code == 3 and both.out
    assert "nowhere.txt does not exist" in both.sentence


def test_an_unreadable_folder(
    drt: Drt, tmp_path: Path, manual: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    listed = os.listdir

    def refuse(path: object = ".") -> list[str]:
        if str(path) == str(folder):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listed(path)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(os, "listdir", refuse)  # root may read everything
    result = drt("ingest", folder)
    assert (result.code, result.out) == (1, "")
    assert "closed cannot be read (permission denied)" in result.sentence
    assert drt("ingest", folder, manual).code == 3
    assert_whole(drt)


def test_a_folder_without_documents(drt: Drt, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    result = drt("ingest", tmp_path / "none")
    assert result.code == 1 and "none" in result.sentence


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("", "no words"),
        ("?! …", "no words"),
        ("oil " * 161, "161 tokens, expected at most 160"),
    ],
    ids=["empty", "marks", "long"],
)
@pytest.mark.parametrize(
    "options", sampled([[], ["--stream"], ["--json"], ["--session", "one"]], {0, 3})
)
def test_questions_that_cannot_be_asked(
    drt: Drt, manual: Path, question: str, message: str, options: list[str]
) -> None:
    drt("ingest", manual)
    result = drt("ask", question, *options)
    assert (result.code, result.out) == (1, "")
    assert message in result.sentence
    assert drt("session", "list").out == ""
    assert_whole(drt)


def test_a_question_to_nothing(drt: Drt) -> None:
    result = drt("ask", QUESTION)
    assert (result.code, result.out) == (1, "")
    assert "no documents" in result.sentence
    assert drt("ask").code == 2


def test_unknown_documents(drt: Drt, manual: Path) -> None:
    drt("ingest", manual)
    for arguments in (["ask", QUESTION, "--doc", "manuel.md"], ["summarize", "manuel.md"]):
        result = drt(*arguments)
        assert result.code == 1 and "did you mean 'manual.md'" in result.sentence


def test_a_library_of_another_model(drt: Drt, manual: Path, letters: Path) -> None:
    drt("ingest", manual)
    second_model = model_folder(seed=1)
    for arguments in (["ingest", letters], ["ask", QUESTION], ["summarize", "manual.md"]):
        result = drt(*arguments, model=second_model)
        assert (result.code, result.out) == (1, "")
        assert "was made with model drt-tiny" in result.sentence
    assert drt("ask", QUESTION, *ANY).code == 0
    assert_whole(drt)


@pytest.mark.thorough
def test_a_library_that_another_process_writes_to(
    drt: Drt, manual: Path, letters: Path, place: Path
) -> None:
    drt("ingest", manual)
    lock = os.open(place / "lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = drt("ingest", letters)
        assert (result.code, result.out) == (1, "")
        assert "is writing to the library" in result.sentence
        assert drt("ingest", manual).code == 0  # nothing to write
        assert drt("ask", QUESTION, *ANY).code == 0
        assert len(drt("library", "list").out.splitlines()) == 1
    finally:
        os.close(lock)
    assert drt("ingest", letters).code == 0
    assert_whole(drt)


@pytest.mark.few(1)
@pytest.mark.parametrize("function", ["write", "fsync"])
def test_a_full_disk(
    drt: Drt, manual: Path, letters: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    drt("ingest", manual)

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, function, fail)
        result = drt("ingest", letters)
        assert (result.code, result.out) == (1, "")
        assert "is full" in result.sentence
        assert drt("ask", QUESTION, *ANY).code == 0
    assert_whole(drt)
    assert len(drt("library", "list").out.splitlines()) == 1
    assert drt("ingest", letters).code == 0


@pytest.mark.thorough
def test_a_full_disk_while_reading_goes_on_where_it_stopped(
    drt: Drt, manual: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "SEGMENT_CHUNKS", 5)
    written = os.write
    room = [5000]

    def fill(descriptor: int, data: bytes) -> int:
        room[0] -= len(data)
        if room[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return written(descriptor, data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fill)
        assert "is full" in drt("ingest", manual).sentence
    assert drt("library", "list").out == ""
    checked = drt("library", "check")
    assert checked.code == 0 and "can go on" in checked.out
    assert drt("ingest", manual).code == 0
    assert_whole(drt)
    assert drt("library", "check").out == ""


@pytest.mark.parametrize(
    "where", sampled([0.02, 0.5, 0.9], {0}, thorough={2}), ids=["header", "middle", "end"]
)
def test_a_corrupted_segment(
    drt: Drt, manual: Path, letters: Path, place: Path, where: float
) -> None:
    drt("ingest", manual)
    segment = next((place / "segments").glob("*.seg"))
    drt("ingest", letters)
    data = bytearray(segment.read_bytes())
    start = int(len(data) * where)
    for at in range(start, min(start + 600, len(data))) if where > 0.1 else [9]:
        data[at] ^= 0x55
    segment.write_bytes(data)
    result = drt("ask", QUESTION, *ANY, "--doc", "manual.md", "--top-k", 64)
    assert (result.code, result.out) == (1, "")
    assert segment.name in result.sentence
    checked = drt("library", "check")
    assert checked.code == 1 and segment.name in checked.out and checked.err == ""
    assert drt("ask", QUESTION, *ANY, "--doc", "letters.txt").code == 0
    assert drt("library", "remove", "manual.md").code == 0
    assert drt("ingest", manual).code == 0
    assert_whole(drt)
    assert drt("ask", QUESTION, *ANY).code == 0


def test_a_missing_segment_and_a_broken_catalogue(drt: Drt, manual: Path, place: Path) -> None:
    drt("ingest", manual)
    segment = next((place / "segments").glob("*.seg"))
    segment.unlink()
    assert segment.name in drt("ask", QUESTION).sentence
    assert drt("library", "check").code == 1
    (place / "catalog.db").write_bytes(b"not a database" * 100)
    for name in ("catalog.db-wal", "catalog.db-shm"):
        (place / name).unlink(missing_ok=True)
    for arguments in (["ask", QUESTION], ["ingest", manual], ["library", "list"]):
        result = drt(*arguments)
        assert (result.code, result.out) == (1, "") and "damaged" in result.sentence


def test_interrupted_reading_continues(
    drt: Drt, manual: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "SEGMENT_CHUNKS", 5)
    read = pipeline.read_chunks
    batches: list[Any] = []

    def interrupt(*arguments: object, **named: object) -> object:
        batches.append(arguments[2])
        if len(batches) == 3:
            raise KeyboardInterrupt
        return read(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(pipeline, "read_chunks", interrupt)
    assert drt("ingest", manual).code == 130
    assert drt("library", "list").out == ""
    checked = drt("library", "check")
    assert checked.code == 0 and "reading stopped after 10 chunks" in checked.out
    first = len(batches)
    answer = drt("ask", QUESTION, manual, *ANY)
    assert answer.code == 0 and answer.out
    assert batches[first][0].start == batches[first - 1][0].start
    assert_whole(drt)


def test_no_model_and_a_broken_model(drt: Drt, manual: Path, tmp_path: Path) -> None:
    assert "no model" in drt("ingest", manual, model=tmp_path / "none").sentence
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (broken / name).write_bytes((model_folder() / name).read_bytes())
    (broken / "model.safetensors").write_bytes(b"broken")
    result = drt("ingest", manual, model=broken)
    assert (result.code, result.out) == (1, "") and "broken" in result.sentence


@pytest.mark.thorough
def test_piped_input(drt: Drt) -> None:
    assert "empty" in drt("ingest", "-").sentence
    for text in (MANUAL, LETTERS, MANUAL):
        assert drt("ingest", "-", stdin=text.encode()).code == 0
    listed = drt("library", "list", "--json").json["documents"]
    assert [row["source"] for row in listed] == [f"standard input {row['id']}" for row in listed]
    assert len(listed) == 2
    assert drt("ask", QUESTION, "-", *ANY, stdin=b"\0\0\0").code == 1


@pytest.mark.thorough
def test_a_real_process_says_one_sentence(place: Path, tmp_path: Path) -> None:
    file = tmp_path / "binary.dat"
    file.write_bytes(bytes(range(256)))
    command = [sys.executable, "-m", "drt_cli", "--library", str(place)]
    command += ["--model", str(model_folder()), "--quiet", "ask", QUESTION, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("drt: ") and len(done.stderr.splitlines()) == 1


def write_long(file: Path, megabytes: float) -> None:
    words = [word for word in LETTERS.split() if word.isalpha()]
    with file.open("w", encoding="utf-8") as out:
        while out.tell() < megabytes * 1_000_000:
            at = out.tell() % len(words)
            out.write(" ".join((words[at:] + words[:at]) * 20) + ".\n")


@pytest.mark.thorough
def test_a_long_file_is_read_whole(drt: Drt, tmp_path: Path) -> None:
    """Its memory is measured in tests/engine/ingest."""
    file = tmp_path / "long.txt"
    write_long(file, 0.2)
    small = model_folder(chunk=64, lower_layers=0, width=16, heads=2, kv_heads=1, mlp=16)
    assert drt("ingest", file, model=small).code == 0
    shown = drt("library", "show", "long.txt", "--json").json
    assert shown["characters"] == file.stat().st_size
    answer = drt("ask", "When does ice come?", *ANY, "--json", model=small).json
    assert answer["citations"] and answer["tokens_read"] < 3000


@pytest.mark.slow
def test_200_megabytes(place: Path, tmp_path: Path) -> None:
    file = tmp_path / "long.txt"
    write_long(file, 200)
    small = model_folder(chunk=64, lower_layers=0, width=16, heads=2, kv_heads=1, mlp=16)
    code = (
        "import sys; from drt_cli.main import run; code = run(sys.argv[1:]);"
        "lines = open('/proc/self/status');"
        "print(code, next(line.split()[1] for line in lines if line.startswith('VmHWM')))"
    )
    command = [sys.executable, "-c", code, "--library", str(place), "--model", str(small)]
    command += ["--quiet", "--threads", "1", "ingest", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    status, peak = done.stdout.split()[-2:]
    assert status == "0" and int(peak) < 700_000
