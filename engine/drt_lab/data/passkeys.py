"""Passkeys in token space: a statement hidden in random symbols, and a question at the end.

The single needle and the two-hop needle of the paper (arXiv 2410.01651, section 4.2, appendix D)
without words: markers and symbols are token ids. A context is made chunk by chunk from its seed, so
that one of many million tokens needs no memory. The question is the last thing in its chunk: the
next landmark, which retrieves for the answer, has read all of it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy
import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_engine.text.tokenizer import SPECIAL_TOKENS, Tokenizer

UNKNOWN, KEY, QUESTION, LINK = range(len(SPECIAL_TOKENS), len(SPECIAL_TOKENS) + 4)
FIRST_SYMBOL = LINK + 1
_MARKERS = ("<unknown>", "<key>", "<question>", "<link>")
_GAP = 1  # chunks of filler at least between the last statement and the question
_BLOCK = 1024  # chunks whose filler is drawn together


@dataclass(frozen=True)
class PasskeyLayout:
    """How contexts are laid out: ``vocab`` token ids, ``chunk`` tokens a chunk.

    A passkey has ``answer`` symbols. With ``noise`` other passkeys, or two hops, each passkey has a
    name behind it and the question asks for one, repeated to fill its chunk; with two hops the
    question has the name of a link that leads to the passkey's name, and is asked in two chunks, as
    each retrieves once. Statements begin at ``offset`` in their chunks, or anywhere. With ``links``
    a single hop is the first of two: what is asked for are links, not passkeys. ``asks``: question
    chunks at least, so that a single hop may be asked twice, too.
    """

    vocab: int
    chunk: int
    answer: int = 3
    hops: int = 1
    noise: int = 0
    offset: int | None = None
    links: bool = False
    asks: int = 1

    def __post_init__(self) -> None:
        if self.hops not in (1, 2):
            raise ConfigError(f"passkey hops is {self.hops}, expected 1 or 2")
        if self.links and self.hops == 2:
            raise ConfigError("passkey links are asked for over one hop, and hops is 2")
        if self.answer < 1 or self.noise < 0:
            raise ConfigError(
                f"passkey answer is {self.answer} and noise {self.noise}, expected at least 1 and 0"
            )
        longest = self.answer + 1 + self.is_named
        if self.chunk < max(longest, 3):
            raise ConfigError(
                f"a chunk of {self.chunk} tokens has no room for a passkey of {longest}; "
                "expected a larger model.chunk or a shorter passkey.answer"
            )
        if self.offset is not None and not 0 <= self.offset <= self.chunk - longest:
            raise ConfigError(
                f"passkey.offset is {self.offset}, expected 0 to {self.chunk - longest}: a chunk "
                f"has {self.chunk} tokens, and a passkey takes {longest}"
            )
        if self.num_symbols < 2 * (self.noise + 1) + 1:
            raise ConfigError(
                f"{self.vocab} token ids leave {self.num_symbols} symbols, expected at least "
                f"{2 * (self.noise + 1) + 1}"
            )

    @property
    def is_named(self) -> bool:
        """Whether passkeys have names."""
        return self.hops == 2 or self.noise > 0

    @property
    def marker(self) -> int:
        """What comes before the answer."""
        return LINK if self.links else KEY

    @property
    def num_symbols(self) -> int:
        """How many token ids are neither special nor markers."""
        return self.vocab - FIRST_SYMBOL

    @property
    def question_chunks(self) -> int:
        """Chunks that end with the question, one or more for each hop; before the answer."""
        return max(self.hops, self.asks)

    @property
    def fewest_chunks(self) -> int:
        """Chunks of the shortest context that holds every statement in a chunk of its own."""
        return self.hops * (self.noise + 1) + _GAP + self.question_chunks + 1


class PasskeyContext:
    """One context of ``chunks`` chunks; its last chunk begins with the key marker and the answer.

    The passkey is at ``depth`` (0 start, 1 end), and other statements are anywhere; without a
    depth, all are anywhere. ``seed`` draws the statements, ``filler`` the symbols between them:
    contexts of the same filler differ in few chunks.
    """

    def __init__(
        self,
        layout: PasskeyLayout,
        chunks: int,
        *,
        seed: int,
        filler: int | None = None,
        depth: float | None = None,
    ) -> None:
        if chunks < layout.fewest_chunks:
            raise ConfigError(
                f"a passkey context has {chunks} chunks of {layout.chunk} tokens, expected at "
                f"least {layout.fewest_chunks}"
            )
        self.layout, self.chunks = layout, chunks
        self._filler_seed = seed if filler is None else filler
        rng = random.Random(seed)
        self.answer = self._symbols(rng, layout.answer)
        self._planted = self._plan(rng, depth)

    @property
    def planted_chunks(self) -> list[int]:
        """The chunks that hold more than filler, in order."""
        return sorted(self._planted)

    def _symbols(self, rng: random.Random, count: int) -> tuple[int, ...]:
        return tuple(rng.randrange(FIRST_SYMBOL, self.layout.vocab) for _ in range(count))

    def _offset(self, rng: random.Random, length: int) -> int:
        drawn = rng.randrange(self.layout.chunk - length + 1)
        return drawn if self.layout.offset is None else self.layout.offset

    def _plan(
        self, rng: random.Random, depth: float | None
    ) -> dict[int, tuple[int, tuple[int, ...]]]:
        """Return what is written over the filler: by chunk, its offset and its tokens."""
        layout = self.layout
        names = rng.sample(range(FIRST_SYMBOL, layout.vocab), 2 * (layout.noise + 1))
        statements: list[tuple[int, ...]] = []
        for number in range(layout.noise + 1):
            value = self.answer if not number else self._symbols(rng, layout.answer)
            name = (names[2 * number],) if layout.is_named else ()
            # The name comes last, so that passkeys with and without one are copied alike.
            statements.append((layout.marker, *value, *name))
            if layout.hops == 2:
                statements.append((LINK, *name, names[2 * number + 1]))
        # Every statement in a chunk of its own; the first is the passkey that is asked for.
        room = self.chunks - 1 - layout.question_chunks - _GAP
        places = rng.sample(range(room), len(statements))
        if depth is not None:
            chosen = round(depth * (room - 1))
            if chosen in places:
                places[places.index(chosen)] = places[0]
            places[0] = chosen
        planted = {
            place: (self._offset(rng, len(tokens)), tokens)
            for place, tokens in zip(places, statements, strict=True)
        }
        asked: tuple[int, ...] = (QUESTION,)
        if layout.is_named:
            # A lower stack of one layer does not know where in the window a name is: filler beside
            # it would blur what the landmark asks for. The paper pads the question's chunk.
            asked = (QUESTION, *[names[layout.hops - 1]] * (layout.chunk - 1))
        for back in range(layout.question_chunks):
            planted[self.chunks - 2 - back] = (layout.chunk - len(asked), asked)
        planted[self.chunks - 1] = (0, (layout.marker, *self.answer))
        return planted

    def tokens(self, start: int, stop: int) -> Tensor:
        """Return the token ids of chunks ``start`` to ``stop``, [stop - start, S]."""
        blocks = range(start // _BLOCK, -(-stop // _BLOCK))
        filler = numpy.concatenate([self._filler(block) for block in blocks])
        first = start - blocks.start * _BLOCK
        ids = torch.from_numpy(filler[first : first + stop - start])
        for chunk, (offset, tokens) in self._planted.items():
            if start <= chunk < stop:
                ids[chunk - start, offset : offset + len(tokens)] = torch.tensor(tokens)
        return ids

    def _filler(self, block: int) -> numpy.ndarray[tuple[int, int], numpy.dtype[numpy.int64]]:
        """Draw the random symbols of one block; a short context has a short only block."""
        rng = numpy.random.default_rng([self._filler_seed, block])
        shape = (min(_BLOCK, self.chunks - block * _BLOCK), self.layout.chunk)
        return rng.integers(FIRST_SYMBOL, self.layout.vocab, shape, dtype=numpy.int64)


def symbol_tokenizer(symbols: int) -> Tokenizer:
    """Return a tokenizer of ``symbols`` token ids: special tokens, markers, and numbered symbols.

    Raises ``ConfigError`` for too few.
    """
    if symbols < FIRST_SYMBOL + 2:
        raise ConfigError(f"passkey.symbols is {symbols}, expected at least {FIRST_SYMBOL + 2}")
    names = [*SPECIAL_TOKENS, *_MARKERS, *(f"s{i}" for i in range(FIRST_SYMBOL, symbols))]
    vocabulary = {name: number for number, name in enumerate(names)}
    inner = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token=_MARKERS[0]))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.decoder = decoders.Fuse()
    data = json.loads(inner.to_str()) | {"added_tokens": []}
    return Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(data)))


def stack_contexts(contexts: Sequence[PasskeyContext]) -> Tensor:
    """Return the token ids of contexts of equal length, [B, C, S]."""
    return torch.stack([context.tokens(0, context.chunks) for context in contexts])
