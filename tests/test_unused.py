"""Nothing is defined that nothing uses: every name occurs somewhere outside the tests."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.test_layering import import_graph

ROOT = Path(__file__).parents[1]
PACKAGES = ("kernels/drt_kernels", "engine/drt_engine", "engine/drt_lab", "sdk/drt", "drt_cli")
USERS = (*PACKAGES, "examples", "docs", ".ci")
# For users of the package, plug-ins and the kernels' tests.
OFFERED = {
    "VerbatimFilter",  # a TokenFilter for ``write``
    "assert_close",
    "begin_stream",
    "line_at",
    "needle_kinds",
    "origin_at",
    "poisoned",
    "poisoned_memory",
}
# Called by what is not Python of ours: click, Triton, io, notebooks and mcp.
HOOKS = {
    "_repr_html_",
    "allocate",
    "format_commands",
    "list_resources",
    "make_formatter",
    "seekable",
    "split_envvar_value",
}


def definitions(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Yield the names of functions, methods and classes, and whether a decorator registers them."""
    for part in ("body", "orelse", "handlers", "finalbody"):  # expressions define nothing
        for node in getattr(tree, part, ()):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                calls = [d for d in node.decorator_list if isinstance(d, ast.Call | ast.Attribute)]
                yield node.name, bool(calls)
            yield from definitions(node)


def test_every_function_and_class_is_used() -> None:
    files = [path for folder in PACKAGES for path in (ROOT / folder).rglob("*.py")]
    words: Counter[str] = Counter()
    for folder in USERS:
        for path in (ROOT / folder).rglob("*.py"):
            words.update(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    unused = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        for name, is_registered in definitions(import_graph.parse(path))
        if words[name] == 1 and not is_registered and name not in HOOKS | OFFERED
        if not name.startswith("__")
    ]
    assert unused == []
