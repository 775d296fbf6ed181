"""The report on a machine: complete on a sound one, a line for each thing that is broken."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drt_engine.diagnosis import checks, diagnose, self_test
from drt_engine.diagnosis.diagnose import run_self_test
from drt_engine.documents.sandbox import process
from drt_engine.documents.sandbox.confinement import Confinement
from drt_engine.model.folder import shipped_models
from drt_engine.processor import processor
from drt_engine.results import DoctorCheck
from drt_engine.store import Store
from tests.model_folder import model_folder
from tests.tables import each_row

REQUEST = {"model": "drt-small-en", "model_is_path": False, "device": "cpu", "threads": 1}


def report(library: Path, model: str | Path, **options: object) -> dict[str, DoctorCheck]:
    made = diagnose(library, version="1.2", model=model, device="cpu", threads=1, **options)  # type: ignore[arg-type]
    return {check.name: check for check in made}


def child(**changes: object) -> list[DoctorCheck]:
    request = {**REQUEST, "model": str(model_folder()), "model_is_path": True, "dtype": "fp32"}
    return list(run_self_test(request | changes, seconds=200))


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the child's code in this process, where torch is imported already."""

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            self_test.main(json.loads(command[-1]))
        return subprocess.CompletedProcess(command, 0, output.getvalue().encode(), b"")

    monkeypatch.setattr(subprocess, "run", run)


@pytest.mark.slow  # a process with the shipped model, as in each run of .ci/exercise.py
def test_a_sound_machine(tmp_path: Path) -> None:
    made = report(tmp_path / "library", "drt-small-en")
    assert [c for c in made.values() if c.status == "problem"] == []
    assert {"packages", "processor", "library", "readers", "PyTorch", "model"} <= made.keys()
    assert list(made)[-1] == "self-test"  # what it needs is above it, where it fails
    assert 'got "forty-five days"' in made["self-test"].value
    assert made["threads"].value == "1: asked for"
    assert not (tmp_path / "library").exists()


def test_the_report_holds_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRT_SERVE_TOKEN", "0123456789abcdef")
    monkeypatch.setenv("DRT_TOP_K", "6")
    value = next(c.value for c in checks.machine_checks("1.2") if c.name == "variables")
    assert "0123456789abcdef" not in value and "DRT_SERVE_TOKEN=(set, not shown)" in value
    assert "DRT_TOP_K=6" in value


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_any_model_is_tested_in_any_type(dtype: str, in_process: None) -> None:
    made = {check.name: check for check in child(dtype=dtype)}
    assert made["type"].value == f"{dtype}: asked for"
    assert made["self-test"].status == "ok"


