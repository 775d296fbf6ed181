"""Which files of a folder its owner leaves out: ``.gitignore``, ``.ignore``, what programs made.

Reads the patterns that git documents (``*``, ``?``, ``[a-z]``, ``**``, ``/`` at either end, ``!``,
``#``); later patterns, and those of inner folders, go before others. Knows names, not contents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from drt_engine.files import expect_no_database

FILES = (".gitignore", ".ignore")  # the second one goes before the first
PACKAGES = "node_modules"  # of other people, which no project calls its own
OWNER_FILE = "~$"  # what Office makes beside a document that is open
_LONGEST = 1 << 20  # bytes of patterns that are read
_MOST = 10_000
_SIGN = re.compile(r"\*\*|\*|\?|\[[!^]?\]?[^]/]{0,255}\]|\\.|.", re.DOTALL)


@dataclass(frozen=True)
class Pattern:
    """A line of an ignore file: what it matches below its folder, and whether it keeps that."""

    path: re.Pattern[str]
    keeps: bool
    folders_only: bool


@dataclass(frozen=True)
class Rules:
    """The patterns of the folders from the outermost one in."""

    levels: tuple[tuple[Path, tuple[Pattern, ...]], ...] = ()

    def within(self, folder: Path, names: Iterable[str]) -> Rules:
        """Return the rules for what is in a folder, whose ``names`` may be ignore files."""
        listed = set(names)
        patterns = [p for name in FILES if name in listed for p in _patterns(folder / name)]
        return Rules((*self.levels, (folder, tuple(patterns)))) if patterns else self

    def ignores(self, path: Path) -> bool:
        """Return whether the last pattern that matches a path leaves it out."""
        is_folder: bool | None = None
        for folder, patterns in reversed(self.levels):
            relative = path.relative_to(folder).as_posix()
            for pattern in reversed(patterns):
                if not pattern.path.fullmatch(relative):
                    continue
                if pattern.folders_only:
                    is_folder = path.is_dir() if is_folder is None else is_folder
                    if not is_folder:
                        continue
                return not pattern.keeps
        return False


def _patterns(file: Path) -> Iterator[Pattern]:
    """Yield the patterns of an ignore file; none of one that cannot be read."""
    try:
        expect_no_database(file)  # where it may be a link to
        with file.open("rb") as opened:
            lines = opened.read(_LONGEST).decode("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in lines[:_MOST]:
        text = line.rstrip() if not line.endswith("\\ ") else line
        if not text or text.startswith("#"):
            continue
        keeps = text.startswith("!")
        body = text.removeprefix("!").removeprefix("\\")
        folders_only = body.endswith("/")
        body = body.rstrip("/")
        if not body.strip("/"):
            continue
        try:
            compiled = re.compile(_expression(body))
        except re.error:
            continue  # a range that ends before it begins, which git matches with nothing
        else:
            yield Pattern(compiled, keeps, folders_only)


def _expression(body: str) -> str:
    """Return the regular expression of a pattern, for paths below its folder."""
    is_anchored = "/" in body
    signs = [_sign(match[0]) for match in _SIGN.finditer(body.removeprefix("/"))]
    expression = "".join(_joined(signs))
    return expression if is_anchored else f"(?:.*/)?{expression}"


def _sign(sign: str) -> str:
    if sign in ("**", "*", "?"):
        return {"**": ".*", "*": "[^/]*", "?": "[^/]"}[sign]
    if sign.startswith("[") and len(sign) > 2:
        inner = sign[1:-1]
        negated = inner[:1] in "!^"
        inner = re.sub(r"([\\\[\]&~|])", r"\\\1", inner[1:] if negated else inner)
        return f"[{'^' if negated else ''}{inner}]"
    return re.escape(sign[-1]) if sign != "/" else "/"


def _joined(signs: Sequence[str]) -> Iterator[str]:
    """Yield the signs, ``**/`` as any number of folders."""
    skips = False
    for number, sign in enumerate(signs):
        if skips:
            skips = False
            continue
        if sign == ".*" and number + 1 < len(signs) and signs[number + 1] == "/":
            skips = True
            yield "(?:.*/)?"
        else:
            yield sign
