"""Slips in what is typed as a question and its files are answered with what was probably meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Drt
from tests.sdk.fakes import FakeEngine


@pytest.fixture(autouse=True)
def folder(handbook: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The handbook's folder, from which the commands are called."""
    monkeypatch.chdir(handbook.parent)
    handbook.with_name("other.txt").write_bytes(handbook.read_bytes())
    return handbook.parent


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("handbook.txt", "What is the period?"),
            'the question comes first: drt ask "What is the period?" handbook.txt',
        ),
        (
            ("handbook.txt", "Who", "signs", "it?"),
            'the question comes first: drt ask "Who signs it?" handbook.txt',
        ),
        (
            ("handbook.txt", "other.txt", "Who paid $5?"),
            "the question comes first: drt ask 'Who paid $5?' handbook.txt other.txt",
        ),
        (
            ("handbook.txt",),
            'handbook.txt is a file, and there is no question: drt ask "QUESTION" handbook.txt',
        ),
        (
            ("handbook.txt", "other.txt"),
            'drt ask "QUESTION" handbook.txt other.txt',
        ),
        (
            ("What", "is", "the", "period?"),
            'put the question in quotation marks: drt ask "What is the period?"',
        ),
        (
            ("Who", "signs", "it", "handbook.txt"),
            'put the question in quotation marks: drt ask "Who signs it" handbook.txt',
        ),
    ],
)
def test_what_was_meant_is_said_in_one_line(
    drt: Drt, engine: FakeEngine, words: tuple[str, ...], sentence: str
) -> None:
    result = drt("ask", *words)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("drt: ") and result.err.endswith(f"{sentence}\n")
    assert result.err.count("\n") == 1 and engine.loads == []


def test_a_query_is_a_query(drt: Drt) -> None:
    err = drt("search", "notice", "period", "handbook.txt").err
    assert err == 'drt: put the query in quotation marks: drt search "notice period" handbook.txt\n'


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("Who signs?", "missing"), "missing does not exist"),
        (("Who", "missing.txt"), "missing.txt does not exist"),
        (("Who signs?", "*.md"), "no file matches *.md"),
    ],
)
def test_a_missing_file_is_missing(drt: Drt, words: tuple[str, ...], named: str) -> None:
    result = drt("ask", *words)
    assert result.code == 1 and named in result.err


def test_what_is_right_is_asked(drt: Drt, folder: Path) -> None:
    (folder / "period").mkdir()
    for words in (("Notice?", "handbook.txt"), ("period", "handbook.txt"), ("period",)):
        assert drt("ask", *words).code == 0


@pytest.mark.parametrize("words", [("",), ("???",), ("?!", "handbook.txt")])
@pytest.mark.parametrize("command", ["ask", "search"])
def test_no_words_need_no_model(
    drt: Drt, engine: FakeEngine, command: str, words: tuple[str, ...]
) -> None:
    result = drt(command, *words)
    assert result.code == 1 and "has no words" in result.err and engine.loads == []
