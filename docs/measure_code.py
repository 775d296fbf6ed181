"""Measure the code: sizes, docstrings, comments, names, and imports between folders.

``python docs/measure_code.py`` prints a table of the packages and one of the rooms;
``--names PATH`` lists vague names, and parameters that hide a builtin, file by file.
``--root`` measures another tree of the same layout, an older version for example: compare figures
only with figures of this script.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import io
import statistics
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from import_graph import ROOT, Graph, read_graph

PACKAGES = {
    "kernels": "kernels/drt_kernels",
    "engine": "engine/drt_engine",
    "sdk": "sdk/drt",
    "drt_cli": "drt_cli",
    "tests": "tests",
}

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
    """Parameters and locals of a function, without those of functions inside it."""
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
    """Every node of a function's body that belongs to its own scope, comprehensions included."""
    pending: list[ast.AST] = list(reversed(function.body))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            pending += reversed(list(ast.iter_child_nodes(node)))


def fields(node: ast.ClassDef) -> dict[str, int]:
    """Annotated names of a class body, and their lines."""
    return {
        item.target.id: item.lineno
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }


def is_vague(name: str) -> bool:
    """Whether a name is a word of the list, with or without an underscore in front."""
    return name.strip("_") in VAGUE


def parameter_count(function: Function) -> int:
    """Parameters without ``self`` and ``cls``."""
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
    """The module, and the classes, functions and methods that others may use."""
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
    """Whether a module, class or function explains itself."""
    return bool(ast.get_docstring(node))  # type: ignore[arg-type]


