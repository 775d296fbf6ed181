"""Makes docs/reference/ from the code: the commands from their help, Python from its docstrings.

Run it as `python docs/make_reference.py`; a test says when it is out of date.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import drt
from drt_cli._manual import reference
from drt_cli.main import cli

FOLDER = Path(__file__).parent / "reference"


def python_reference() -> str:
    """Every exported name with its signature and docstring, as Markdown."""
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
    """A heading, a signature and a docstring."""
    text = inspect.getdoc(value) or ""
    lines = [f"{level} {title}", ""]
    if not (inspect.isclass(value) and issubclass(value, BaseException | dict)):
        lines += ["```text", signature(title, value), "```", ""]
    return [*lines, text, ""] if text else lines


def methods(name: str, owner: type) -> list[str]:
    """The public methods and properties of a class, without what it inherits."""
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
    """A call with its parameters, as it is written in the code."""
    try:
        found = str(inspect.signature(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return title
    found = re.sub(r"'([^']*)'", lambda match: match.group(1), found)
    found = re.sub(r"\(self(, )?", "(", found)
    return f"{title}{re.sub(r'<factory>', '...', found)}"


def pages() -> dict[Path, str]:
    """The reference as it should be, by file."""
    return {
        FOLDER / "commands.md": reference(cli),
        FOLDER / "python.md": python_reference(),
    }


def main() -> None:
    """Writes the reference."""
    FOLDER.mkdir(exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
