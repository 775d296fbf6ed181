"""A conversation over a library: its turns, the decoder's window and its own chunks.

Saved so that it continues with the same numbers as one that never stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from drt_engine.answer.result import AnswerResult
from drt_engine.errors import SessionError
from drt_engine.generate.decode import Decoder
from drt_engine.model.gca_layer import ChunkMemory
from drt_engine.model.saved import expect_mask, expect_names, expect_numbers, read_tensors
from drt_engine.model.weights import load_vectors
from drt_engine.results import Citation
from drt_engine.retrieval.sources import Source, StreamSource, join_memories
from drt_engine.runtime import Runtime
from drt_engine.store import Store
from drt_engine.store.federation import FederatedStore
from drt_engine.store.turns import expect_turns

_LONGEST_NAME = 200
SUMMARY = "summary"  # the mode of a turn that is a summary, which no decoder wrote
MOST_UNDONE = 5  # turns: each takes the decoder's window in memory
VERSION = 3  # of what is stored; 1 had no version nor a writer's text, 2 not what the writer read


@dataclass
class SessionState:
    """One conversation; ``turns`` are plain data, ``own_chunks`` the memory of its chunks."""

    runtime: Runtime
    store: Store | FederatedStore
    name: str
    turns: list[dict[str, Any]] = field(default_factory=list)
    own_chunks: list[ChunkMemory] = field(default_factory=list)
    _state: dict[str, Tensor] | None = None
    _stored_turns: int = 0
    _before: list[tuple[list[ChunkMemory], dict[str, Tensor] | None]] = field(default_factory=list)

    @classmethod
    def new(cls, runtime: Runtime, store: Store | FederatedStore, name: str) -> SessionState:
        """Return an empty conversation; raises ``SessionError`` for an unusable name.

        An empty name makes one that is not to be kept: it cannot be saved.
        """
        if name and (not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME):
            raise SessionError(
                f"{name[:_LONGEST_NAME]!r} cannot name a session; "
                f"use 1 to {_LONGEST_NAME} printable characters"
            )
        return cls(runtime, store, name)

    @classmethod
    def restore(cls, runtime: Runtime, store: Store | FederatedStore, name: str) -> SessionState:
        """Return a saved conversation as it was; raises ``NotFound`` or ``SessionError``."""
        row = store.load_session(name)
        version = row.meta.get("version", 1)
        if version not in range(1, VERSION + 1):
            raise SessionError(
                f"session {name!r} is of version {version!r:.20}, expected 1 to {VERSION}: a newer"
                " drt stored it; use that one, or start a new session"
            )
        made_with, this = row.meta.get("fingerprint"), model_fingerprint(runtime)
        if made_with != this:
            raise SessionError(
                f"session {name!r} was made with another model ({row.meta.get('model')}, "
                f"{made_with}), this one is {this}; start a new session or use its model"
            )
        session = cls(runtime, store, name, list(row.transcript), _stored_turns=len(row.transcript))
        try:
            expect_turns(row.transcript)
            session._take(read_tensors(row.state))
        except ValueError as error:
            raise SessionError(
                f"session {name!r} is damaged ({error}); delete it or start another"
            ) from error
        return session

    def _take(self, tensors: dict[str, Tensor]) -> None:
        """Take over saved tensors.

        Raises ``ValueError`` when they are not this model's, or not of these turns.
        """
        questions = sum(turn["mode"] != SUMMARY for turn in self.turns)
        if not tensors and not questions:
            return  # saved before the first question
        state, own_tensors = (
            {k.removeprefix(part): v for k, v in tensors.items() if k.startswith(part)}
            for part in ("decoder.", "own.")
        )
        expect_names(tensors, [f"decoder.{k}" for k in state] + [f"own.{k}" for k in own_tensors])
        decoder = Decoder(self.runtime.model, StreamSource(1), dtype=self.runtime.dtype)
        decoder.load(state)
        self.own_chunks = _unpack(own_tensors, self.runtime)
        # A turn is a question's chunks and its answer's, each closed by a landmark.
        tokens = sum(int(chunk.mask.sum()) + 1 for chunk in self.own_chunks)
        least = 2 * questions
        if "open" in state or decoder.position != tokens or len(self.own_chunks) < least:
            raise ValueError(
                f"it has read {decoder.position} tokens, expected the {tokens} of"
                f" {len(self.own_chunks)} closed chunks, and {least} chunks or more for"
                f" {questions} questions"
            )
        self._state = state

    def decoder(self, source: Source) -> Decoder:
        """Return a decoder that continues this conversation and retrieves from ``source``.

        Raises ``SessionError`` when a document that it quotes was removed: what the decoder read
        of it is still in its window, and would answer for a library that does not say so.
        """
        self._expect_documents()
        decoder = Decoder(self.runtime.model, source, dtype=self.runtime.dtype)
        if self._state is not None:
            decoder.load(self._state)
        return decoder

    def _expect_documents(self) -> None:
        quoted = {c["document"]: c for turn in self.turns for c in turn["citations"]}
        for document_id, citation in quoted.items():
            if self.store.document_by_id(document_id) is None and not self._was_replaced(citation):
                raise SessionError(
                    f"this conversation quotes {citation['title']!r}, which was removed from the"
                    " library; read it again, or begin another conversation"
                )

    def _was_replaced(self, citation: dict[str, Any]) -> bool:
        """Return whether the library has a newer version of a cited document."""
        return self.store.document_at(citation["source"]) is not None

    def record(
        self,
        question: str,
        answer: AnswerResult,
        *,
        decoder: Decoder,
        own_chunks: list[ChunkMemory],
    ) -> None:
        """Add a turn: the decoder reads the answer and ends its chunk; the next turn starts one.

        ``own_chunks`` is the list that the decoder adds its chunks to.
        """
        text = answer.text if answer.mode == "quote" else ""  # free text was fed as it was written
        ids = self.runtime.tokenizer.encode(text).ids
        if ids:
            decoder.feed(ids)
        decoder.close(retrieve=False)
        self._remember()
        self.own_chunks = list(own_chunks)
        self._state = {k: v.clone() for k, v in decoder.state().items()}
        self.turns.append(
            {
                "question": question,
                "answer": answer.text,
                "found": answer.found,
                "state": answer.state,
                "confidence": answer.confidence,
                "quote_probability": answer.quote_probability,
                "mode": answer.mode,
                "citations": [_plain(c) for c in answer.citations],
            }
        )

    def record_summary(self, request: str, text: str, sentences: Sequence[Citation]) -> None:
        """Add a turn that holds a summary; the decoder reads nothing of it."""
        self._remember()
        self.turns.append(
            {
                "question": request,
                "answer": text,
                "found": True,
                "state": "answer",
                "confidence": 1.0,
                "mode": SUMMARY,
                "citations": [_plain(sentence) for sentence in sentences],
            }
        )

    def _remember(self) -> None:
        """Keep what the conversation is before its next turn, for ``undo``."""
        self._before = [*self._before, (self.own_chunks, self._state)][-MOST_UNDONE:]

    def undo(self) -> dict[str, Any]:
        """Take the last turn back and return it; the conversation is bit by bit what it was before.

        Raises ``SessionError`` for a turn that was not added since the conversation was opened.
        """
        if not self._before:
            raise SessionError(
                f"no question can be taken back: only the last {MOST_UNDONE} that were asked since"
                " the conversation was opened can"
            )
        self.own_chunks, self._state = self._before.pop()
        return self.turns.pop()

    def record_writing(self, number: int, writing: dict[str, Any]) -> None:
        """Add what a writer wrote to turn ``number``, from 1; the decoder reads nothing of it."""
        self.turns[number - 1]["writing"] = writing

    def save(self) -> None:
        """Write the conversation to the library, replacing its older state.

        Raises ``SessionError`` where another program has stored turns of it meanwhile.
        """
        if not self.name:
            raise SessionError("this conversation has no name; give it one to save it")
        tensors = {f"decoder.{k}": v.contiguous().clone() for k, v in (self._state or {}).items()}
        tensors |= _pack(self.own_chunks)
        meta = {
            "fingerprint": model_fingerprint(self.runtime),
            "model": self.runtime.name,
            "version": VERSION,
        }
        self.store.save_session(
            self.name,
            transcript=self.turns,
            meta=meta,
            state=save(tensors),
            stored_turns=self._stored_turns,
        )
        self._stored_turns = len(self.turns)


def model_fingerprint(runtime: Runtime) -> str:
    """Return a short hash of a model, including the layers that only answer.

    A library's fingerprint leaves those out. Only the one-dimensional weights are hashed: they are
    small, and any training changes them. They are taken from the file, so that the
    hash is the same in every compute type.
    """
    vectors = {name: t.float() for name, t in load_vectors(runtime.folder).items()}
    return hashlib.sha256(runtime.fingerprint.encode() + save(vectors)).hexdigest()[:16]


def _plain(citation: Citation) -> dict[str, Any]:
    """Return a citation as a turn keeps it: its library may be elsewhere next time."""
    return {name: value for name, value in vars(citation).items() if name != "library"}


def _pack(chunks: Sequence[ChunkMemory]) -> dict[str, Tensor]:
    if not chunks:
        return {}
    joined = join_memories(chunks)
    return {f"own.{k}": v.contiguous() for k, v in vars(joined).items()}


def _unpack(tensors: dict[str, Tensor], runtime: Runtime) -> list[ChunkMemory]:
    """Return a memory for each chunk; raises ``ValueError`` where tensors do not fit the model."""
    names = [field.name for field in fields(ChunkMemory)]
    expect_names((f"own.{name}" for name in tensors), (f"own.{name}" for name in names))
    config, mask = runtime.config, tensors["mask"]
    count, size = mask.shape if mask.dim() == 2 else (0, 0)
    if not (count and 1 <= size <= config.chunk):
        raise ValueError(f"own.mask is {list(mask.shape)}, expected chunks of 1 to {config.chunk}")
    expect_mask("own.mask", mask, (count, size))
    lengths = mask.sum(dim=1)
    filled = torch.arange(size) < lengths[:, None]  # from the left, and no further than the longest
    if not torch.equal(mask, filled) or int(lengths.min()) < 1 or int(lengths.max()) < size:
        raise ValueError("own.mask has gaps, empty chunks or unused places")
    memory = (count, size, config.kv_heads, config.head_size)
    expect_numbers("own.keys", tensors["keys"], memory)
    expect_numbers("own.values", tensors["values"], memory)
    expect_numbers("own.landmarks", tensors["landmarks"], (count, config.width))
    parts = [tensors[name].to(runtime.device) for name in names]
    return [ChunkMemory(*(p[i : i + 1] for p in parts)) for i in range(count)]
