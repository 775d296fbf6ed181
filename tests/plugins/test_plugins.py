"""Plug-ins of four kinds: the examples work, broken ones are named and stop nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from drt import ConfigError, PluginInfo, WriterOptions, evaluate, plugins, schema
from tests.cli.conftest import Drt
from tests.plugins.conftest import PACKAGES, distribution
from tests.schemas import validate

Install = Callable[[str], None]
EVENT = (
    "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nSUMMARY:Coal\r\nDTSTART;TZID=X:19930908\r\n"
    "DESCRIPTION:The coal comes\\, by\r\n  boat.\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
)


def test_a_reader_reads_calendars(drt: Drt, install: Install, tmp_path: Path) -> None:
    install("drt-reader-ics")
    (tmp_path / "harbour.ics").write_text(EVENT)
    (tmp_path / "empty.ics").write_text("BEGIN:VCALENDAR\nEND:VCALENDAR\n")
    assert drt("ingest", tmp_path / "harbour.ics").code == 0
    text = drt("library", "show", "harbour.ics", "--text").out
    assert text.strip() == "Coal. 19930908. The coal comes, by boat."
    assert "holds no event" in drt("ingest", tmp_path / "empty.ics").err


@pytest.mark.thorough
def test_a_writer_is_a_program(drt: Drt, install: Install, handbook: Path) -> None:
    install("drt-writer-program")
    program = "import sys; sys.stdin.read(); print('The notice period is thirty days [1].')"
    words = ["ask", "Which period?", handbook, "--writer", "program", "--writer-model"]
    ended = drt(*words, f'{sys.executable} -c "{program}"')
    assert ended.code == 0 and "at plug-in program" in ended.err, ended.err
    assert ended.out.splitlines()[0] == "The notice period is thirty days [1]."
    failed = drt(*words, "false")
    assert failed.code == 3 and "false ended with 1" in failed.err and '"period"' in failed.out
    assert drt(*words, "").code == 3
    assert drt(*words, "no-such-program").code == 3


@pytest.mark.thorough
def test_an_evaluator_measures_over_a_library_of_its_own(
    drt: Drt, install: Install, tmp_path: Path
) -> None:
    install("drt-eval-headings")
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\n## Coal and wood\n\nThe coal comes on Tuesday.\n")
    report = drt("eval", "headings", f"folder={folder}", "top_k=4", "--json").json
    validate(report, schema("eval"))
    assert (report["task"], report["n"]) == ("headings", 1)
    assert set(report["metrics"]["all"]) == {"hit@1", "hit@4"}
    assert "headings on notes: 1 cases" in drt("eval", "headings", f"folder={folder}").out
    assert drt("library", "list", "--json").json["documents"] == []
    for words, problem in (
        ([], "needs the option folder"),
        ([f"folder={folder}", "depth=3"], "no option 'depth'"),
        ([f"folder={folder}", "top_k=many"], "expected a value of int"),
        (["folder"], "OPTION=VALUE"),
    ):
        assert problem in drt("eval", "headings", *words).err
    assert "No such command" in drt("eval", "nothing").err
    with pytest.raises(ConfigError, match="needs the option folder"):
        evaluate("headings")


def test_a_command_cites(drt: Drt, install: Install, handbook: Path) -> None:
    install("drt-command-cite")
    drt("ingest", handbook)
    handle = drt("ask", "Which period?", "--json").json["citations"][0]["handle"]
    entry = drt("cite", handle, "--key", "h93").out
    assert entry.startswith("@misc{h93,\n") and "note = {period}" in entry
    assert drt("cite", "nonsense").code == 1 and drt("cite", "--help").code == 0
    assert drt("--quiet", "cite", handle, "--library", "none").code == 1


def broken(folder: Path) -> None:
    """Install a distribution of which nothing works, and one that shadows."""
    (folder / "drt_broken.py").write_text("import no_such_module\n")
    (folder / "drt_quits.py").write_text("print('x')\nraise SystemExit(3)\n")
    (folder / "drt_number.py").write_text("value = 3\n")
    points = {
        "drt.readers": {"gone": "drt_broken:X", "quits": "drt_quits:X"},
        "drt.writers": {"number": "drt_number:value"},
        "drt.evaluators": {"qa": "drt_broken:X", "gone": "drt_broken:X"},
        "drt.commands": {
            "ask": "drt_broken:X",
            "gone": "drt_broken:X",
            "number": "drt_number:value",
        },
    }
    distribution(folder, "drt-broken", "2.0", points)


@pytest.mark.thorough
def test_what_cannot_be_used_is_named_and_stops_nothing(
    drt: Drt, install: Install, handbook: Path, tmp_path: Path
) -> None:
    install("drt-command-cite")
    broken(tmp_path / "site")
    listed = drt("plugins", "--json").json
    validate(listed, schema("plugins"))
    states = {(one["kind"], one["name"]): one["state"] for one in listed["plugins"]}
    assert states == {
        ("reader", "gone"): "failed",
        ("reader", "quits"): "failed",
        ("writer", "number"): "failed",
        ("evaluator", "gone"): "failed",
        ("evaluator", "qa"): "shadowed",
        ("command", "ask"): "shadowed",
        ("command", "cite"): "ready",
        ("command", "gone"): "failed",
        ("command", "number"): "failed",
    }
    table = drt("plugins").out
    assert "drt-broken 2.0" in table and "No module named 'no_such_module'" in table
    assert drt("ask", "Which period?", handbook).code == 0  # the built-in one
    for words in (["gone"], ["number"], ["eval", "gone"]):
        ended = drt(*words)
        assert ended.code == 1 and "drt-broken cannot be used" in ended.err, ended.err
    failed = drt("ask", "Which period?", "--writer", "number")
    assert failed.code == 3 and "a function was expected" in failed.err
    with pytest.raises(ConfigError, match="drt plugins lists"):
        WriterOptions("nobody")
    assert PluginInfo("command", "cite", "drt-command-cite", "0.1.0", "ready") in plugins()


def test_without_plug_ins_the_list_is_empty(drt: Drt) -> None:
    assert drt("plugins", "--json").json["plugins"] == []
    assert "Usage: drt cite [OPTIONS] CITATION" in drt("cite").err  # another name of drt show
    assert "There is no command 'number'" in drt("number").err


def test_llm_calls_the_tools(
    drt: Drt, install: Install, handbook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm = pytest.importorskip("llm")
    from click.testing import CliRunner
    from llm.cli import cli

    drt("ingest", handbook)
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path / "llm"))
    monkeypatch.syspath_prepend(str(PACKAGES / "llm-drt"))
    import llm_drt

    class Scripted(llm.Model):  # type: ignore[misc]
        """Calls one tool, then repeats what it returned."""

        model_id = "scripted"
        supports_tools = True

        def execute(self, prompt, stream, response, conversation):  # type: ignore[no-untyped-def]
            if prompt.tool_results:
                yield prompt.tool_results[0].output
                return
            call = llm.ToolCall(name="drt_ask", arguments={"question": prompt.prompt})
            response.add_tool_call(call)
            yield ""

    class Models:
        @llm.hookimpl
        def register_models(self, register):  # type: ignore[no-untyped-def]
            register(Scripted())

    models = Models()
    for name, plugin in (("llm_drt", llm_drt), ("scripted", models)):
        llm.plugins.pm.register(plugin, name=name)
    try:
        runner = CliRunner()
        assert "drt_search" in runner.invoke(cli, ["tools", "list"]).output
        words = ["-m", "scripted", "-T", "drt_ask", "Which period?", "--no-log", "--no-stream"]
        ended = runner.invoke(cli, words, catch_exceptions=False)
        answer = json.loads(ended.output)
        assert (answer["state"], answer["answer"]) == ("answer", "period")
        assert json.loads(llm_drt.drt_read(answer["citations"][0]["handle"]))["quote"] == "period"
        assert llm_drt.drt_read("nonsense").startswith("Error: ")
        assert json.loads(llm_drt.drt_search("notice"))[0]["handle"]
        assert len(json.loads(llm_drt.drt_documents())) == 1
    finally:
        for name in ("llm_drt", "scripted"):
            llm.plugins.pm.unregister(name=name)
        for opened in llm_drt._opened:
            opened.close()
        llm_drt._opened.clear()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", sorted(one.parent.name for one in PACKAGES.glob("*/pyproject.toml"))
)
def test_the_packages_can_be_installed(name: str, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    ended = subprocess.run(
        [*pip, "--target", str(tmp_path), str(PACKAGES / name)], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    assert list(tmp_path.glob("*.dist-info/entry_points.txt"))
