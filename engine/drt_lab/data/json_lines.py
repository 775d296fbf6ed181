"""JSON lines, plain or xz: one checked object at a time, and faults named by file and line.

Training and evaluation read their files with it. Knows nothing of what the fields mean.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from drt_engine.errors import ConfigError
from drt_engine.text.sentences import Span


@dataclass(frozen=True)
class Record:
    """One JSON object of a file, with the place it came from for messages."""

    path: Path
    line: int
    fields: Mapping[str, object]

    def fault(self, sentence: str) -> ConfigError:
        """Return the error that says where the object is."""
        return ConfigError(f"{self.path}, line {self.line}: {sentence}")

    def value(self, name: str) -> object:
        """Return a field; raises ``ConfigError`` where it is missing."""
        if name not in self.fields:
            names = ", ".join(self.fields) or "no field at all"
            raise self.fault(f"the field '{name}' is missing, found {names}")
        return self.fields[name]

    def string(self, name: str, *, empty: bool = False) -> str:
        """Return a field that holds text, which may be ``empty``; raises ``ConfigError``."""
        return self._checked_string(name, self.value(name), empty=empty)

    def strings(self, name: str) -> tuple[str, ...]:
        """Return a field that holds a list of texts; raises ``ConfigError``."""
        return tuple(self._checked_string(name, text, empty=False) for text in self._list(name))

    def spans(self, name: str) -> tuple[Span, ...]:
        """Return a field that holds pairs of character offsets; raises ``ConfigError``."""
        return tuple(self._checked_span(name, span) for span in self._list(name))

    def _list(self, name: str) -> list[object]:
        value = self.value(name)
        if not isinstance(value, list):
            raise self.fault(f"the field '{name}' is {_described(value)}, expected a list")
        return value

    def _checked_string(self, name: str, value: object, *, empty: bool) -> str:
        if not isinstance(value, str):
            raise self.fault(f"the field '{name}' holds {_described(value)}, expected a string")
        if not empty and not value.strip():
            raise self.fault(f"the field '{name}' holds an empty string, expected some text")
        if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in set(value)):
            raise self.fault(f"the field '{name}' holds half a surrogate pair, expected Unicode")
        return value

    def _checked_span(self, name: str, value: object) -> Span:
        if (
            isinstance(value, list)
            and len(value) == 2
            and all(type(offset) is int for offset in value)
            and 0 <= value[0] < value[1]
        ):
            return value[0], value[1]
        raise self.fault(
            f"the field '{name}' holds {_described(value)}, "
            "expected pairs [start, end] of character offsets with start before end"
        )


def read_records(path: Path) -> Iterator[Record]:
    """Yield the objects of a .jsonl or .jsonl.xz file; raises ``ConfigError`` naming the line."""
    for number, raw in _lines(path):
        try:
            value = json.loads(raw.decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError:
            raise ConfigError(f"{path}, line {number}: is not UTF-8, expected UTF-8") from None
        except (json.JSONDecodeError, RecursionError) as error:
            raise ConfigError(
                f"{path}, line {number}: is not JSON ({error}), expected one object a line"
            ) from None
        record = Record(path, number, value if isinstance(value, dict) else {})
        if not isinstance(value, dict):
            raise record.fault(f"holds {_described(value)}, expected a JSON object")
        yield record


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of each line that is not blank."""
    number = 0
    try:
        with _open(path) as file:
            for number, raw in enumerate(file, start=1):
                if raw.strip():
                    yield number, raw
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (lzma.LZMAError, EOFError) as error:
        raise ConfigError(
            f"{path}: not a complete xz file ({error}, after line {number}); fetch it again"
        ) from error


def _open(path: Path) -> IO[bytes]:
    if path.name.endswith(".jsonl.xz"):
        return lzma.open(path, "rb")
    if path.suffix == ".jsonl":
        return path.open("rb")
    raise ConfigError(f"{path}: has an unknown type, expected a .jsonl or .jsonl.xz file")


def _described(value: object) -> str:
    names = {dict: "an object", bool: "true or false", type(None): "null", str: "a string"}
    if type(value) in names:
        return names[type(value)]
    if isinstance(value, list):
        return f"the list {json.dumps(value)[:60]}"
    return f"the number {value}"
