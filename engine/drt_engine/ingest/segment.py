"""Blocks of text to chunks of tokens with exact character offsets, streaming.

Knows no model and no library.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from drt_engine.text.tokenizer import Tokenizer

_PIECE = 32_768  # characters tokenised at a time
_LONGEST = 131_072  # a run without white space is cut here


class TextBlock(Protocol):
    """What a reader yields: text with the page and section it stands in."""

    @property
    def text(self) -> str: ...
    @property
    def page(self) -> int | None: ...
    @property
    def section(self) -> str | None: ...


@dataclass(frozen=True)
class Chunk:
    """Token ids of a chunk and their characters from ``start``; ``text`` runs to the next chunk.

    ``reused`` says that it was tokenised in an earlier reading.
    """

    ids: list[int]
    starts: list[int]
    ends: list[int]
    start: int
    text: str
    reused: bool = False


class Segmenter:
    """Cuts a stream of blocks into chunks whose texts partition the document's text.

    ``places`` collects (start, page, section) wherever they change; ``characters`` and ``tokens``
    are the totals so far.
    """

    def __init__(self, tokenizer: Tokenizer, chunk: int) -> None:
        self._tokenizer, self._chunk = tokenizer, chunk
        self.places: list[tuple[int, int | None, str | None]] = []
        self.characters = 0
        self.tokens = 0
        self._tail = ""  # read, not yet tokenised
        self._tail_start = 0
        self._text = ""  # text of the tokens that wait for their chunk
        self._text_start = 0
        self._waiting: list[tuple[int, int, int]] = []  # id, start, end in the document

    def chunks(
        self, blocks: Iterable[TextBlock], earlier_chunks: Iterable[Chunk] = ()
    ) -> Iterator[Chunk]:
        """Yield the chunks of a document; a document without tokens yields none.

        ``earlier_chunks`` are those of a text that may begin in the same way: as far as it does,
        they are yielded as they are, and nothing is tokenised.
        """
        blocks = iter(blocks)
        yield from self._take_over(earlier_chunks, blocks)
        while self._arrive(blocks):
            while len(self._tail) >= _PIECE:
                cut = safe_cut(self._tail)
                if cut is None:
                    break
                self._tokenise(cut)
                yield from self._complete(last=False)
        self._tokenise(len(self._tail))
        yield from self._complete(last=True)

    def _arrive(self, blocks: Iterator[TextBlock]) -> bool:
        """Add the next block to the tail, if there is one."""
        block = next(blocks, None)
        if block is None:
            return False
        self._note_place(block)
        self.characters += len(block.text)
        self._tail += block.text
        return True

    def _take_over(
        self, earlier_chunks: Iterable[Chunk], blocks: Iterator[TextBlock]
    ) -> Iterator[Chunk]:
        """Yield known chunks as long as the text holds theirs, then stand where tokenising goes on.

        That is the last border of tokens in the text that both have: a chunk is held back until the
        next border is found after it, as its last tokens may go on in the text that differs.
        """
        waiting_chunks: list[Chunk] = []  # from the chunk on in which the last border is
        border = at = 0  # places in the tail
        for chunk in earlier_chunks:
            end = at + len(chunk.text)
            while len(self._tail) < end and self._arrive(blocks):
                pass
            if not self._tail.startswith(chunk.text, at):
                break
            # Not its own start: of a character there, the chunk before may have the first tokens.
            place = _last_border(self._tail, at + 1, end)
            if place is not None:
                for waiting_chunk in waiting_chunks:
                    self.tokens += len(waiting_chunk.ids)
                    yield waiting_chunk
                waiting_chunks, border = [], place
            waiting_chunks.append(chunk)
            at = end
            passed = waiting_chunks[0].start - self._tail_start
            if passed > max(_PIECE, len(self._tail) // 2):
                self._tail, self._tail_start = self._tail[passed:], waiting_chunks[0].start
                border, at = border - passed, at - passed
        if waiting_chunks:
            first, stop = waiting_chunks[0], self._tail_start + border
            tokens = zip(first.ids, first.starts, first.ends, strict=True)
            self._waiting = [
                (i, first.start + a, first.start + b)
                for i, a, b in tokens
                if first.start + b <= stop
            ]
            self.tokens += len(self._waiting)
            self._text = self._tail[first.start - self._tail_start : border]
            self._text_start = first.start
        self._tail, self._tail_start = self._tail[border:], self._tail_start + border

    def _note_place(self, block: TextBlock) -> None:
        place = (block.page, block.section)
        if block.text and (not self.places or self.places[-1][1:] != place):
            self.places.append((self.characters, *place))

    def _tokenise(self, cut: int) -> None:
        piece, self._tail = self._tail[:cut], self._tail[cut:]
        encoding = self._tokenizer.encode(piece)
        at = self._tail_start
        self._waiting += [
            (i, at + a, at + b)
            for i, a, b in zip(encoding.ids, encoding.starts, encoding.ends, strict=True)
        ]
        self.tokens += len(encoding)
        self._text += piece
        self._tail_start += cut

    def _complete(self, *, last: bool) -> Iterator[Chunk]:
        """Yield chunks whose successor's first token is known, and at the end all that is left."""
        size = self._chunk
        while len(self._waiting) > size or (last and self._waiting):
            chunk_tokens, self._waiting = self._waiting[:size], self._waiting[size:]
            start = self._text_start
            stop = self._waiting[0][1] if self._waiting else start + len(self._text)
            text, self._text = self._text[: stop - start], self._text[stop - start :]
            self._text_start = stop
            yield Chunk(
                [i for i, _, _ in chunk_tokens],
                [a - start for _, a, _ in chunk_tokens],
                [b - start for _, _, b in chunk_tokens],
                start,
                text,
            )


def _is_space(c: str) -> bool:
    return c in " \t\n\r" or unicodedata.category(c) == "Zs"


def _last_border(text: str, start: int, stop: int) -> int | None:
    """Return the last place in ``text[start:stop]`` where white space begins; never 0."""
    for at in range(stop - 1, max(start, 1) - 1, -1):
        if _is_space(text[at]) and not text[at - 1].isspace():
            return at
    return None


def safe_cut(text: str) -> int | None:
    """Return where ``text`` can be cut without changing its tokens: before its last white space.

    A long run without white space is cut between characters, never before a combining mark.
    ``None`` asks for more.
    """
    end = len(text)
    while end > 0 and text[end - 1].isspace():
        end -= 1
    border = _last_border(text, max(1, end - 4095), end)
    if border is not None:
        return border
    if len(text) < _LONGEST:
        return None
    at = len(text) - 1
    while at > 1 and unicodedata.combining(text[at]):
        at -= 1
    return at
