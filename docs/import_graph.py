"""Draw the imports between the rooms of the project: who may import whom, and who does.

A room is a folder of ``drt_kernels``, ``drt_engine`` or ``drt_lab``, or a module beside these
folders; the SDK and the command line are one room each. ``FLOORS`` is the order of the rooms, from
the bottom to the top: a room imports from floors below, and on its own floor from rooms to its
left. ``python docs/import_graph.py`` writes ``docs/import-graph.md``; ``tests/test_layering.py``
fails on an arrow upwards, on a circle, and when the page is out of date.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "import-graph.md"
SOURCES = {
    "drt_kernels": "kernels/drt_kernels",
    "drt_engine": "engine/drt_engine",
    "drt_lab": "engine/drt_lab",
    "drt": "sdk/drt",
    "drt_cli": "drt_cli",
}
FLOORS: tuple[tuple[str, ...], ...] = (
    ("kernels/interpreter", "kernels/launch", "kernels/shapes", "kernels/testing"),
    ("kernels/backend",),
    ("kernels/gca", "kernels/scan", "kernels/window"),
    ("kernels/decode",),
    ("kernels",),
    ("blocks", "errors", "files", "processor", "progress", "results", "threads", "text"),
    ("config",),
    ("model",),
    ("decoder",),
    ("documents", "store"),
    ("runtime",),  # above the store: it says how the model's records are laid out there
    ("ingest", "retrieval"),
    ("generate",),
    ("preloaded",),
    ("trace", "answer", "search", "summary"),
    ("cluster",),
    ("diagnosis",),
    ("lab/config", "lab/data"),
    ("lab/lm",),
    ("lab/stream_trace", "lab/train", "lab/evaluate"),
    ("lab/bench", "lab/study"),
    ("sdk",),
    ("cli",),
)


@dataclass(frozen=True)
class Import:
    """One module imports another; ``types_only`` where it does so under ``TYPE_CHECKING``."""

    importer: str
    imported: str
    line: int
    types_only: bool


@dataclass(frozen=True)
class Graph:
    """Rooms and the imports between them."""

    imports: tuple[Import, ...]

    @cached_property
    def arrows(self) -> dict[tuple[str, str], list[Import]]:
        """Imports that leave their room, by the two rooms."""
        arrows = defaultdict(list)
        for item in self.imports:
            ends = room_of(item.importer), room_of(item.imported)
            if ends[0] != ends[1]:
                arrows[ends].append(item)
        return dict(sorted(arrows.items()))

    @cached_property
    def rooms(self) -> list[str]:
        """Every room with an arrow, from the bottom floor to the top."""
        names = {name for ends in self.arrows for name in ends}
        return sorted(names, key=lambda name: (height(name), name))

    @cached_property
    def running(self) -> Graph:
        """The same without imports that are for types only."""
        return Graph(tuple(item for item in self.imports if not item.types_only))

    def upwards(self) -> list[tuple[str, str]]:
        """Return arrows to a room that is higher, or to the right on the same floor."""
        return [ends for ends in self.arrows if height(ends[0]) < height(ends[1])]

    def circles(self) -> list[tuple[str, ...]]:
        """Return the groups of rooms that all import each other, directly or through others."""
        return circles_of(self.arrows)

    def module_circles(self) -> list[tuple[str, ...]]:
        """Return the groups of modules that all import each other, directly or through others."""
        return circles_of((item.importer, item.imported) for item in self.imports)

    def essential(self) -> list[tuple[str, str]]:
        """Return the arrows that no longer way replaces: enough for a picture."""
        reachable = reach(self.arrows)
        return [
            (source, target)
            for source, target in self.arrows
            if not any(
                target in reachable[via]
                for start, via in self.arrows
                if start == source and via != target
            )
        ]


def reach(arrows: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Return for every node the nodes that a walk along the arrows comes to."""
    targets = defaultdict(set)
    for source, target in arrows:
        targets[source].add(target)
    reachable: dict[str, set[str]] = defaultdict(set)
    for start in list(targets):
        pending = [start]
        while pending:
            new_nodes = targets.get(pending.pop(), set()) - reachable[start]
            reachable[start] |= new_nodes
            pending += new_nodes
    return reachable


