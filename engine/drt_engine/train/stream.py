"""Packed token streams over corpus files, with a state that resumes at the very next token.

Documents follow one another in file order, each closed by the end token; the stream starts over
when the files end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from drt_engine.errors import ConfigError
from drt_engine.tokenizer import Tokenizer
from drt_engine.train.questions import read_lines


@dataclass(frozen=True)
class StreamState:
    """Next token: file number, line in it, token of that line's document, and how often the files
    have ended.
    """

    file: int = 0
    line: int = 0
    token: int = 0
    epoch: int = 0


class TokenStream:
    """Takes fixed numbers of tokens from corpus files."""

    def __init__(
        self, files: Sequence[Path], tokenizer: Tokenizer, state: StreamState | None = None
    ) -> None:
        if not files:
            raise ConfigError("stream.corpus names no files")
        self._files, self._tokenizer = list(files), tokenizer
        self._state = state or StreamState()
        self._documents = self._read()

    @property
    def state(self) -> StreamState:
        """What a new stream needs to continue with the next token."""
        return self._state

    def take(self, count: int) -> list[int]:
        """Return the next ``count`` token ids."""
        out: list[int] = []
        while len(out) < count:
            ids, here = self._current()
            piece = ids[here.token : here.token + count - len(out)]
            out += piece
            token = here.token + len(piece)
            if token < len(ids):
                self._state = StreamState(here.file, here.line, token, here.epoch)
            else:
                self._state = StreamState(here.file, here.line + 1, 0, here.epoch)
                self._document: tuple[list[int], StreamState] | None = None
        return out

    _document: tuple[list[int], StreamState] | None = None

    def _current(self) -> tuple[list[int], StreamState]:
        if self._document is None:
            ids, place = next(self._documents)
            token = (
                self._state.token
                if (place.file, place.line) == (self._state.file, self._state.line)
                else 0
            )
            self._state = StreamState(place.file, place.line, token, place.epoch)
            self._document = (ids, self._state)
        return self._document[0], self._state

    def _read(self) -> Iterator[tuple[list[int], StreamState]]:
        first, epoch = self._state, self._state.epoch
        while True:
            empty = True
            for file in range(first.file, len(self._files)):
                for line, row in enumerate(read_lines(self._files[file])):
                    if file == first.file and line < first.line:
                        continue
                    empty = False
                    ids = self._tokenizer.encode(str(row["text"])).ids
                    yield [*ids, self._tokenizer.end_id], StreamState(file, line, 0, epoch)
            if empty and first == StreamState():
                raise ConfigError("the corpus files hold no documents")
            first, epoch = StreamState(), epoch + 1