def is_annotated(function: Function) -> bool:
    """Whether a function says what it takes and returns."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return function.returns is not None and all(
        argument.annotation is not None for argument in every if argument.arg not in ("self", "cls")
    )


def is_code(comment: str) -> bool:
    """Whether a comment is a statement that was switched off."""
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


@dataclass(frozen=True)
class Part:
    """A package or a room, and its figures."""

    name: str
    modules: list[Module] = field(repr=False)

    @cached_property
    def functions(self) -> list[Function]:
        """Functions of all modules."""
        return [function for module in self.modules for function in module.functions]

    @cached_property
    def bindings(self) -> list[Name]:
        """Locals and parameters of all modules."""
        return [name for module in self.modules for name in module.bindings]

    @cached_property
    def lines(self) -> list[int]:
        """Lines of each file."""
        return [len(module.text.splitlines()) for module in self.modules]

    def counted(self, kind: type[ast.AST], matches: Callable[[ast.AST], bool]) -> int:
        """Nodes of a kind that match."""
        nodes = (node for module in self.modules for node in module.nodes)
        return sum(isinstance(node, kind) and matches(node) for node in nodes)

    def comments(self) -> float:
        """Comments per 100 lines of code."""
        return 100 * ratio(
            sum(len(module.comments) for module in self.modules),
            sum(module.code_lines for module in self.modules),
        )

    def vague(self) -> list[Name]:
        """Locals and parameters with a name from the list."""
        return [name for name in self.bindings if is_vague(name.text)]

    def shadowing(self) -> list[Name]:
        """Parameters with the name of a builtin."""
        return [
            name for name in self.bindings if name.kind == "parameter" and name.text in BUILTINS
        ]


def ratio(part: float, whole: float) -> float:
    """A quotient; 0 where there is nothing to divide by."""
    return part / whole if whole else 0.0


def spread(values: Iterable[int]) -> str:
    """Median, 90th percentile and maximum."""
    ordered = sorted(values)
    if not ordered:
        return "-"
    tenth = ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]
    return f"{statistics.median_high(ordered)} / {tenth} / {ordered[-1]}"


def share(flags: Iterable[bool]) -> str:
    """How many are true, in percent."""
    values = list(flags)
    return f"{100 * ratio(sum(values), len(values)):.0f}%"


def package_rows(part: Part) -> dict[str, str]:
    """The figures of a package, by their title."""
    total = sum(part.lines)
    sizes = [(f.end_lineno or f.lineno) - f.lineno + 1 for f in part.functions]
    parameters = [parameter_count(function) for function in part.functions]
    public = [node for module in part.modules for node in public_definitions(module)]
    dead = sum(is_code(comment.string) for module in part.modules for comment in module.comments)
    bare = part.counted(ast.ExceptHandler, lambda node: node.type is None)
    broad = part.counted(ast.ExceptHandler, is_broad)
    raised, asserted = (part.counted(kind, lambda _: True) for kind in (ast.Raise, ast.Assert))
    definitions = [name for module in part.modules for name in module.definitions]
    return {
        "files": str(len(part.modules)),
        "lines": f"{total:,}",
        "file, median / p90 / max": spread(part.lines),
        "files over 500 lines": str(sum(lines > 500 for lines in part.lines)),
        "functions": f"{len(part.functions):,}",
        "function, median / p90 / max": spread(sizes),
        "public docstrings": share(has_docstring(node) for node in public),
        "annotated functions": share(is_annotated(function) for function in part.functions),
        "comments per 100 code lines": f"{part.comments():.1f}",
        "dead code per 1,000 lines": f"{1000 * ratio(dead, total):.1f}",
        "bare / broad excepts": f"{bare} / {broad}",
        "parameters, median / p90 / max": spread(parameters),
        "functions with over 6": str(sum(count > 6 for count in parameters)),
        "nesting, median / p90 / max": spread(nesting(function) for function in part.functions),
        "raise / assert": f"{raised} / {asserted}",
        "vague locals per 1,000": per_thousand(len(part.vague()), len(part.bindings)),
        "vague functions and fields": str(sum(is_vague(name.text) for name in definitions)),
        "parameters over a builtin": str(len(part.shadowing())),
        "duplicates per 1,000 lines": f"{1000 * ratio(duplicates(part.modules), total):.1f}",
    }


def is_broad(handler: ast.AST) -> bool:
    """Whether a handler catches every exception by name."""
    assert isinstance(handler, ast.ExceptHandler)
    return handler.type is not None and ast.unparse(handler.type) in ("Exception", "BaseException")


def per_thousand(count: int, total: int) -> str:
    """A rate with the two numbers that it is made of."""
    return f"{1000 * ratio(count, total):.1f} ({count} of {total:,})"


def room_rows(part: Part) -> dict[str, str]:
    """The figures of a room, by their title."""
    sizes = [(f.end_lineno or f.lineno) - f.lineno + 1 for f in part.functions]
    definitions = [name for module in part.modules for name in module.definitions]
    return {
        "files": str(len(part.modules)),
        "lines": f"{sum(part.lines):,}",
        "function, median / p90 / max": spread(sizes),
        "comments": f"{part.comments():.1f}",
        "vague locals": per_thousand(len(part.vague()), len(part.bindings)),
        "vague functions, fields": str(sum(is_vague(name.text) for name in definitions)),
        "over a builtin": str(len(part.shadowing())),
    }


def table(columns: dict[str, dict[str, str]], corner: str, *, turned: bool = False) -> str:
    """Markdown of parts and their figures; a part is a column, or a row when turned."""
    titles = list(next(iter(columns.values())))
    if turned:
        rows = [[name, *figures.values()] for name, figures in columns.items()]
        head = [corner, *titles]
    else:
        rows = [[title, *(figures[title] for figures in columns.values())] for title in titles]
        head = [corner, *columns]
    widths = [max(len(row[index]) for row in [head, *rows]) for index in range(len(head))]
    padded = [
        [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        for row in [head, ["-" * width for width in widths], *rows]
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in padded)


def rooms(root: Path, modules: dict[str, list[Module]]) -> dict[str, list[Module]]:
    """Group modules by package and first folder."""
    grouped: dict[str, list[Module]] = {}
    for name, folder in PACKAGES.items():
        for module in modules[name] if name != "tests" else []:
            below = module.path.relative_to(root / folder).parts
            grouped.setdefault("/".join([name, *below[:-1][:1]]), []).append(module)
    return dict(sorted(grouped.items()))


def dataclasses_of(modules: Iterable[Module]) -> dict[str, frozenset[str]]:
    """Classes with at least three annotated fields, and the fields' names."""
    classes = (
        node for module in modules for node in module.nodes if isinstance(node, ast.ClassDef)
    )
    named = {node.name: frozenset(fields(node)) for node in classes}
    return {name: names for name, names in named.items() if len(names) >= 3}


