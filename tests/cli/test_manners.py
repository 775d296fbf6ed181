"""Examples in help, the manual, schemas, completion, colours, and lines of JSON."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest

from drt import ReadingStep, _engine
from drt_cli._manual import all_commands, manual_page, reference
from drt_cli.commands import library
from drt_cli.main import cli
from tests.cli.conftest import Drt
from tests.sampling import sampled
from tests.sdk.fakes import FakeEngine
from tests.tables import each_row

ALL = dict(all_commands(cli))
EXAMPLE = re.compile(r"Example: (?P<line>.+)")


def example(command: click.Command) -> str:
    found = EXAMPLE.search(f"{command.help or ''}\n{command.epilog or ''}")
    assert found is not None, command.name
    return found["line"]


def own_words(line: str) -> list[str]:
    """The words of an example's call of drt, without what a shell does with it."""
    words = shlex.split(line.removeprefix('eval "$(').removesuffix(')"').split(" > ")[0])
    while len(words) > 1 and words[1].startswith("--"):  # a global option and its value
        del words[1:3]
    return words


@each_row("words", ALL)
def test_every_command_has_an_example_that_is_one_of_it(words: str) -> None:
    given = own_words(example(ALL[words]))
    assert given[: len(words.split())] == words.split()
    command: click.Command = cli
    names: set[str] = set()
    for word in given[1:]:
        names |= {name for one in command.params for name in one.opts + one.secondary_opts}
        if isinstance(command, click.Group) and not word.startswith("-"):
            # "train" takes a file in the place of a command.
            command = command.get_command(click.Context(command), word) or command
    names |= {name for one in command.params for name in one.opts + one.secondary_opts}
    assert {word for word in given if word.startswith("--")} <= names


@each_row("words", [words for words in ALL if words != "drt"])
def test_help_shows_the_example(drt: Drt, words: str) -> None:
    result = drt(*words.split()[1:], "--help")
    assert result.code == 0 and "Example:" in result.out


