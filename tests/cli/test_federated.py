"""Several libraries on the command line: repeated, in a variable, in the settings, in a list."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Drt


@pytest.fixture
def libraries(drt: Drt, handbook: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Two libraries of one document each; no other is named."""
    other = handbook.with_name("other.txt")
    other.write_text("Another period of the year.")
    paths = [str(handbook.with_name(name)) for name in ("first", "second")]
    for path, file in zip(paths, (handbook, other), strict=True):
        assert drt("ingest", file, "--library", path).code == 0
    monkeypatch.delenv("DRT_LIBRARY")
    yield paths


def titles(drt: Drt, *arguments: str) -> list[str]:
    return [
        document["title"]
        for document in drt(*arguments, "library", "list", "--json").json["documents"]
    ]


def test_several_are_named_in_every_way(
    drt: Drt, libraries: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, second = libraries
    both = ["handbook.txt", "other.txt"]
    assert titles(drt, "--library", first, "--library", second) == both
    assert titles(drt, "--library", second, "--library", first) == both[::-1]
    listed = drt("--library", first, "library", "list", "--library", second, "--json").json
    assert [document["title"] for document in listed["documents"]] == both[1:]  # the later counts
    file = str(tmp_path / "all.json")
    assert drt("library", "federate", file, first, second).code == 0
    assert titles(drt, "--library", file) == both
    monkeypatch.setenv("DRT_LIBRARY", os.pathsep.join(libraries))
    assert titles(drt) == both
    separated = tmp_path / f"one{os.pathsep}two"  # of such a name is one library, if it is there
    separated.mkdir()
    monkeypatch.setenv("DRT_LIBRARY", str(separated))
    assert titles(drt) == []
    monkeypatch.delenv("DRT_LIBRARY")
    (tmp_path / "config.toml").write_text(f"library = {libraries!r}")
    monkeypatch.setenv("DRT_CONFIG_FILE", str(tmp_path / "config.toml"))
    assert titles(drt) == both
    (tmp_path / "config.toml").write_text(f"library = {second!r}")
    assert titles(drt) == both[1:]


def test_what_is_cited_is_shown(drt: Drt, libraries: list[str]) -> None:
    named = [word for path in libraries for word in ("--library", path)]
    answer = drt("ask", "Which period?", *named, "--json").json
    assert answer["unread_libraries"] == []
    assert {citation["library"] for citation in answer["citations"]} <= set(libraries)
    assert drt("show", "1", *named).code == 0
    assert drt("show", "1", "--library", libraries[0]).err.startswith("From the answer to")
    assert drt("show", answer["citations"][0]["handle"], *named, "--json").code == 0


def test_a_library_that_is_missing_is_named(drt: Drt, libraries: list[str], tmp_path: Path) -> None:
    named = ["--library", libraries[0], "--library", str(tmp_path / "gone")]
    answer = drt("ask", "Which period?", *named)
    assert answer.code == 0 and '"period"' in answer.out
    assert answer.err.startswith(f"drt: without the library at {tmp_path / 'gone'}: there is no")
    assert "without the library" in drt("search", "period", *named).err
    assert "without the library" in drt("summarize", "handbook.txt", *named).err
    for words in (["list"], ["show", "handbook.txt"], ["stats"]):
        result = drt("library", *words, *named, "--json")
        assert result.code == 0 and result.err.startswith("drt: without the library at ")
    refused = drt("ask", "Which period?", *named, "--require-all")
    assert refused.code == 1 and refused.out == "" and refused.err.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        ("ingest", "handbook.txt"),
        ("library", "remove", "handbook.txt"),
        ("library", "tag", "handbook.txt", "+x"),
        ("library", "check"),
        ("library", "export", "x.drtlib"),
        ("doctor",),
    ],
)
def test_several_cannot_be_changed(
    drt: Drt, libraries: list[str], handbook: Path, command: tuple[str, ...]
) -> None:
    words = [
        str(handbook) if word == "handbook.txt" and command[0] == "ingest" else word
        for word in command
    ]
    result = drt(*words, "--library", libraries[0], "--library", libraries[1])
    assert result.code == 1 and "cannot be changed; name one of them" in result.err
    assert result.err.count("\n") == 1


def test_lists_that_are_none_are_one_sentence(
    drt: Drt, libraries: list[str], tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged.json"
    damaged.write_text('{"kind": "drt libraries"')
    for words in (
        ("ask", "Which period?", "--library", str(damaged)),
        ("library", "federate", str(damaged), *libraries),
        ("library", "federate", str(tmp_path / "new.json"), str(tmp_path / "gone")),
    ):
        result = drt(*words)
        assert result.code == 1 and result.err.count("\n") == 1, result.err
    assert not (tmp_path / "new.json").exists()


def test_a_quote_names_its_library_by_the_shortest_name(
    drt: Drt, libraries: list[str], tmp_path: Path
) -> None:
    named = [word for path in libraries for word in ("--library", path)]
    assert "handbook.txt (first), page 3" in drt("ask", "Which period?", *named).out
    assert "(first)" in drt("search", "notice period", *named).out
    assert "(first)" not in drt("ask", "Which period?", "--library", libraries[0]).out
    twin = Path(libraries[1]).with_name("other") / "first"
    twin.parent.mkdir()
    Path(libraries[1]).rename(twin)
    file = str(tmp_path / "all.json")
    assert drt("library", "federate", file, libraries[0], twin).code == 0
    parent = Path(libraries[0]).parent.name
    assert (
        f"handbook.txt ({Path(parent, 'first')})"
        in drt("ask", "Which period?", "--library", file).out
    )


def test_a_document_of_a_missing_library_is_one_sentence(
    drt: Drt, libraries: list[str], tmp_path: Path
) -> None:
    gone = str(tmp_path / "gone")
    named = ("--library", libraries[0], "--library", gone)
    for command in (("ask", "Which period?", "--doc", "other.txt"), ("summarize", "other.txt")):
        result = drt(*command, *named)
        assert result.code != 0 and result.out == "" and result.err.count("\n") == 1
        assert "no document 'other.txt'" in result.err
        assert f"not looked for in {gone}, which cannot be read" in result.err
