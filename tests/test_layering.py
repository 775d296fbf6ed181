"""Imports go one way: drt_kernels <- drt_engine <- drt <- drt_cli, each only its neighbour."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "drt_kernels": (ROOT / "kernels" / "drt_kernels", None),
    "drt_engine": (ROOT / "engine" / "drt_engine", "drt_kernels"),
    "drt": (ROOT / "sdk" / "drt", "drt_engine"),
    "drt_cli": (ROOT / "drt_cli", "drt"),
}


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """Line and top-level package of every import in a file, those inside functions as well."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, one.name.split(".")[0]) for one in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.lineno, (node.module or "").split(".")[0]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_its_neighbour(package: str) -> None:
    folder, neighbour = PACKAGES[package]
    files = sorted(folder.rglob("*.py"))
    assert files, f"{folder} holds no module"
    wrong = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for file in files
        for line, name in imports(file)
        if name in PACKAGES and name not in (package, neighbour)
    ]
    assert wrong == []


def test_few_modules_of_the_sdk_know_the_engine_at_run_time() -> None:
    """`_engine.py` opens it, two know its errors; what else names it does so for types."""
    folder, _ = PACKAGES["drt"]
    knowing = set()
    for file in folder.glob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        guarded = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            if id(node) not in guarded and isinstance(node, ast.Import | ast.ImportFrom):
                module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
                if (module or "").startswith("drt_engine"):
                    knowing.add(file.name)
    assert knowing == {"_engine.py", "_errors.py", "_assistant.py"}
