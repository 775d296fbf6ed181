"""A conversation over a library: its turns, and the decoder's window and own chunks, saved so that it continues alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from drt_engine.errors import SessionError
from drt_engine.generate.decode import Decoder
from drt_engine.model.gca_layer import ChunkMemory
from drt_engine.retrieval.sources import Source, join_memories
from drt_engine.runtime import Runtime
from drt_engine.store import Store

if TYPE_CHECKING:
    from drt_engine.answer.ask import AnswerResult


@dataclass
class SessionState:
    """One conversation; ``turns`` are plain data, ``own`` the chunk memory of what was said."""

    runtime: Runtime
    store: Store
    name: str
    turns: list[dict[str, Any]] = field(default_factory=list)
    own: list[ChunkMemory] = field(default_factory=list)
    _state: dict[str, Tensor] | None = None

    @classmethod
    def new(cls, runtime: Runtime, store: Store, name: str) -> SessionState:
        """Return an empty conversation; raises ``SessionError`` for an unusable name."""
        if not name.strip() or any(ord(c) < 32 for c in name) or len(name) > 200:
            raise SessionError(f"{name!r} cannot name a session; use 1 to 200 printable characters")
        return cls(runtime, store, name)

    @classmethod
    def restore(cls, runtime: Runtime, store: Store, name: str) -> SessionState:
        """Return a saved conversation as it was; raises ``NotFound`` or ``SessionError``."""
        row = store.load_session(name)
        made_with = row.meta.get("fingerprint")
        if made_with != runtime.fingerprint:
            raise SessionError(
                f"session {name!r} was made with another model ({made_with}), this one is "
                f"{runtime.fingerprint}; start a new session or use its model"
            )
        try:
            tensors = load(row.state)
        except SafetensorError as error:
            raise SessionError(f"session {name!r} is damaged: {error}; start a new one") from error
        own = _unpack(tensors, int(row.meta.get("chunks", 0)))
        state = {k.removeprefix("decoder."): v for k, v in tensors.items() if k.startswith("decoder.")}
        return cls(runtime, store, name, list(row.transcript), own, state or None)

    def decoder(self, source: Source) -> Decoder:
        """Return a decoder that continues this conversation, finding chunks through ``source``."""
        decoder = Decoder(self.runtime.model, source, dtype=self.runtime.dtype)
        if self._state is not None:
            decoder.load(self._state)
        return decoder

    def record(
        self, question: str, answer: AnswerResult, decoder: Decoder, own: Sequence[ChunkMemory]
    ) -> None:
        """Add a turn: the decoder reads the answer, and its last chunk is closed, so the next turn starts a chunk."""
        if answer.mode == "quote" and answer.text:
            decoder.feed(self.runtime.tokenizer.encode(answer.text).ids)
        decoder.close(retrieve=False)
        self.own = list(own)
        self._state = {k: v.clone() for k, v in decoder.state().items()}
        self.turns.append(
            {
                "question": question,
                "answer": answer.text,
                "found": answer.found,
                "confidence": answer.confidence,
                "mode": answer.mode,
                "citations": [vars(c) for c in answer.citations],
            }
        )

    def save(self) -> None:
        """Write the conversation to the library, replacing its older state."""
        tensors = {f"decoder.{k}": v.contiguous().clone() for k, v in (self._state or {}).items()}
        tensors |= _pack(self.own)
        meta = {
            "fingerprint": self.runtime.fingerprint,
            "model": self.runtime.name,
            "chunks": len(self.own),
            "documents": [row.id for row in self.store.documents()][:10_000],
        }
        self.store.save_session(self.name, transcript=self.turns, meta=meta, state=save(tensors))


def _pack(own: Sequence[ChunkMemory]) -> dict[str, Tensor]:
    if not own:
        return {}
    joined = join_memories(own)
    return {f"own.{k}": v.contiguous() for k, v in vars(joined).items()}


def _unpack(tensors: dict[str, Tensor], count: int) -> list[ChunkMemory]:
    if not count:
        return []
    parts = [tensors[f"own.{k}"] for k in ("keys", "values", "mask", "landmarks")]
    return [ChunkMemory(*(p[i : i + 1] for p in parts)) for i in range(count)]

