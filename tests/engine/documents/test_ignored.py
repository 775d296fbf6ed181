"""Folders: what ignore files name, packages and owner files are passed over, and that is said."""

from __future__ import annotations

from pathlib import Path

from drt_engine.documents import Source, expand_paths
from drt_engine.documents.inputs.ignored import Rules
from tests.tables import each_row


def ignored(folder: Path, patterns: str, path: str) -> bool:
    (folder / ".gitignore").write_text(patterns, encoding="utf-8")
    return Rules().within(folder, [".gitignore"]).ignores(folder / path)


@each_row(
    ("pattern", "path", "expected"),
    [
        ("a.txt", "a.txt", True),
        ("a.txt", "b/a.txt", True),
        ("/a.txt", "b/a.txt", False),
        ("b/a.txt", "b/a.txt", True),
        ("b/a.txt", "c/b/a.txt", False),
        ("*.log", "b/x.log", True),
        ("*.log", "x.log.txt", False),
        ("b/*.log", "b/c/x.log", False),
        ("b/**/x", "b/x", True),
        ("b/**/x", "b/c/d/x", True),
        ("**/x", "b/x", True),
        ("b/**", "b/c/x", True),
        ("?.txt", "a.txt", True),
        ("[ab].txt", "b.txt", True),
        ("[!ab].txt", "b.txt", False),
        ("[z-a].txt", "b.txt", False),
        ("# a.txt", "a.txt", False),
        ("\\#a", "#a", True),
        ("a.txt\n!a.txt", "a.txt", False),
        ("!a.txt\na.txt", "a.txt", True),
        ("a.txt   ", "a.txt", True),
        ("(", "(", True),
        ("dir/", "dir", False),
    ],
)
def test_patterns_are_those_of_git(tmp_path: Path, pattern: str, path: str, expected: bool) -> None:
    assert ignored(tmp_path, pattern, path) is expected


def test_a_pattern_of_folders_needs_one(tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    assert ignored(tmp_path, "dir/", "dir")


def test_a_folder_is_read_without_them(tmp_path: Path) -> None:
    for name, text in {
        ".gitignore": "private.txt\nbuild/\n",
        ".ignore": "!private.txt\ndraft.*\n",
        "a.txt": "x",
        "private.txt": "x",
        "draft.md": "x",
        "build/b.txt": "x",
        "node_modules/p/c.txt": "x",
        "in/.gitignore": "d.txt\n",
        "in/d.txt": "x",
        "in/e.txt": "x",
        "~$report.docx": "\5Someone",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = expand_paths([str(tmp_path)])
    names = [Path(one.name).name for one in found if isinstance(one, Source)]
    assert names == ["a.txt", "e.txt", "private.txt"]
    assert set(found.notes.skipped) == {
        "3 hidden names (files and folders that begin with a dot, or that systems make)",
        "3 ignored files or folders (named in .gitignore or .ignore)",
        "folder node_modules (packages of other people)",
        "owner file of Office (made beside a document that is open)",
    }


def test_a_file_that_is_named_itself_is_read(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*", encoding="utf-8")
    (tmp_path / "a.txt").write_text("x", encoding="utf-8")
    assert [Path(s.name).name for s in expand_paths([str(tmp_path / "a.txt")])] == ["a.txt"]