@pytest.mark.thorough
def test_a_processor_that_lacks_an_instruction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text(
        f"import os, signal\nsignal.raise_signal({int(signal.SIGILL)})\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    (check,) = child()
    assert (check.name, check.status) == ("self-test", "problem")
    assert "importing PyTorch failed: the process was ended by SIGILL" in check.value
    assert "ATEN_CPU_CAPABILITY=default" in check.remedy


@pytest.mark.thorough
def test_a_package_that_cannot_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('libgomp.so.1: no such file')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    (check,) = child()
    assert "libgomp.so.1" in check.value and "--force-reinstall torch" in check.remedy


def test_damaged_weights(tmp_path: Path, in_process: None) -> None:
    folder = shutil.copytree(model_folder(), tmp_path / "model")
    (folder / "model.safetensors").write_bytes(b"\0" * 100)
    *_, check = child(model=str(folder))
    assert check.status == "problem" and check.value.startswith("loading the model failed")


def test_a_missing_model_and_device(in_process: None) -> None:
    *_, check = child(model="no-such-model", model_is_path=False)
    assert check.status == "problem" and "'no-such-model'" in check.value
    *_, check = child(device="tpu")
    assert check.status == "problem" and "'tpu'" in check.value


@pytest.mark.thorough
def test_a_child_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = tmp_path / "begun"
    code = f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\ntime.sleep(600)\n"
    (tmp_path / "torch.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    communicate = subprocess.Popen.communicate

    def when_begun(self: subprocess.Popen[bytes], *_: object, timeout: float | None = None) -> Any:
        """Let the limit pass as soon as the child waits for it."""
        if timeout is not None:
            assert timeout == 30
            while not begun.exists():
                time.sleep(0.01)
            timeout = 0.1
        return communicate(self, timeout=timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", when_begun)
    (check,) = run_self_test({**REQUEST, "dtype": "fp32"}, seconds=30)
    assert check.value == "importing PyTorch took more than 30 s"


@pytest.mark.parametrize(
    ("quotes", "problem"),
    [
        ([], "no quote"),
        ([(0, 5, "Tules")], "not the document's text"),
        ([(0, 5, "Rules")], "expected 'forty-five', the quote is 'Rules'"),
    ],
)
def test_a_wrong_quote_is_a_problem(
    quotes: list[tuple[int, int, str]],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = shipped_models()["drt-small-en"]
    monkeypatch.setattr(self_test, "_ask", lambda *_: (self_test.TEXT, quotes))
    self_test._read_and_ask({"runtime": SimpleNamespace(folder=folder)})
    frame = json.loads(capsys.readouterr().out)
    assert frame["check"] == "self-test" and problem in frame["problem"]


def test_a_damaged_library_is_a_line(tmp_path: Path) -> None:
    Store.open(tmp_path / "library", create=True).close()
    (catalog,) = [one for one in (tmp_path / "library").iterdir() if _is_database(one)]
    catalog.write_bytes(b"no database at all" * 100)
    (check, _) = checks.library_checks(tmp_path / "library")
    assert (check.name, check.status) == ("library", "problem")
    assert str(tmp_path) in check.value and check.remedy


def test_a_file_in_place_of_a_library_is_a_line(tmp_path: Path) -> None:
    (tmp_path / "library").write_text("a file")
    (check, _) = checks.library_checks(tmp_path / "library")
    assert check.status == "problem"


def test_a_library_that_is_sound_or_absent(tmp_path: Path) -> None:
    Store.open(tmp_path / "library", create=True).close()
    (check, _) = checks.library_checks(tmp_path / "library")
    assert check.status == "ok" and "0 documents" in check.value and "writable" in check.value
    (check, _) = checks.library_checks(tmp_path / "none" / "library")
    assert check.status == "ok" and "not there yet" in check.value


def test_a_folder_that_cannot_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store.open(tmp_path / "library", create=True).close()
    monkeypatch.setattr(os, "access", lambda *_, **__: False)  # root may write anywhere
    (check, _) = checks.library_checks(tmp_path / "library")
    assert check.status == "note" and "not writable" in check.value
    (check, _) = checks.library_checks(tmp_path / "none")
    assert check.status == "problem" and "--library" in check.remedy


def test_a_library_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path))

    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "catalog").touch()
    for error in (refuse, _broken_database):
        monkeypatch.setattr(Store, "open", error)
        (check, _) = checks.library_checks(tmp_path / "library")
        assert check.status == "problem" and check.remedy


def _broken_database(*_: object, **__: object) -> None:
    raise sqlite3.DatabaseError("malformed")


def test_no_folder_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise FileNotFoundError("no usable temporary directory found")

    monkeypatch.setattr(checks.tempfile, "gettempdir", refuse)
    (_, check) = checks.library_checks(tmp_path / "library")
    assert check.status == "problem" and "TMPDIR" in check.remedy


def test_confinement_of_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Confinement(("processor time", "memory"), True, 5, True)
    monkeypatch.setattr(process, "confinement", lambda: whole)
    assert checks.reader_check().status == "ok"
    assert str(whole) in checks.reader_check().value
    monkeypatch.setattr(process, "confinement", Confinement)
    assert checks.reader_check().status == "note" and checks.reader_check().remedy


def test_missing_packages_and_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "package_version", lambda name: None)
    made = {check.name: check for check in checks.machine_checks("1")}
    assert made["packages"].status == "problem"
    assert made["packages"].remedy == "pip install torch tokenizers safetensors"
    monkeypatch.setattr(checks, "importable", lambda module: module == "pypdfium2")
    (check,) = checks.extra_checks()
    assert check.status == "note" and check.value.startswith("pdf present; missing: encodings")
    missing = "encodings,sheets,calamine,slides,rtf,msg,ocr,plot,gpu,serve,mcp,writer,chat,fetch"
    missing += ",otel,faiss,cluster"
    assert check.remedy == f'pip install "drt-assistant[{missing}]"'
    monkeypatch.setattr(checks, "importable", lambda module: True)
    assert next(checks.extra_checks()).status == "ok"


@each_row(
    ("text", "name", "flags"),
    [
        (
            "model name : A 9000\nflags : fpu avx2 avx512f avx512_bf16\n",
            "A 9000",
            ["AVX2", "AVX512", "AVX512-BF16"],
        ),
        ("model name : B\nflags : avx2 amx_bf16 amx_tile\n", "B", ["AVX2", "AMX"]),
        ("Features : fp asimd bf16\n", "", ["NEON", "BF16"]),
    ],
)
def test_the_processor(tmp_path: Path, text: str, name: str, flags: list[str]) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    seen, sets = processor(tmp_path / "cpuinfo")
    assert sets == flags and (seen == name if name else seen)
    assert processor(tmp_path / "absent")[1] == []


def test_extras_are_those_of_the_package() -> None:
    import tomllib

    text = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    assert set(checks.EXTRAS) | {"readers", "train", "dev"} == set(extras)


def _is_database(path: Path) -> bool:
    return path.is_file() and path.read_bytes().startswith(b"SQLite format 3")
