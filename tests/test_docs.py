"""The README holds true: its commands and files exist, its Python runs."""

from __future__ import annotations

import re
import shlex
import shutil
import tomllib
from pathlib import Path

import click
import pytest

from drt import schema
from drt_cli.main import COMMANDS, cli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LARGE = [(ROOT / "docs" / name).read_text("utf-8") for name in ("cluster.md", "scaling.md")]
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.S)


def commands() -> list[list[str]]:
    """Commands of the README and of large libraries, and those that numbers were measured with."""
    lines = [line.split("#")[0] for block in blocks("sh") for line in block.splitlines()]
    lines += [line for text in LARGE for line in re.sub(r"\\\n *", "", text).splitlines()]
    lines = [part.strip() for line in lines for part in line.split("&&")]
    inline = re.findall(r"`(drt [^`]+)`", "".join([README, BENCHMARKS, *LARGE]))
    return [shlex.split(line) for line in [*lines, *inline] if line.startswith("drt ")]


def command_of(words: list[str]) -> str:
    """Return the command that follows the libraries' names."""
    at = 1
    while words[at] == "--library":
        at += 2
    return words[at].rstrip(",")


def test_every_command_of_the_readme_exists() -> None:
    named = {command_of(words) for words in commands()}
    assert named <= set(COMMANDS)
    assert {"ask", "ingest", "summarize", "eval", "bench"} <= named


def test_every_option_of_the_readme_exists() -> None:
    for words in commands():
        names: set[str] = set()
        command: click.Command | None = cli
        for word in words[1:]:
            if isinstance(command, click.Group):
                names |= {o for p in command.params for o in p.opts + p.secondary_opts}
                command = command.get_command(click.Context(command), word.rstrip(",")) or command
        assert command is not None
        names |= {o for p in command.params for o in p.opts + p.secondary_opts}
        used = {word.split("=")[0] for word in words if word.startswith("--")}
        assert used <= names, words


def test_every_command_is_in_the_readme() -> None:
    for name in COMMANDS:
        assert f"drt {name}" in README, name


def test_files_named_in_the_pages_exist() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for path in re.findall(r"(?:examples/|engine/drt|kernels/drt|tests/)[\w./@-]+\w", text):
            assert (ROOT / path).exists(), (page.name, path)
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", text):
            assert (page.parent / link).exists(), (page.name, link)


def test_links_to_headings_lead_there() -> None:
    count = 0
    for page in [*PAGES, ROOT / "examples" / "LOG.md"]:
        text = page.read_text(encoding="utf-8")
        for link, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", text):
            target = (page.parent / link).read_text(encoding="utf-8") if link else text
            headings = re.findall(r"(?m)^#+ (.*)$", target)
            slugs = [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in headings]
            assert anchor in slugs, (page.name, link, anchor)
            count += 1
    assert count >= 10


def test_modules_named_in_the_architecture_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`([\w./-]+\.(?:py|md))`", text))
    assert len(names) > 20
    bases = (ROOT, ROOT / "engine" / "drt_engine")
    missing = [name for name in names if not any((base / name).exists() for base in bases)]
    assert missing == []


def test_cells_of_tables_are_short() -> None:
    # Rooms may import more than 25 others.
    for page in [page for page in PAGES if page.name != "import-graph.md"]:
        rows = [row for row in page.read_text(encoding="utf-8").splitlines() if row[:1] == "|"]
        for cell in [cell for row in rows for cell in row.strip("|").split(" | ")]:
            assert len(re.sub(r"`[^`]*`", "code", cell).split()) <= 25, (page.name, cell)


@pytest.mark.thorough
def test_the_python_of_the_readme_runs(
    handbook_parts: Path,
    untouched_handbook_library: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "examples").mkdir()
    shutil.copy(handbook_parts, tmp_path / "examples" / "handbook.md")
    shutil.copytree(untouched_handbook_library, tmp_path / "notes.library")
    monkeypatch.chdir(tmp_path)
    (source,) = blocks("python")
    exec(compile(source, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "sixty days" in printed and len(printed.splitlines()) >= 2


def test_the_json_of_the_readme_has_the_keys_of_the_schema() -> None:
    (shape,) = blocks("json")
    outer, inner = shape.split('"citations": [')
    answer = schema("ask")["properties"]
    assert set(re.findall(r'"(\w+)"', outer)) | {"citations"} == answer.keys()
    assert set(re.findall(r'"(\w+)"', inner)) == answer["citations"]["items"]["properties"].keys()


def test_one_command_installs_extras_wherever_one_is_named() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    code = [path for part in ("engine", "sdk", "drt_cli") for path in (ROOT / part).rglob("*.py")]
    named = 0
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *code]:
        text = path.read_text(encoding="utf-8")
        for extra in re.findall(r"drt-assistant\[(\w+)\]", text):
            assert extra in project["optional-dependencies"], path
        for command in re.findall(r"pip install [^\n]*\[[^\n]*", text):
            if '-e ".[dev]"' not in command:  # a contributor's, in the source tree
                assert command.startswith('pip install "drt-assistant['), (path, command)
                named += 1
    assert named >= 5