def circles_of(arrows: Iterable[tuple[str, str]]) -> list[tuple[str, ...]]:
    """Return the groups of nodes that all reach each other."""
    reachable = reach(arrows)
    groups = {
        tuple(sorted(peer for peer in peers if node in reachable.get(peer, ())))
        for node, peers in reachable.items()
    }
    return sorted(group for group in groups if group)


def height(room: str) -> tuple[int, int]:
    """Return floor and place of a room; one that ``FLOORS`` does not name is above all."""
    for floor, names in enumerate(FLOORS):
        if room in names:
            return floor, names.index(room)
    return len(FLOORS), 0


def room_of(module: str) -> str:
    """Return the room that a module belongs to."""
    package, *inner = module.split(".")
    if package in ("drt", "drt_cli"):
        return {"drt": "sdk", "drt_cli": "cli"}[package]
    if not inner:
        return package.removeprefix("drt_")
    return inner[0] if package == "drt_engine" else f"{package.removeprefix('drt_')}/{inner[0]}"


def read_graph(root: Path = ROOT) -> Graph:
    """Read the imports of all packages, those inside functions as well."""
    modules = {}
    for package, folder in SOURCES.items():
        for path in sorted((root / folder).rglob("*.py")):
            inner = path.relative_to(root / folder).with_suffix("").parts
            modules[".".join([package, *inner]).removesuffix(".__init__")] = path
    return Graph(tuple(item for name in modules for item in read_imports(name, modules)))


@cache
def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(path.read_text(encoding="utf-8"))


def read_imports(importer: str, modules: dict[str, Path]) -> Iterator[Import]:
    """Read which of ``modules`` one of them imports."""
    path = modules[importer]
    for node, guarded in statements(parse(path)):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            source = imported_from(node, importer, is_package=path.name == "__init__.py")
            # ``from package import module`` imports the module, not only the package.
            inner_names = [f"{source}.{alias.name}" for alias in node.names]
            targets = [name if name in modules else source for name in inner_names]
        else:
            continue
        for target in sorted(set(targets)):
            # These ``__init__`` hold nothing, so importing them is no arrow.
            if target in modules and target not in ("drt_engine", "drt_lab"):
                yield Import(importer, target, node.lineno, guarded)


def statements(block: ast.AST, *, guarded: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """Iterate over all statements below a node, and whether each is for type checkers only.

    Expressions, of which there are ten times as many nodes, hold none.
    """
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        for child in getattr(block, name, ()):
            if isinstance(child, ast.stmt):
                yield child, guarded
            types_only = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
            yield from statements(child, guarded=guarded or types_only)


def imported_from(node: ast.ImportFrom, importer: str, *, is_package: bool) -> str:
    """Return the absolute name behind ``from``, with leading dots resolved."""
    if not node.level:
        return node.module or ""
    parents = importer.split(".")
    parents = parents[: len(parents) - node.level + is_package]
    return ".".join([*parents, *([node.module] if node.module else [])])


def page(graph: Graph) -> str:
    """Write the picture and the table as Markdown."""
    lines = [
        "# Which room imports which",
        "",
        "Made by `python docs/import_graph.py` from the imports in the code; a test fails when it",
        "is out of date. Arrows point down, from the importing room to the imported one. The",
        "picture leaves out arrows that a longer way implies; the table has them all.",
        "",
        "```mermaid",
        "flowchart TB",
    ]
    for floor, names in reversed(list(enumerate(FLOORS))):
        present = [name for name in names if name in graph.rooms]
        if present:
            lines += [f'  subgraph floor{floor}[" "]', "    direction LR"]
            lines += [f'    {node_id(name)}["{name}"]' for name in present]
            lines += ["  end"]
    lines += [f"  {node_id(a)} --> {node_id(b)}" for a, b in graph.essential()]
    lines += ["```", "", "| room | imports | only for types |", "| --- | --- | --- |"]
    for name in reversed(graph.rooms):
        targets = [target for target in reversed(graph.rooms) if (name, target) in graph.arrows]
        typing = [t for t in targets if all(i.types_only for i in graph.arrows[name, t])]
        running = [target for target in targets if target not in typing]
        lines.append(f"| {name} | {', '.join(running)} | {', '.join(typing)} |")
    return "\n".join(lines) + "\n"


def node_id(room: str) -> str:
    """Return a room's name as Mermaid takes it."""
    return room.replace("/", "_")


if __name__ == "__main__":
    PAGE.write_text(page(read_graph()), encoding="utf-8")