def mirrors(sdk: Iterable[Module], engine: Iterable[Module]) -> list[tuple[str, str, float]]:
    """Pair SDK classes with the engine class that shares at least 60% of their fields."""
    theirs = dataclasses_of(engine)
    pairs = []
    for name, names in dataclasses_of(sdk).items():
        overlap = {
            candidate: ratio(len(names & fields_of), len(names | fields_of))
            for candidate, fields_of in theirs.items()
        }
        best = max(overlap, key=lambda candidate: overlap[candidate], default=None)
        if best is not None and overlap[best] >= 0.6:
            pairs.append((name, best, overlap[best]))
    return sorted(pairs, key=lambda pair: -pair[2])


def walls(graph: Graph, pairs: list[tuple[str, str, float]]) -> str:
    """What the imports and the mirrored classes come to, in lines."""
    same = [pair for pair in pairs if pair[2] == 1]
    upwards = graph.upwards()
    circles = graph.module_circles()
    lines = [
        f"rooms {len(graph.rooms)}, arrows between them {len(graph.arrows)}",
        f"arrows upwards {len(upwards)}" + listed(f"{a} -> {b}" for a, b in upwards),
        f"circles {len(graph.circles())}" + listed(" <-> ".join(c) for c in graph.circles()),
        f"circles of modules {len(circles)}" + listed(" <-> ".join(c) for c in circles),
        f"mirrors {len(same)}" + listed(f"{a} = {b}" for a, b, _ in same),
        f"classes that share 60% or more of their fields {len(pairs) - len(same)}"
        + listed(f"{a} ~ {b} {100 * part:.0f}%" for a, b, part in pairs if part < 1),
    ]
    return "\n".join(lines)


def listed(names: Iterable[str]) -> str:
    """Names behind a colon, if there are any."""
    text = ", ".join(names)
    return f": {text}" if text else ""


def print_names(modules: Iterable[Module], path: Path, root: Path) -> None:
    """Print the names below a path that are vague or hide a builtin, file by file."""
    for module in modules:
        if not module.path.is_relative_to(path):
            continue
        part = Part(str(module.path), [module])
        names = [*part.vague(), *(n for n in module.definitions if is_vague(n.text))]
        notes = [f"{name.text}:{name.line} ({name.kind})" for name in names]
        notes += [f"{name.text}:{name.line} (builtin)" for name in part.shadowing()]
        if notes:
            counts = Counter(name.text for name in [*names, *part.shadowing()])
            print(f"\n{module.path.relative_to(root)}: {sum(counts.values())}")
            print("  " + ", ".join(notes))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", type=Path, metavar="PATH", help="list such names below PATH")
    parser.add_argument("--root", type=Path, default=ROOT, help="another tree of the same layout")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    modules = {
        name: [Module.read(path) for path in sorted((root / folder).rglob("*.py"))]
        for name, folder in PACKAGES.items()
    }
    if arguments.names is not None:
        every = [module for group in modules.values() for module in group]
        print_names(every, arguments.names.resolve(), root)
        return
    packages = {name: package_rows(Part(name, group)) for name, group in modules.items()}
    print(table(packages, ""))
    print()
    parts = {name: room_rows(Part(name, group)) for name, group in rooms(root, modules).items()}
    print(table(parts, "room", turned=True))
    print()
    print(walls(read_graph(root), mirrors(modules["sdk"], modules["engine"])))


if __name__ == "__main__":
    main()