def test_the_manual_and_the_reference_hold_every_command() -> None:
    manual, table = manual_page(cli, "1.2.3"), reference(cli)
    for words, command in ALL.items():
        assert f"## {words}\n" in table
        assert example(command).replace("\\", "\\e").replace("-", "\\-") in manual
    assert "drt 1.2.3" in manual and "DRT_ASK_TOP_K" in manual.replace("\\-", "-")


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff here")
def test_groff_has_nothing_against_the_manual() -> None:
    ended = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww"],
        input=manual_page(cli, "1"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stderr == "" and "SYNOPSIS" in re.sub(".\x08", "", ended.stdout)


def test_schemas_are_printed(drt: Drt) -> None:
    names = drt("schema").out.split()
    assert {"ask", "summarize", "trace"} <= set(names)
    for name in names:
        assert drt("schema", name).json["title"] == f"drt {name.replace('-', ' ')}"
    unknown = drt("schema", "nothing")
    assert unknown.code == 1 and "summarize" in unknown.err


def test_every_command_with_json_has_a_schema(drt: Drt) -> None:
    def with_json(group: click.Group, path: tuple[str, ...]) -> Iterator[str]:
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            names = {parameter.name for parameter in command.params}
            if isinstance(command, click.Group):
                yield from with_json(command, (*path, name))
            elif path == ("eval",):  # all of one shape
                yield "eval"
            else:
                words = "-".join((*path, name))
                yield from [words] * ("as_json" in names)
                yield from [f"{words}-line"] * ("as_lines" in names)

    assert set(with_json(cli, ())) <= set(drt("schema").out.split())


def test_json_on_a_terminal_cannot_drive_it(drt: Drt, handbook: Path) -> None:
    text = "Before \x9b31mperiod\x9b0m and \u202eafter the period.\x7f"
    handbook.write_text(text)
    drt("ingest", handbook)
    for option in ("--json", "--jsonl"):
        result = drt("search", "period", option)
        assert not set("\x7f\x9b\u202e").intersection(result.out)
        value = json.loads(result.out)
        assert value.get("hits", [value])[0]["text"] == text


@pytest.mark.few(1)
@pytest.mark.parametrize("closed", sampled(["<&-", ">&-", "2>&-", "<&- >&- 2>&-"], {0, 3}))
def test_closed_standard_streams_are_no_mistake_of_the_program(closed: str) -> None:
    command = f'exec "{sys.executable}" -m drt_cli schema ask {closed}'
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ("properties" in ended.stdout) is (closed in ("<&-", "2>&-"))


def complete(line: str, shell: str = "bash") -> list[str]:
    """What the shell is told after TAB at the end of a line."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    words = line.split(" ")
    made = kind(cli, {}, "drt", "_DRT_COMPLETE")
    return [item.value for item in made.get_completions(words[1:-1], words[-1])]


def test_documents_and_conversations_are_completed(drt: Drt, handbook: Path) -> None:
    other = handbook.with_name("harbour.txt")
    other.write_text("The harbour closes at eight.")
    drt("ingest", handbook, other)
    drt("ask", "Which period?", "--session", "review")
    for line in ("drt ask Q --doc ha", "drt library show ha", "drt trace Q --doc ha"):
        assert set(complete(line)) - {"ha"} == {"handbook.txt", "harbour.txt"}
    assert complete("drt ask Q --doc harb") == ["harbour.txt"]
    for line in ("drt ask Q --session r", "drt chat --session r", "drt session show r"):
        assert complete(line) == ["review"]
    assert "summarize" in complete("drt summ") and "ask-line" in complete("drt schema ask")


def test_completion_never_fails(drt: Drt, tmp_path: Path) -> None:
    (tmp_path / "library").write_text("not a library")
    assert complete("drt ask Q --doc ha") == []
    (tmp_path / "config.toml").write_text("broken = ")
    assert complete("drt ask Q --session r") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(drt: Drt, shell: str) -> None:
    script = drt("completion", shell).out
    assert f"_DRT_COMPLETE={shell}_complete" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_without_colours(
    drt: Drt, handbook: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv(name, value)
    drt("ask", "Which period?", handbook)
    assert "\x1b" not in screen.getvalue() and "«period»" in screen.getvalue()


def test_a_terminal_with_colours(drt: Drt, handbook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    drt("ask", "Which period?", handbook)
    assert '\x1b[1m"period"' in screen.getvalue()


def test_lines_of_json_as_they_come(drt: Drt, handbook: Path) -> None:
    out = drt("ask", "--stream", "--jsonl", "Which period?", handbook).out
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["type"] for line in lines] == ["piece", "piece", "answer"]
    assert "".join(line.get("text", "") for line in lines[:2]) == lines[2]["answer"]
    read = drt("ingest", "--jsonl", handbook, "missing.txt")
    first, second = (json.loads(line) for line in read.out.splitlines())
    assert read.code == 3 and first["document"]["title"] == "handbook.txt"
    assert second["document"] is None and "missing.txt" in second["error"]
    told = drt("summarize", "--jsonl", "handbook.txt").out
    assert json.loads(told)["quote"] == "The notice period is thirty days."


def test_lines_of_json_say_what_is_read(
    drt: Drt, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = ReadingStep(8, "1", "Lease", "The notice period is\nthirty days.", 0, 33)

    @contextmanager
    def watch_reading(callback: Callable[[ReadingStep], None]) -> Iterator[None]:
        callback(step)
        yield

    monkeypatch.setitem(vars(_engine), "watch_reading", watch_reading)
    out = drt("ask", "--stream", "--jsonl", "Which period?", handbook).out
    first, second, *_ = (json.loads(line) for line in out.splitlines())
    assert first == {"type": "reading", **vars(step)} and second["type"] == "piece"


def test_questions_from_standard_input(drt: Drt, engine: FakeEngine, handbook: Path) -> None:
    questions = "Which period?\n\nWhich keeper?\n"
    out = drt("ask", "-", handbook, "--jsonl", stdin=questions).out
    assert [json.loads(line)["answer"] for line in out.splitlines()] == ["period", "keeper"]
    text = drt("ask", "-", handbook, stdin=questions).out
    assert text.index("> Which period?") < text.index('"period"') < text.index("> Which keeper?")


@pytest.mark.parametrize("stdin", ["", "\n", " \n\t\n"])
def test_no_question_is_said_before_a_model_is_loaded(
    drt: Drt, engine: FakeEngine, handbook: Path, stdin: str
) -> None:
    drt("ingest", handbook)
    engine.loads.clear()
    result = drt("ask", "-", handbook, stdin=stdin)
    assert (result.code, result.out, engine.loads) == (1, "", [])
    assert result.err == "drt: there is no question on standard input; write one a line.\n"


@pytest.mark.parametrize(
    "words", [("ask", "Q?"), ("ask", "Q?", "--session", "x"), ("chat",), ("trace", "Q?")]
)
def test_an_empty_library_is_said_before_a_model_is_loaded(
    drt: Drt, engine: FakeEngine, handbook: Path, words: tuple[str, ...]
) -> None:
    for make in (lambda: None, lambda: drt("ingest", handbook)):
        if make() is not None:
            drt("library", "remove", "handbook.txt")
            engine.loads.clear()
        result = drt(*words, stdin="Q?\n")
        assert result.code == 1 and "read one first with `drt ingest PATH`." in result.err
        assert engine.loads == []


def test_an_unknown_document_is_said_before_a_model_is_loaded(
    drt: Drt, engine: FakeEngine, handbook: Path
) -> None:
    drt("ingest", handbook)
    engine.loads.clear()
    result = drt("ask", "Q?", "--doc", "zzz")
    assert (result.code, engine.loads) == (1, [])
    assert result.err == "drt: no document 'zzz' in the library: there is 'handbook.txt'\n"
    assert "did you mean 'handbook.txt'?" in drt("ask", "Q?", "--doc", "handbok").err


@pytest.mark.few(8)
@pytest.mark.parametrize(
    "words",
    [
        ("ask", "\udcff?"),
        ("ask", "\udcff?", "--session", "s"),
        ("ask", "\udcff?", "--stream"),
        ("ask", "Which period?", "--session", "\udcff"),
        ("ask", "Which period?", "--doc", "\udcff"),
        ("ask", "Which period?", "\udcff.txt"),
        ("--model", "\udcff", "model", "info"),
        ("trace", "\udcff?"),
        ("chat", "--session", "\udcff"),
        ("summarize", "\udcff"),
        ("summarize", "handbook.txt", "--focus", "\udcff"),
        ("summarize", "handbook.txt", "--section", "\udcff"),
        ("show", "\udcff:1-2"),
        ("session", "show", "\udcff"),
        ("session", "search", "\udcff"),
        ("session", "rename", "\udcff", "x"),
        ("session", "rename", "review", "\udcff"),
        ("session", "delete", "\udcff", "--yes"),
        ("session", "export", "\udcff"),
        ("library", "show", "\udcff"),
        ("library", "remove", "\udcff"),
        ("library", "import", "\udcff"),
        ("schema", "\udcff"),
        ("config", "get", "\udcff"),
        ("config", "set", "ask.mode", "\udcff"),
        ("model", "info", "\udcff"),
        ("ingest", "\udcff"),
        ("\udcff",),
    ],
)
def test_bytes_that_are_no_text_are_a_sentence(
    drt: Drt, handbook: Path, words: tuple[str, ...]
) -> None:
    drt("ask", "Which period?", handbook, "--session", "review")
    result = drt(*words)
    assert result.code in (0, 1, 2) and "mistake of the program" not in result.err
    assert result.code or words[:2] == ("session", "search")


def test_standard_input_that_is_no_text_is_a_sentence(drt: Drt, handbook: Path) -> None:
    drt("ingest", handbook)
    for words in (("ask", "-"), ("chat",)):
        result = drt(*words, stdin="Which period?\n\udcff?\n")
        assert '"period"' in result.out
        assert (result.code, "not text in UTF-8" in result.err) == (1, True)


def test_settings_nested_too_deeply_are_a_sentence(drt: Drt, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("x = " + "[" * 20_000)
    result = drt("library", "list")
    assert result.code == 1 and "nested too deeply" in result.err
    assert "mistake of the program" not in drt("config", "set", "threads", "2").err


def test_what_leaves_a_library_is_as_private_as_it(
    drt: Drt, handbook: Path, tmp_path: Path
) -> None:
    drt("ask", "Which period?", handbook, "--session", "review")
    page, notes, saved = (tmp_path / name for name in ("t.html", "r.md", "s.md"))
    before = os.umask(0o022)
    try:
        for mode, rights in ((0o700, 0o600), (0o755, 0o644)):
            (tmp_path / "library").chmod(mode)
            drt("trace", "Which period?", "--html", page)
            drt("session", "export", "review", "--output", notes)
            drt("chat", stdin=f"Which period?\n/save {saved}\n")
            for file in (page, notes, saved):
                assert file.stat().st_mode & 0o777 == rights, file
                file.unlink()
    finally:
        os.umask(before)


@each_row(
    "words",
    [
        ("ask", "-", "-"),
        ("ask", "Q", "--json", "--jsonl"),
        ("ask", "-", "--json"),
        ("ingest", "x", "--json", "--jsonl"),
        ("ingest", "x", "--watch", "--json"),
        ("summarize", "x", "--json", "--jsonl"),
        ("summarize", "x", "--json", "--markdown"),
    ],
)
def test_two_kinds_of_output_at_once_are_wrong_usage(drt: Drt, words: tuple[str, ...]) -> None:
    assert drt(*words).code == 2


def test_a_watched_folder_until_it_is_interrupted(
    drt: Drt, handbook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "watched"
    folder.mkdir()
    (folder / "a.txt").write_text("The bell rings.")
    os.utime(folder / "a.txt", (1e9, 1e9))
    looks = 0

    def sleep(seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            (folder / "a.txt").unlink()
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr("drt._assistant.time.sleep", sleep)
    result = drt("ingest", "--watch", folder)
    assert result.code == 130 and "Traceback" not in result.err
    read, removed = result.out.splitlines()
    assert read.startswith("read  ") and removed.startswith("removed  ")
    assert "Watching" in result.err


def test_a_trace_as_a_page(drt: Drt, handbook: Path, tmp_path: Path) -> None:
    page = tmp_path / "trace.html"
    result = drt("trace", "Which period?", handbook, "--html", page)
    assert (result.code, result.out, result.err) == (0, "", f"Wrote {page}.\n")
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>") and "Which period?" in text
    both = drt("trace", "Which period?", handbook, "--html", page, "--json")
    assert both.json["question"] == "Which period?"
    refused = drt("trace", "Which period?", handbook, "--html", tmp_path / "no" / "page.html")
    assert refused.code == 1 and refused.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("add", "report.txt"), "did you mean 'ingest'?"),
        (("sumarize",), "did you mean 'summarize'?"),
        (("Query", "Who?"), "did you mean 'ask'?"),
        (("handbook.txt",), '`drt ask "QUESTION" handbook.txt` asks it'),
        (("nonsense",), "`drt --help` lists the commands."),
    ],
)
def test_what_is_no_command_is_answered_with_what_was_meant(
    drt: Drt, handbook: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], hint: str
) -> None:
    monkeypatch.chdir(handbook.parent)
    result = drt(*words)
    assert result.code == 2 and f"There is no command {words[0]!r}; " in result.err
    assert hint in result.err


def test_a_number_that_is_none_says_what_is_expected(drt: Drt) -> None:
    for value in ("x", "0", "65"):
        result = drt("ask", "keeper", "--top-k", value)
        assert result.code == 2 and f"'{value}' is not a whole number from 1 to 64." in result.err


def test_cite_is_show(drt: Drt, handbook: Path) -> None:
    drt("ask", "keeper", handbook)
    assert drt("cite", "1").out == drt("show", "1").out != ""


def test_removing_asks_on_a_terminal(
    drt: Drt, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drt("ingest", handbook)
    answers = iter([False, True])
    asked: list[str] = []

    def confirm(text: str, **_: object) -> bool:
        asked.append(text)
        if not next(answers):
            raise click.Abort
        return True

    monkeypatch.setattr("click.confirm", confirm)
    monkeypatch.setattr(library, "_is_asked", lambda: True)
    assert drt("library", "remove", handbook).code == 130
    assert "handbook.txt" in drt("library", "list").out
    assert drt("library", "remove", handbook).code == 0
    assert len(asked) == 2 and "Remove 1 document?" in asked[0]
    drt("ingest", handbook)
    assert drt("library", "remove", handbook, "--yes").code == 0 and len(asked) == 2
