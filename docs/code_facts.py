"""Facts about Python modules: functions, bindings, comments, duplicates, vague names.

Parsed with the standard library alone; ``measure_code.py`` makes tables of them.
"""

from __future__ import annotations

import ast
import builtins
import io
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

# Participles, pronouns and adjectives that say nothing of what a value is or what it is for.
VAGUE = frozenset(
    """
    found one ones known kept chosen wanted asked near own said held some mine told few many rest
    other others older newer there here either only given taken made gone such heard meant what why
    whole each every more most two begun
    """.split()  # noqa: SIM905  a list of words reads better so
)
BUILTINS = frozenset(name for name in dir(builtins) if not name.startswith("_"))
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)
# A run of this many equal lines in two places counts as one duplicate.
WINDOW = 8

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Name:
    """A name where it is bound, and what it is: a local, a parameter, a function, a field."""

    line: int
    kind: str
    text: str


@dataclass(frozen=True)
class Module:
    """A file, parsed."""

    path: Path
    text: str
    tree: ast.Module

    @classmethod
    def read(cls, path: Path) -> Module:
        """Read and parse a file."""
        text = path.read_text(encoding="utf-8")
        return cls(path, text, ast.parse(text))

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the syntax tree."""
        return list(ast.walk(self.tree))

    @cached_property
    def functions(self) -> list[Function]:
        """Functions and methods, inner ones as well."""
        return [node for node in self.nodes if isinstance(node, FUNCTIONS)]

    @cached_property
    def bindings(self) -> list[Name]:
        """Parameters and local variables of all functions, each once a function."""
        return [name for function in self.functions for name in bindings(function)]

    @cached_property
    def definitions(self) -> list[Name]:
        """Functions, methods, and fields of classes."""
        names = [Name(node.lineno, "function", node.name) for node in self.functions]
        for node in self.nodes:
            if isinstance(node, ast.ClassDef):
                names += [Name(line, "field", text) for text, line in fields(node).items()]
        return names

    @cached_property
    def comments(self) -> list[tokenize.TokenInfo]:
        """Comments, without those that talk to tools."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return [
            token
            for token in tokens
            if token.type == tokenize.COMMENT
            and not token.string.startswith(("#!", "# noqa", "# type:", "# pragma"))
        ]

    @cached_property
    def code_lines(self) -> int:
        """Lines that are neither empty nor only a comment nor a docstring."""
        lines = [line.strip() for line in self.text.splitlines()]
        quoted = {
            number
            for node in self.nodes
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        return sum(
            bool(line) and not line.startswith("#") and number not in quoted
            for number, line in enumerate(lines, 1)
        )


def bindings(function: Function) -> Iterator[Name]:
    """Yield parameters and locals of a function, without those of functions inside it."""
    seen: set[str] = set()
    arguments = function.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    parameters += [extra for extra in (arguments.vararg, arguments.kwarg) if extra is not None]
    special = function.name.startswith("__") and function.name.endswith("__")
    for parameter in parameters:
        seen.add(parameter.arg)
        # ``other`` is what Python's own documentation calls the operand of ``__eq__``.
        if parameter.arg not in ("self", "cls") and not (special and parameter.arg == "other"):
            yield Name(parameter.lineno, "parameter", parameter.arg)
    for node in scope_nodes(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            text = node.id
        elif isinstance(node, ast.ExceptHandler) and node.name:
            text = node.name
        else:
            continue
        if text not in seen:
            seen.add(text)
            yield Name(node.lineno, "local", text)


def scope_nodes(function: Function) -> Iterator[ast.AST]:
    """Yield every node of a function's body that is in its scope, comprehensions included."""
    pending: list[ast.AST] = list(reversed(function.body))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            pending += reversed(list(ast.iter_child_nodes(node)))


def fields(node: ast.ClassDef) -> dict[str, int]:
    """Return the annotated names of a class body, and their lines."""
    return {
        item.target.id: item.lineno
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }


def is_vague(name: str) -> bool:
    """Return whether a name is a word of the list, with or without an underscore in front."""
    return name.strip("_") in VAGUE


def parameter_count(function: Function) -> int:
    """Count parameters without ``self`` and ``cls``."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return sum(argument.arg not in ("self", "cls") for argument in every)


def nesting(node: ast.AST, depth: int = 0) -> int:
    """Return how deep blocks are nested, without inner functions; ``elif`` is as deep as ``if``."""
    deepest = depth
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and child in node.orelse
        deeper = isinstance(child, BLOCKS) and not (is_elif and len(node.orelse) == 1)
        deepest = max(deepest, nesting(child, depth + deeper))
    return deepest


def public_definitions(module: Module) -> Iterator[ast.AST]:
    """Yield the module, and the classes, functions and methods that others may use."""
    yield module.tree
    for node in module.tree.body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from (
                    item
                    for item in node.body
                    if isinstance(item, FUNCTIONS) and not item.name.startswith("_")
                )


def has_docstring(node: ast.AST) -> bool:
    """Return whether a module, class or function explains itself."""
    return bool(ast.get_docstring(node))  # type: ignore[arg-type]


def is_annotated(function: Function) -> bool:
    """Return whether a function says what it takes and returns."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return function.returns is not None and all(
        argument.annotation is not None for argument in every if argument.arg not in ("self", "cls")
    )


def is_code(comment: str) -> bool:
    """Return whether a comment is a statement that was switched off."""
    try:
        body = ast.parse(comment.lstrip("# ")).body
    except (SyntaxError, ValueError):
        return False
    return any(not isinstance(node, ast.Expr) for node in body) or any(
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) for node in body
    )


def duplicates(modules: Iterable[Module]) -> int:
    """Count runs of at least ``WINDOW`` lines that occur a second time, each pair once."""
    places: dict[tuple[str, ...], list[tuple[Path, int]]] = {}
    for module in modules:
        lines = [line.strip() for line in module.text.splitlines()]
        lines = [
            line
            for line in lines
            if len(line) > 3 and not line.startswith(("#", "import ", "from ", '"""'))
        ]
        for start in range(len(lines) - WINDOW + 1):
            places.setdefault(tuple(lines[start : start + WINDOW]), []).append((module.path, start))
    pairs = {
        (first, second)
        for where in places.values()
        for index, first in enumerate(where)
        for second in where[index + 1 :]
    }
    # A longer run is one duplicate: only its first line counts.
    return sum(
        ((first[0], first[1] - 1), (second[0], second[1] - 1)) not in pairs
        for first, second in pairs
    )
