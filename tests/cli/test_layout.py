"""Text at the width of a terminal: every line fits, and nothing is lost."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drt_cli._layout import table, text_width, wrapped
from tests.cli.conftest import Drt
from tests.cli.test_manners import ALL
from tests.sampling import sampled
from tests.tables import each_row

WORDS = st.lists(st.text(alphabet="abcé日\u0301", min_size=1, max_size=9), max_size=30)
CELLS = st.text(alphabet="ab /é日", max_size=60).map(lambda text: " ".join(text.split()))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@given(WORDS, st.integers(min_value=40, max_value=120), st.sampled_from(["", "  ", "[12] ", "- "]))
def test_wrapped_lines_fit_and_hold_every_word(words: list[str], width: int, mark: str) -> None:
    text = mark + " ".join(words)
    lines = wrapped(text, width).split("\n")
    assert all(text_width(line) <= width for line in lines)
    assert " ".join(lines).split() == text.split()


def test_lines_go_on_below_their_first_word() -> None:
    line = "[1] " + " ".join(["word"] * 20)
    first, second, *_ = wrapped(line, 40).split("\n")
    assert first.startswith("[1] word") and second.startswith("    word")
    assert wrapped(line, 40, hanging=1).split("\n")[1].startswith(" word")
    assert wrapped(line, None) == line
    assert wrapped("short\n  kept   as it is", 40) == "short\n  kept   as it is"


def test_no_line_begins_with_the_gap_it_was_broken_at() -> None:
    line = "read  b356916e73d2dcd1  notmuch-NEWS.txt  (44,202 tokens)"
    assert wrapped(line, 40, hanging=2).split("\n") == [
        "read  b356916e73d2dcd1  notmuch-NEWS.txt",
        "  (44,202 tokens)",
    ]


def test_a_path_stays_whole_outside_of_tables() -> None:
    path = "/home/somebody/documents/of/the/expedition/handbook-of-1993.md"
    assert path in wrapped(f"drt: {path} does not exist; check the path.", 40).split("\n")


def test_a_style_takes_no_room() -> None:
    assert text_width("\x1b[1mbold\x1b[0m") == 4 and text_width("日本") == 4


@given(
    st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=4),
    st.integers(min_value=40, max_value=100),
)
def test_tables_fit_and_hold_every_character(rows: list[tuple[str, str, str]], width: int) -> None:
    lines = table(rows, width, right=frozenset([1]))
    assert all(text_width(line) <= width for line in lines)
    held = re.sub(r"\s", "", "".join(lines))
    assert sorted(held) == sorted(re.sub(r"\s", "", "".join(map("".join, rows))))


def test_a_table_that_fits_is_one() -> None:
    rows = [("a", "1", "one"), ("bb", "22", "two")]
    assert table(rows, 40, right=frozenset([1])) == ["a    1  one", "bb  22  two"]
    assert table(rows, None) == ["a   1   one", "bb  22  two"]


def test_the_last_column_is_wrapped_inside_itself() -> None:
    lines = table([("id", "many words " * 5), ("x", "few")], 40)
    assert lines[0].startswith("id  many") and lines[1].startswith("    ")
    assert lines[-1] == "x   few"


WRONG = (
    ("session", "delete", "review"),
    ("asc",),
    ("ask", "Which period?", "--top-k", "65"),
    ("ask", "Which period?", "--json", "--stream"),
)


@pytest.mark.parametrize("screen", sampled([40, 80, 120], {0}, thorough={2}))
def test_every_command_fits_the_screen(
    drt: Drt, handbook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, screen: int
) -> None:
    handbook.write_text("A very long title of a handbook for keepers.\n" + "In the period. " * 40)
    monkeypatch.setenv("COLUMNS", str(screen))
    drt("ask", "Which period?", handbook, "--session", "review")
    drt("ingest", handbook)
    drt("config", "set", "ask.retriever", "landmark")
    config, archive = ("--words", "40"), tmp_path / "all.drtlib"
    for words in (
        ("ask", "Which period?"),
        ("ask", "Which zeppelin?"),
        ("ask", "Which period?", "--explain"),
        ("ingest", handbook),
        ("show", "1"),
        ("summarize", handbook, *config),
        ("summarize", handbook, "--since", handbook, "--words", "9"),
        ("library", "list"),
        ("library", "show", "handbook.txt"),
        ("library", "stats"),
        ("library", "check"),
        ("library", "export", archive),
        ("library", "remove", "handbook.txt"),
        ("library", "import", archive),
        ("library", "compact"),
        ("trace", "Which period?"),
        ("config", "list"),
        ("config", "path"),
        ("schema",),
        ("session", "list"),
        ("session", "show", "review"),
        ("session", "search", "period"),
        ("formats",),
        ("formats", "--all"),
        ("model", "list"),
        ("model", "info"),
        ("eval", "ppl", handbook),
        ("bench", "ask"),
        ("chat",),
        *WRONG,
    ):
        out, err = Terminal(), Terminal()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            code = drt(*words, stdin="/help\n/doc handbook.txt\nWhich period?\n/show\n").code
            assert code == (2 if words in WRONG else 0), (words, err.getvalue())
        for line in (out.getvalue() + err.getvalue()).split("\n"):
            longest_word = max(map(len, line.split(" ")), default=0)
            drawn = line.rsplit("\r", 1)[-1]  # a bar draws over itself
            mark = max(6, len(drawn) - len(drawn.lstrip(" ")))  # a path stays whole behind it
            assert text_width(drawn) <= max(screen, longest_word + mark), (words, line)


@each_row("words", [words for words in ALL if words != "drt"])
def test_help_fits_forty_columns(drt: Drt, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    screen = Terminal()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", screen)
        drt(*words.split()[1:], "--help")
    lines = screen.getvalue().split("\n")
    example = next(n for n, line in enumerate(lines) if "Example:" in line)
    for line in lines[:example]:  # an example is one line, to be copied
        assert len(line) <= 40, line


def test_no_raw_values_are_shown(drt: Drt, handbook: Path) -> None:
    drt("ingest", handbook)
    for words in (("library", "stats"), ("library", "show", "handbook.txt")):
        out = drt(*words).out
        assert not re.search(r"\d\.\d{2}", out), out
        assert not re.search(r"\bNone\b|\bTrue\b|\bFalse\b|[\[{(]['\"]|\(\)|\[\]", out), out
    assert "-" in drt("library", "show", "handbook.txt").out


def test_a_pipe_gets_whole_lines(drt: Drt, handbook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    handbook.write_text("The period " + "goes on and " * 30 + "ends.")
    out = drt("ask", "Which period?", handbook).out
    assert any(len(line) > 100 for line in out.splitlines())
    assert json.loads(drt("ask", "Which period?", "--json").out)["found"]
    assert os.environ["COLUMNS"] == "40"
