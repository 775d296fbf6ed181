"""Measure the code: sizes, docstrings, comments, names, and imports between folders.

``python docs/measure_code.py`` prints a table of the packages and one of the rooms;
``--names PATH`` lists vague names, and parameters that hide a builtin, file by file.
``--root`` measures another tree of the same layout, an older version for example: compare figures
only with figures of this script.
"""

from __future__ import annotations

import argparse
import ast
import statistics
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from code_facts import (
    BUILTINS,
    Function,
    Module,
    Name,
    duplicates,
    fields,
    has_docstring,
    is_annotated,
    is_code,
    is_vague,
    nesting,
    parameter_count,
    public_definitions,
)
from import_graph import ROOT, Graph, read_graph

PACKAGES = {
    "kernels": "kernels/drt_kernels",
    "engine": "engine/drt_engine",
    "lab": "engine/drt_lab",
    "sdk": "sdk/drt",
    "drt_cli": "drt_cli",
    "tests": "tests",
}


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
        """Count nodes of a kind that match."""
        nodes = (node for module in self.modules for node in module.nodes)
        return sum(isinstance(node, kind) and matches(node) for node in nodes)

    def comments(self) -> float:
        """Return comments per 100 lines of code."""
        return 100 * ratio(
            sum(len(module.comments) for module in self.modules),
            sum(module.code_lines for module in self.modules),
        )

    def vague(self) -> list[Name]:
        """Return locals and parameters with a name from the list."""
        return [name for name in self.bindings if is_vague(name.text)]

    def shadowing(self) -> list[Name]:
        """Return parameters with the name of a builtin."""
        return [
            name for name in self.bindings if name.kind == "parameter" and name.text in BUILTINS
        ]


def ratio(part: float, whole: float) -> float:
    """Return a quotient; 0 where there is nothing to divide by."""
    return part / whole if whole else 0.0


def spread(values: Iterable[int]) -> str:
    """Return median, 90th percentile and maximum."""
    ordered = sorted(values)
    if not ordered:
        return "-"
    tenth = ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]
    return f"{statistics.median_high(ordered)} / {tenth} / {ordered[-1]}"


def share(flags: Iterable[bool]) -> str:
    """Return how many are true, in percent."""
    values = list(flags)
    return f"{100 * ratio(sum(values), len(values)):.0f}%"


def package_rows(part: Part) -> dict[str, str]:
    """Return the figures of a package, by their title."""
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
    """Return whether a handler catches every exception by name."""
    assert isinstance(handler, ast.ExceptHandler)
    return handler.type is not None and ast.unparse(handler.type) in ("Exception", "BaseException")


def per_thousand(count: int, total: int) -> str:
    """Return a rate with the two numbers that it is made of."""
    return f"{1000 * ratio(count, total):.1f} ({count} of {total:,})"


def room_rows(part: Part) -> dict[str, str]:
    """Return the figures of a room, by their title."""
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
    """Return Markdown of parts and their figures; a part is a column, or a row when turned."""
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
    """Return the classes with at least three annotated fields, and the fields' names."""
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
    """Return what the imports and the mirrored classes come to, in lines."""
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
    """Return names behind a colon, if there are any."""
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
    library = Part("", [m for name, group in modules.items() if name != "tests" for m in group])
    rate = per_thousand(len(library.vague()), len(library.bindings))
    print(f"vague locals per 1,000 without tests {rate}")
    print(walls(read_graph(root), mirrors(modules["sdk"], modules["engine"])))


if __name__ == "__main__":
    main()
