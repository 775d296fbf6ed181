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
    "assert_close",
    "begin_stream",
    "line_at",
    "needle_kinds",
    "origin_at",
    "poisoned",
    "poisoned_memory",
}
# Called by what is not Python of ours: click, Triton, io, notebooks, prompt_toolkit and mcp.
HOOKS = {
    "_repr_html_",
    "allocate",
    "format_commands",
    "get_completions",
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
    texts = {
        path: path.read_text(encoding="utf-8")
        for folder in USERS
        for path in (ROOT / folder).rglob("*.py")
    }
    words = Counter(word for text in texts.values() for word in re.findall(r"\w+", text))
    packages = tuple(ROOT / folder for folder in PACKAGES)
    unused = []
    for path, text in texts.items():
        # Only a file with a name that occurs once is parsed.
        names = re.findall(r"(?m)^ *(?:async )?(?:def|class) (\w+)", text)
        rare = {name for name in names if words[name] == 1} - HOOKS - OFFERED
        if not any(path.is_relative_to(folder) for folder in packages) or not rare:
            continue
        unused += [
            f"{path.relative_to(ROOT)}: {name}"
            for name, is_registered in definitions(import_graph.parse(path))
            if name in rare and not is_registered and not name.startswith("__")
        ]
    assert unused == []
