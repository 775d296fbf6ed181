"""Every limit on what one input may cost: computing, memory, text, files in it. Stated here alone.

An input is what a user names: a file, or an archive with everything in it. Knows no format.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from drt_engine.errors import UnreadableDocument

_MEGABYTE = 1 << 20

# Computing by one reader process: seconds, and seconds more for each megabyte of its file.
CPU_SECONDS, CPU_SECONDS_PER_MEGABYTE, MOST_CPU_SECONDS = 60, 10, 7200
# Computing by all reader processes of one archive, without their start.
ARCHIVE_CPU_SECONDS = 600
MEMORY_BYTES = 1 << 30
# The same where text in pictures is recognised: a page takes some seconds.
RECOGNITION_CPU_SECONDS, RECOGNITION_CPU_SECONDS_PER_MEGABYTE = 300, 1200
RECOGNITION_MEMORY_BYTES = 3 << 30
# Text of one input, and bytes that an archive unpacks to: a start, and more for each byte of it.
CHARACTERS, CHARACTERS_PER_BYTE = 1 << 25, 50
# Seconds without a word of a reader process, besides twice its computing.
SILENCE = 300.0

MEMBERS = 20_000  # files in an archive and in the archives in it
NESTED_ARCHIVES = 3
ZIP_MEMBERS = 100_000  # that a single zip file may list
# Text and markup shrink to a tenth, seldom to a fiftieth; a bomb to a thousandth.
ZIP_RATIO = 200
ZIP_MEMBER_BYTES = 16 << 20  # that a member may have whatever its ratio
PART_BYTES = 64 << 20  # of one part of a document that is held in memory
MESSAGE_BYTES = 64 << 20
NESTED_MESSAGES = 8
HEADER_CHARACTERS = 1 << 20  # of one header of a message


@dataclass(frozen=True)
class Limits:
    """What one child may use; ``silence`` is the longest wait for its next word, in seconds."""

    cpu_seconds: int = CPU_SECONDS
    memory_bytes: int = MEMORY_BYTES
    characters: int = CHARACTERS
    silence: float = SILENCE

    @classmethod
    def for_size(cls, size: int) -> Limits:
        """Return limits for a file of ``size`` bytes, which honest documents keep."""
        cpu = _cpu_seconds(CPU_SECONDS, size)
        return cls(
            cpu_seconds=cpu,
            characters=CHARACTERS + CHARACTERS_PER_BYTE * size,
            silence=SILENCE + 2 * cpu,
        )

    def for_recognition(self, size: int) -> Limits:
        """Return limits for a file of ``size`` bytes whose pages are pictures."""
        more = RECOGNITION_CPU_SECONDS_PER_MEGABYTE * (size // _MEGABYTE + 1)
        return replace(
            self,
            cpu_seconds=min(RECOGNITION_CPU_SECONDS + more, MOST_CPU_SECONDS),
            memory_bytes=RECOGNITION_MEMORY_BYTES,
        )


def _cpu_seconds(start: int, size: int) -> int:
    return min(start + CPU_SECONDS_PER_MEGABYTE * (size // _MEGABYTE + 1), MOST_CPU_SECONDS)


class Budget:
    """What an archive and all that is in it, to any depth, may still cost."""

    def __init__(self, name: str, size: int) -> None:
        """Make the budget of an outermost archive of ``size`` bytes."""
        self._name = name
        self._cpu_seconds = self._all_cpu_seconds = float(_cpu_seconds(ARCHIVE_CPU_SECONDS, size))
        self._characters = CHARACTERS + CHARACTERS_PER_BYTE * size
        self._bytes = self._characters
        self._members = MEMBERS
        self._text_of: dict[str, int] = {}  # a document is read more than once, but has one text
        self._spent_cpu_seconds = 0.0

    @classmethod
    def of_member(cls, name: str, *, cpu_seconds: float, characters: int) -> Budget:
        """Make the budget of the member ``name`` in a process that reads only this one."""
        budget = cls(name, 0)
        budget._cpu_seconds, budget._characters = cpu_seconds, characters
        return budget

    def left(self) -> dict[str, float | int]:
        """Return what ``of_member`` takes; raise UnreadableDocument where nothing is left."""
        self.check()
        return {"cpu_seconds": self._cpu_seconds, "characters": self._characters}

    def take_spent(self) -> dict[str, float | int]:
        """Return what ``spend`` of another process is to count since the last call."""
        spent, self._spent_cpu_seconds = self._spent_cpu_seconds, 0.0
        return {"cpu_seconds": spent, "characters": max(self._text_of.values(), default=0)}

    @property
    def excess(self) -> str:
        """What there was too much of, as a sentence; "" while all is within its limits."""
        if self._bytes < 0:
            return self._sentence("unpacks to far more than an archive of its size should")
        if self._members < 0:
            return self._sentence(f"holds more than {MEMBERS:,} files")
        if self._cpu_seconds <= 0:
            return self._sentence(f"takes more than {self._all_cpu_seconds:.0f} s of computing")
        if self._characters < 0:
            return self._sentence("holds far more text than an archive of its size should")
        return ""

    def _sentence(self, excess: str) -> str:
        return f"{self._name} {excess}; its other files are not read, unpack it if you trust it."

    def check(self) -> None:
        """Raise UnreadableDocument where something is used up."""
        if self.excess:
            raise UnreadableDocument(self.excess)

    def limits(self, limits: Limits) -> Limits:
        """Return ``limits`` cut to what remains of the budget; raise UnreadableDocument at zero."""
        self.check()
        return replace(
            limits,
            cpu_seconds=min(limits.cpu_seconds, int(self._cpu_seconds) + 1),
            characters=min(limits.characters, self._characters),
        )

    def count_member(self) -> None:
        """Count a file; raise UnreadableDocument where it is one too many."""
        self._members -= 1
        self.check()

    def counted(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the ``pieces`` of a file, counted; raise UnreadableDocument where too many."""
        for piece in pieces:
            self._bytes -= len(piece)
            self.check()
            yield piece

    def spend(self, name: str, *, cpu_seconds: float = 0.0, characters: int = 0) -> None:
        """Count the computing and the text of one reading of the document ``name``."""
        self._cpu_seconds -= cpu_seconds
        self._spent_cpu_seconds += cpu_seconds
        longest = self._text_of.get(name, 0)
        if characters > longest:
            self._characters -= characters - longest
            self._text_of[name] = characters
