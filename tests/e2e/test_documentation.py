"""The documentation holds true: its commands and its Python run, its reference is up to date.

All of a page runs in order in one folder, among the slow tests: with the model in the package,
which the tutorial's answers are of, and with a tiny one what prints no answer. ``.ci/run`` runs
these, too. By default the commands and options of the pages are looked up.
"""

from __future__ import annotations

import importlib.util
import io
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest

from drt import _engine
from drt_cli.main import cli, run
from drt_engine.runtime import Runtime
from tests import model_folder
from tests.tables import each_row

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = ("how-to.md", "large.md", "training.md")
PROGRAMS = ("ask_many.py", "watch_folder.py", "ask_async.py")
EXAMPLES = ("agreement.md", "agreement-draft.md")
BLOCK = re.compile(r"```(sh|console|python)\n(.*?)```", flags=re.S)


@dataclass(frozen=True)
class Call:
    """A command of a page, what is typed while it runs, and lines that it prints."""

    line: str
    typed: tuple[str, ...] = ()
    printed: tuple[str, ...] = ()


@cache
def shipped_runtime() -> Runtime:
    return Runtime.load(threads=1)


tiny = pytest.param(model_folder.runtime, id="tiny")
shipped = pytest.param(shipped_runtime, id="shipped", marks=pytest.mark.slow)


@pytest.fixture(params=[tiny, shipped])
def load(request: pytest.FixtureRequest) -> Callable[[], Runtime]:
    """What loads the model."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def workplace(load: Callable[[], Runtime], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the examples and a library of its own."""
    (tmp_path / "examples").mkdir()
    for name in EXAMPLES:
        shutil.copy(ROOT / "examples" / name, tmp_path / "examples")
    (tmp_path / "questions.txt").write_text("What is the wintering allowance?\n")
    monkeypatch.chdir(tmp_path)
    for name in ("LIBRARY", "STATE_DIR", "CONFIG_FILE"):
        monkeypatch.setenv(f"DRT_{name}", str(tmp_path / name.lower()))
    monkeypatch.setattr(_engine, "load_runtime", lambda *_, **__: load())
    return tmp_path


def calls(kind: str, text: str) -> Iterator[Call]:
    if kind == "sh":
        for line in text.splitlines():
            if line.strip() and not line.startswith("#"):
                yield Call(line)
        return
    for part in re.split(r"(?m)^\$ ", text)[1:]:
        line, *following = part.splitlines()
        typed = tuple(text[2:] for text in following if text.startswith("> "))
        yield Call(
            line, typed, tuple(text for text in following if text and not text.startswith("> "))
        )


def arguments(line: str, patch: pytest.MonkeyPatch) -> tuple[list[str], str | None]:
    """The words after `drt`, and the file that standard input is; no more of a shell than this."""
    line = re.sub(r'^eval "\$\((.*)\)"$', r"\1", line)
    words = shlex.split(line)
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        patch.setenv(name, value)
    assert words.pop(0) == "drt", line
    input_file = words[words.index("<") + 1] if "<" in words else None
    ends = [words.index(sign) for sign in "<>" if sign in words]
    return words[: min(ends, default=len(words))], input_file


def perform(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        words, input_file = arguments(call.line, patch)
        typed = "".join(f"{line}\n" for line in call.typed)
        text = Path(input_file).read_text() if input_file else typed
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        if "--watch" in words:
            patch.setattr("drt._assistant.time.sleep", interrupt)
        code = run(words)
    out, err = capsys.readouterr()
    assert code == (130 if "--watch" in words else 0), (call.line, err)
    for line in call.printed:
        assert line in out.splitlines(), (call.line, out)


def run_page(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    assert len(blocks) == text.count("```") // 2
    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, page, "exec"), {"__name__": "example"})
            continue
        for call in calls(kind, block):
            perform(call, capsys)


@pytest.mark.slow  # run by .ci/run, too
@pytest.mark.parametrize("load", [pytest.param(shipped_runtime, id="shipped")], indirect=True)
def test_the_tutorial_runs(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_page("tutorial.md", capsys)


@pytest.mark.slow  # run by .ci/run, too
@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs(page: str, workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_page(page, capsys)


@each_row("page", ("tutorial.md", *PAGES))
def test_commands_and_options_of_a_page_exist(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    for kind, block in blocks:
        if kind == "python":
            compile(block, page, "exec")
    # Indented commands are not run: they take too long, or need files of the reader's own.
    indented = re.findall(r"(?m)^    (drt .*)$", re.sub(r"\\\n *", "", BLOCK.sub("", text)))
    commands = [Call(line) for line in indented]
    commands += [call for kind, block in blocks if kind != "python" for call in calls(kind, block)]
    for call in commands:
        words, _ = arguments(call.line, monkeypatch)
        names, command = set[str](), cli
        for word in ["", *words]:
            if word:
                if not isinstance(command, click.Group):
                    break
                command = command.get_command(click.Context(command), word) or command
            names |= {name for one in command.params for name in one.opts + one.secondary_opts}
        given = {word.split("=")[0] for word in words if word.startswith("--")}
        assert command is not cli and given <= names, call.line
    assert len(commands) > 5


def test_the_pages_name_files_that_exist() -> None:
    for page in DOCS.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", text):
            assert (DOCS / link).exists(), (page.name, link)


def test_the_reference_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("make_reference", DOCS / "make_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for path, text in module.pages().items():
        assert path.read_text(encoding="utf-8") == text, "run `python docs/make_reference.py`"


def test_the_picture_is_small() -> None:
    assert (DOCS / "trace.png").stat().st_size < 200_000


@pytest.mark.few(1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_runs(
    name: str, workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ROOT / "examples" / name
    monkeypatch.setattr(sys, "argv", [name, "examples/agreement.md"])
    scope: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), scope)
    assert capsys.readouterr().out.strip()


def test_the_tutorial_asks_its_own_document() -> None:
    """Whatever else is in the reader's library."""
    text = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    asking = [
        call.line
        for kind, block in BLOCK.findall(text)
        if kind == "console"
        for call in calls(kind, block)
        if call.line.split()[1] in ("ask", "chat", "trace", "summarize")
    ]
    assert len(asking) >= 6 and all("agreement.md" in line for line in asking)
    python = "".join(block for kind, block in BLOCK.findall(text) if kind == "python")
    for call in re.findall(r"assistant\.(?:ask|trace)\(.*\)", python):
        assert "documents=agreement" in call
