"""Every compiled pattern of the packages, on strings made to be slow: the time grows with length.

A pattern that a long line of a document makes quadratic keeps a reader or a question for minutes.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

UNITS = (
    *' a1,|.()[]"-\n\t<=`*_\\A{}#;%+?é$&@',
    *("1,", "a ", "1 ", "a.", "A. ", "a,", "(a", "[a](", "| ", "a-", "--", "1.1.", "1/", "A b "),
    *("a and ", "the ", "of ", "Mr. ", "\\f", "a=", "<a ", "x:", "a/", "https://a", "$1", " \n"),
    *("\n\n", "- ", "- a\n", "--a ", "[-a] ", "a@b.", "“", "what ", "how many ", "a: b\n", "! "),
)
LENGTH = 2_000  # characters
SECONDS = 0.004  # for which nothing is measured again
TIMES = 4  # as long a text, whose time tells linear from quadratic on a busy machine, too
GROWTH = 8.0  # of the time for it; linear is 4, quadratic 16


class Pattern:
    """A compiled pattern, and how its module uses it."""

    def __init__(self, where: str, compiled: re.Pattern[Any], uses: set[str]) -> None:
        self.where, self.compiled = where, compiled
        self.is_anchored = bool(uses) and uses <= {"match", "fullmatch"}
        self.is_used = bool(uses)  # by its name; what is used by another is not looked at here

    def seconds(self, text: str) -> float:
        subject: Any = text.encode() if isinstance(self.compiled.pattern, bytes) else text
        began = time.process_time()
        if self.is_anchored:
            self.compiled.match(subject)
        else:
            for _ in self.compiled.finditer(subject):
                pass
        return time.process_time() - began


def growth(pattern: Pattern, unit: str) -> float:
    """How much longer the longer text takes; 0 where that is in proportion, or no time at all."""
    for before, after in (("", "\x00"), ("a", "!\n")):

        def text(length: int, before: str = before, after: str = after) -> str:
            return before + unit * (length // len(unit)) + after

        # From a short text on, so that a cubic pattern ends the measurement in time.
        for length in (LENGTH // 5, LENGTH):
            if pattern.seconds(text(length)) < SECONDS:
                continue
            times = [
                min(pattern.seconds(text(n)) for _ in range(3)) for n in (length, TIMES * length)
            ]
            if times[0] >= SECONDS / 2 and times[1] > GROWTH * times[0]:
                return times[1] / times[0]
            break
    return 0.0


def compiled_patterns() -> Iterator[Pattern]:
    """The patterns at the top of every module that can be imported, alone or in a collection."""
    seen = set()
    for package in ("drt_engine", "drt", "drt_cli"):
        path = importlib.import_module(package).__path__
        for entry in pkgutil.walk_packages(path, f"{package}."):
            if entry.name.endswith("__main__"):
                continue
            try:
                module = importlib.import_module(entry.name)
            except ImportError:  # of an extra
                continue
            for name, value in vars(module).items():
                for item in flat(value):
                    key = (item.pattern, item.flags)
                    if key not in seen:
                        seen.add(key)
                        yield Pattern(f"{entry.name}.{name}", item, uses(entry.name, name))


def flat(value: Any, depth: int = 3) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, dict | tuple | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from flat(item, depth - 1)


def uses(module: str, name: str) -> set[str]:
    return set(re.findall(rf"\b{re.escape(name)}\.(\w+)\(", source(module)))


@functools.cache
def source(module: str) -> str:
    return inspect.getsource(sys.modules[module])


@pytest.mark.thorough
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("pattern", "slow"),
    [
        (r"\s+$", " "),
        (r"[\w-]*(?:key|token)=", "a-"),
        (r"\d\.\d.*\b20\d\d", "1.1."),
        (r"\s{1,20}\d", None),
        (r"[a-z]+", None),
    ],
)
def test_a_pattern_that_is_quadratic_is_noticed(pattern: str, slow: str | None) -> None:
    units = (slow,) if slow else (" ", "a", "1.1.")
    measured = [growth(Pattern("here", re.compile(pattern), set()), unit) for unit in units]
    assert any(measured) == (slow is not None)


def test_hiding_secrets_takes_time_in_proportion() -> None:
    from drt._writer import reasons

    named: Callable[[str], str] = reasons.clean
    assert named("MY_API-KEY = 'abc' x-token: b") == "MY_API-KEY = '***' x-token: ***"
    for item in (*flat(reasons._SECRET_FORMS), reasons._ESCAPES):
        for unit in ("a-", " ", "token", "token=", "//a", "sk-", "\x1b["):
            assert growth(Pattern("reasons", item, set()), unit) == 0.0, (item.pattern, unit)


@pytest.mark.thorough
def test_no_pattern_is_quadratic() -> None:
    slow = [
        f"{pattern.where}: {unit!r} takes {ratio:.1f} times as long: {pattern.compiled.pattern!r}"
        for pattern in compiled_patterns()
        if pattern.is_used
        for unit in UNITS
        if (ratio := growth(pattern, unit))
    ]
    assert slow == [], "\n".join(slow)
