"""Where an option's value comes from: command line, environment, settings file, default."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drt import _engine
from drt_cli._settings import toml_value
from drt_engine.errors import WeightsError
from tests.cli.conftest import Drt
from tests.sdk.fakes import FakeEngine


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def test_settings_are_set_got_listed_and_unset(drt: Drt, file: Path) -> None:
    assert drt("config", "path").out == f"{file}\n"
    assert (drt("config", "get", "threads").code, file.exists()) == (1, False)
    assert drt("config", "set", "threads", "2").code == 0
    assert drt("config", "set", "ask.top_k", "12").code == 0
    assert drt("config", "get", "ask.top-k").out == "12\n"
    assert drt("config", "list").out == "threads = 2\nask.top-k = 12\n"
    assert drt("config", "list", "--json").json == {"threads": 2, "ask.top-k": 12}
    assert drt("config", "unset", "threads").code == 0
    assert drt("config", "unset", "ask.top-k").code == 0
    assert drt("config", "list").out == ""


def test_a_change_keeps_the_rest_as_it_is(drt: Drt, file: Path) -> None:
    text = '# mine\nlibrary = "/a/b"  # here\n\n# for questions\n[ask]\nmode = "quote"  # exact\n'
    file.write_text(text)
    drt("config", "set", "ask.top-k", "3")
    assert file.read_text() == text + "top-k = 3\n"
    drt("config", "set", "threads", "2")
    assert tomllib.loads(file.read_text())["threads"] == 2
    assert all(line in file.read_text().splitlines() for line in text.splitlines())
    drt("config", "unset", "threads")
    drt("config", "unset", "ask.top-k")
    assert [line for line in file.read_text().splitlines() if line] == [
        line for line in text.splitlines() if line
    ]


def test_an_odd_layout_is_left_to_its_author(drt: Drt, file: Path) -> None:
    file.write_text('ask = { mode = "quote" }\n')
    result = drt("config", "set", "ask.top-k", "3")
    assert result.code == 1 and "edit it by hand" in result.err
    assert file.read_text() == 'ask = { mode = "quote" }\n'


def test_the_order_of_precedence(
    drt: Drt, engine: FakeEngine, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def top_k(*words: str) -> object:
        assert drt("ask", "Which period?", *words).code == 0
        return engine.asked[-1].get("top_k")

    drt("ingest", handbook)
    assert top_k() is None  # the model's own number
    drt("config", "set", "ask.top-k", "3")
    assert top_k() == 3
    monkeypatch.setenv("DRT_ASK_TOP_K", "4")
    assert top_k() == 4
    assert top_k("--top-k", "5") == 5


def test_global_options_come_from_everywhere_too(
    drt: Drt, engine: FakeEngine, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def threads(*words: object) -> object:
        assert drt(*words, handbook).code == 0
        return engine.loads[-1]["threads"]

    drt("config", "set", "threads", "2")
    assert threads("ingest") == 2
    monkeypatch.setenv("DRT_THREADS", "3")
    assert threads("ingest") == 3
    assert threads("--threads", "4", "ingest") == 4
    assert threads("ingest", "--threads", "5") == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["set", "ask.topk", "3"], "ask.topk"),
        (["set", "library.list", "3"], "library.list"),
        (["set", "ask.top-k", "many"], "'many' is not a whole number from 1 to 64"),
        (["set", "ask.top-k", "0"], "0"),
        (["set", "device", "tpu"], "'tpu'"),
        (["set", "quiet", "maybe"], "neither true nor false"),
        (["get", "nothing"], "nothing"),
        (["unset", "help"], "help"),
    ],
)
def test_wrong_settings_are_a_sentence(drt: Drt, file: Path, words: list[str], said: str) -> None:
    result = drt("config", *words)
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert said in result.err and not file.exists()


@pytest.mark.parametrize(
    "text", ["threads = ", "threads = 0", "unknown = 1", "[ask]\nx = 1", "\xff"]
)
def test_a_broken_file_is_a_sentence_and_can_be_mended(drt: Drt, file: Path, text: str) -> None:
    file.write_bytes(text.encode("latin-1"))
    result = drt("library", "list")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("drt: ") and result.err.count("\n") == 1
    assert drt("config", "path").code == 0
    file.unlink()
    assert drt("library", "list").code == 0


def test_flags_and_repeated_options(drt: Drt, engine: FakeEngine, handbook: Path) -> None:
    drt("ingest", handbook)
    drt("config", "set", "ask.reread", "false")
    drt("config", "set", "ask.doc", "handbook.txt")
    drt("config", "set", "quiet", "true")
    drt("ask", "Which period?")
    assert engine.asked[-1]["reread"] is False and len(engine.asked[-1]["documents"]) == 1


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives_the_file(text: str) -> None:
    assert tomllib.loads(f"value = {toml_value(text)}\n") == {"value": text}
    assert tomllib.loads(f"value = {toml_value([text, text])}\n") == {"value": [text, text]}


def test_a_model_that_is_not_there_is_refused(drt: Drt, file: Path) -> None:
    result = drt("config", "set", "model", "nonexist")
    assert result.code == 1 and "there is no model 'nonexist'" in result.err
    assert not file.exists()
    assert drt("config", "set", "model", "drt-small-en").code == 0


def test_a_missing_model_is_told_where_it_was_set(
    drt: Drt,
    engine: FakeEngine,
    handbook: Path,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drt("ingest", handbook)

    def missing(model: str, **_options: object) -> None:
        raise WeightsError(f"no model is called {model!r}")

    monkeypatch.setitem(vars(_engine), "load_runtime", missing)
    file.write_text('model = "nonexist"\n')
    where = f"(set in {file}; drt config unset model removes it)"
    assert f"no model is called 'nonexist' {where}.\n" in drt("ask", "Notice?").err
    assert drt("library", "list").code == 0
    assert drt("ask", "Notice?", "--model", "typed").err == "drt: no model is called 'typed'\n"
    monkeypatch.setenv("DRT_MODEL", "listed")
    assert drt("ask", "Notice?").err.endswith("'listed' (set by the variable DRT_MODEL).\n")


@pytest.mark.parametrize(
    ("text", "name"), [("threads = 0\n", "threads"), ("[ask]\ntop-k = 100\n", "ask.top-k")]
)
def test_a_bad_setting_is_told_where_it_is(drt: Drt, file: Path, text: str, name: str) -> None:
    file.write_text(text)
    err = drt("ask", "Notice?").err
    assert f"setting {name}: " in err
    assert f"(set in {file}; drt config unset {name} removes it)." in err
    assert drt("config", "unset", name).code == 0 and drt("library", "list").code == 0


def test_what_is_not_set_is_said_to_have_its_default(
    drt: Drt, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def got(name: str) -> str:
        result = drt("config", "get", name)
        assert (result.code, result.out) == (1, "")
        return result.err

    where = f"is not set in {file};"
    assert got("model") == f'model {where} the default holds, "drt-small-en".\n'
    assert got("ask.mode") == f'ask.mode {where} the default holds, "quote".\n'
    assert got("ask.top_k") == f"ask.top-k {where} the default holds.\n"
    monkeypatch.setenv("DRT_ASK_TOP_K", "12")
    assert got("ask.top-k") == f"ask.top-k {where} the variable DRT_ASK_TOP_K holds, 12.\n"


def test_a_misspelt_setting_is_answered_with_the_right_one(drt: Drt, file: Path) -> None:
    assert drt("config", "set", "ask.topk", "3").err.endswith("did you mean 'ask.top-k'?\n")
    assert drt("config", "get", "thread").err.endswith("did you mean 'threads'?\n")
    file.write_text("[ask]\ntopk = 3\n")
    err = drt("library", "list").err
    assert err == f"drt: {file}: there is no setting 'ask.topk'; did you mean 'ask.top-k'?\n"
