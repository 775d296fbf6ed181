"""Make docs/reference/ and share/ from the code: what is written about commands and Python.

``share/`` has the manual page and the completion scripts that the wheel installs. Run it as
``python docs/make_reference.py``; a test fails when one of the files is out of date.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from click.shell_completion import get_completion_class

import drt
from drt_cli._manual import manual_page, reference
from drt_cli.main import cli

FOLDER = Path(__file__).parent / "reference"
SHARE = Path(__file__).parents[1] / "share"
COMPLETIONS = {  # where each shell looks for the scripts of programs, below a prefix's share/
    "bash": "bash-completion/completions/drt",
    "zsh": "zsh/site-functions/_drt",
    "fish": "fish/vendor_completions.d/drt.fish",
}
PARAMETER = re.compile(r"^([a-z_]+): ")


def python_reference() -> str:
    """Return every exported name with its signature and docstring, as Markdown."""
    lines = ["# Python", "", "Made from the docstrings of the package `drt`.", ""]
    for name in drt.__all__:
        value = getattr(drt, name)
        if inspect.isclass(value):
            lines += described(name, value)
            lines += methods(name, value)
        elif callable(value):
            lines += described(name, value)
    return "\n".join(lines).rstrip() + "\n"


def described(title: str, value: object, level: str = "##") -> list[str]:
    """Return a heading, a signature and a docstring."""
    text = parameter_lists(inspect.getdoc(value) or "")
    lines = [f"{level} {title}", ""]
    if not (inspect.isclass(value) and issubclass(value, BaseException | dict)):
        lines += ["```text", signature(title, value), "```", ""]
    return [*lines, text, ""] if text else lines


def parameter_lists(text: str) -> str:
    """Return a docstring with paragraphs of ``name: meaning`` lines as lists."""
    paragraphs = text.split("\n\n")
    for index, paragraph in enumerate(paragraphs):
        lines = paragraph.splitlines()
        if lines and PARAMETER.match(lines[0]):
            lines = [PARAMETER.sub(r"- `\1`: ", line) for line in lines]
            lines = [line if line.startswith("- `") else f"  {line.strip()}" for line in lines]
            paragraphs[index] = "\n".join(lines)
    return "\n\n".join(paragraphs)


def methods(name: str, owner: type) -> list[str]:
    """Return public methods and properties of a class, without inherited ones."""
    lines: list[str] = []
    for key, value in vars(owner).items():
        if key.startswith("_") or not (inspect.isfunction(value) or isinstance(value, property)):
            continue
        if isinstance(value, property):
            lines += [f"### {name}.{key}", "", inspect.getdoc(value) or "", ""]
        else:
            lines += described(f"{name}.{key}", value, "###")
    return lines


def signature(title: str, value: object) -> str:
    """Return a call with its parameters, as it is written in the code."""
    try:
        text = str(inspect.signature(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return title
    text = re.sub(r"'([^']*)'", lambda match: match.group(1), text)  # annotations are strings
    text = re.sub(r"\(self(, )?", "(", text)
    return f"{title}{re.sub(r'<factory>', '...', text)}"


def completion(shell: str) -> str:
    """Return the script that ``drt completion SHELL`` prints."""
    kind = get_completion_class(shell)
    assert kind is not None
    return kind(cli, {}, "drt", "_DRT_COMPLETE").source() + "\n"


def pages() -> dict[Path, str]:
    """Return what the files should hold, by file."""
    scripts = {SHARE / place: completion(shell) for shell, place in COMPLETIONS.items()}
    return {
        FOLDER / "commands.md": reference(cli),
        FOLDER / "python.md": python_reference(),
        SHARE / "man/man1/drt.1": manual_page(cli, drt.__version__),
        **scripts,
    }


def main() -> None:
    """Write the files."""
    for path, text in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
