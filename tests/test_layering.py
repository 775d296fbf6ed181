"""Imports go one way: between packages, between the rooms inside them, and never in a circle.

The order of the rooms is ``FLOORS`` in ``docs/import_graph.py``, which also draws the picture.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
# Each package, its folder, and the packages that it may import.
PACKAGES = {
    "drt_kernels": (ROOT / "kernels" / "drt_kernels", ()),
    "drt_engine": (ROOT / "engine" / "drt_engine", ("drt_kernels",)),
    "drt_lab": (ROOT / "engine" / "drt_lab", ("drt_engine", "drt_kernels")),
    "drt": (ROOT / "sdk" / "drt", ("drt_engine", "drt_lab")),
    "drt_cli": (ROOT / "drt_cli", ("drt",)),
}

# Arrows that still run upwards, and why. An entry without an arrow is an error, too.
UPWARDS: dict[tuple[str, str], str] = {}


def load_import_graph() -> ModuleType:
    """Load the script as a module: ``docs`` is no package."""
    path = ROOT / "docs" / "import_graph.py"
    spec = importlib.util.spec_from_file_location("import_graph", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


import_graph = load_import_graph()


@pytest.fixture(scope="module")
def graph() -> Any:
    """The imports of all packages."""
    return import_graph.read_graph()


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """Line and top-level package of every import in a file, those inside functions as well."""
    for node, _ in import_graph.statements(import_graph.parse(file)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, one.name.split(".")[0]) for one in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.lineno, (node.module or "").split(".")[0]


@pytest.mark.few(2)
@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_those_below_it(package: str) -> None:
    folder, allowed = PACKAGES[package]
    files = sorted(folder.rglob("*.py"))
    assert files, f"{folder} holds no module"
    wrong = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for file in files
        for line, name in imports(file)
        if name in PACKAGES and name not in (package, *allowed)
    ]
    assert wrong == []


def test_few_modules_of_the_sdk_know_the_engine_at_run_time() -> None:
    """`_engine.py` opens it, one has its results, two know its errors; others name it for types."""
    folder, _ = PACKAGES["drt"]
    knowing = set()
    for file in folder.rglob("*.py"):
        for node, guarded in import_graph.statements(import_graph.parse(file)):
            if not guarded and isinstance(node, ast.Import | ast.ImportFrom):
                module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
                if (module or "").startswith("drt_engine"):
                    knowing.add(file.relative_to(folder).parts[0])
    assert knowing == {"_engine.py", "_types", "_errors.py", "_opened"}


def test_the_sdk_imports_the_laboratory_in_functions_of_one_module() -> None:
    folder, _ = PACKAGES["drt"]
    knowing = set()
    for file in folder.rglob("*.py"):
        tree = import_graph.parse(file)
        inside = {
            id(node)
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef)
            for node in ast.walk(function)
        }
        for node, guarded in import_graph.statements(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("drt_lab"):
                assert guarded or id(node) in inside, f"{file}:{node.lineno}"
                knowing.add(file.name)
    assert knowing == {"_engine.py"}


@pytest.mark.thorough
def test_every_room_has_a_floor(graph: Any) -> None:
    listed = [name for floor in import_graph.FLOORS for name in floor]
    assert len(listed) == len(set(listed))
    assert set(graph.rooms) <= set(listed)


def test_no_room_imports_from_a_floor_above(graph: Any) -> None:
    assert set(graph.upwards()) == UPWARDS.keys()


def test_no_circle_of_rooms_but_those_of_the_arrows_above(graph: Any) -> None:
    allowed = {(item.importer, item.imported) for ends in UPWARDS for item in graph.arrows[ends]}
    imports_left = tuple(
        item for item in graph.imports if (item.importer, item.imported) not in allowed
    )
    assert import_graph.Graph(imports_left).circles() == []


def test_no_circle_of_modules_at_run_time(graph: Any) -> None:
    """Those that are for types only are fine: two classes may name each other."""
    assert graph.running.module_circles() == []


def test_the_picture_of_the_imports_is_current(graph: Any) -> None:
    text = import_graph.page(graph)
    assert import_graph.PAGE.read_text(encoding="utf-8") == text, "run docs/import_graph.py"


@pytest.fixture
def crooked(tmp_path: Path) -> Path:
    """Write a tree in which the model imports the store, in a function, and the store the model."""
    for folder in import_graph.SOURCES.values():
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "__init__.py").touch()
    engine = tmp_path / import_graph.SOURCES["drt_engine"]
    files = {
        "model/drt.py": "def load():\n    from drt_engine.store import view\n",
        "model/scorer.py": "if TYPE_CHECKING:\n    from drt_engine.answer.ask import Answer\n",
        "store/view.py": "import drt_engine.model.drt\n",
        "answer/ask.py": "from . import quote\nfrom ..store.view import View\n",
        "answer/quote.py": "import drt_kernels\n",
    }
    for name, text in files.items():
        (engine / name).parent.mkdir(exist_ok=True)
        (engine / name).write_text(text)
    return tmp_path


def test_arrows_and_circles_are_seen(crooked: Path) -> None:
    graph = import_graph.read_graph(crooked)
    assert set(graph.arrows) == {
        ("answer", "kernels"),
        ("answer", "store"),
        ("model", "answer"),
        ("model", "store"),
        ("store", "model"),
    }
    assert graph.upwards() == [("model", "answer"), ("model", "store")]
    assert graph.running.upwards() == [("model", "store")]
    assert graph.circles() == [("answer", "model", "store")]
    assert graph.running.circles() == [("model", "store")]
    assert graph.running.module_circles() == [("drt_engine.model.drt", "drt_engine.store.view")]


def test_the_picture_leaves_out_what_a_longer_way_implies(crooked: Path) -> None:
    (crooked / "engine/drt_engine/model/drt.py").write_text("import drt_kernels\n")
    (crooked / "engine/drt_engine/model/scorer.py").write_text("")
    graph = import_graph.read_graph(crooked)
    assert ("answer", "kernels") in graph.arrows
    assert graph.essential() == [("answer", "store"), ("model", "kernels"), ("store", "model")]
