"""The encoder of the fixed retriever: another model's landmarks of the same text.

It has its own words, so chunks go through text. Its vectors are remembered by the ids of a chunk,
in memory and, where a folder is given, in a file beside the shards of the corpus.
"""

from __future__ import annotations

import array
import contextlib
import hashlib
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import torch
import torch.nn.functional as F
from torch import Tensor

from drt_engine.files import lock
from drt_engine.model.chunking import insert_landmarks
from drt_engine.model.folder import model_folder
from drt_engine.model.weights import fingerprint, load_model
from drt_engine.text.tokenizer import Tokenizer

_KEY = 16  # bytes of the digest of a chunk's ids
_CHUNKS_AT_ONCE = 64
_MOST_TOKENS = 2  # times a chunk of the encoder; what is longer is cut


class FixedRetriever:
    """A frozen DRT as ``ChunkVectors`` of chunks in the words of another tokenizer.

    Vectors are rounded to fp16, so that a remembered one is the same as a new one.
    """

    def __init__(self, model: str | Path, tokenizer: Tokenizer, *, cache: Path | None = None):
        """Load the encoder by name or folder; ``cache`` is a folder for the vectors.

        Raises ``WeightsError`` where there is no such model.
        """
        folder = model_folder(model)
        self._encoder, self._words = load_model(folder)
        self._encoder.requires_grad_(False)
        self._tokenizer = tokenizer
        name = hashlib.sha256(f"{fingerprint(folder)} {tokenizer.to_json()}".encode()).hexdigest()
        file = None if cache is None else cache / f"{name[:32]}.vectors"
        self._vectors = VectorFile(file, self._encoder.config.width)

    @torch.no_grad()
    def __call__(self, chunks: Tensor, valid: Tensor) -> Tensor:
        """Return the unit vectors [B, C, F] of chunks [B, C, S], on the device of the chunks."""
        with torch.autocast("cpu", enabled=False):
            return self._of(chunks, valid).to(chunks.device)

    def _of(self, chunks: Tensor, valid: Tensor) -> Tensor:
        rows = [
            [token for token, exists in zip(*row, strict=True) if exists]
            for row in zip(chunks.flatten(0, 1).tolist(), valid.flatten(0, 1).tolist(), strict=True)
        ]
        keys = [_digest(row) for row in rows]
        missing = {k: row for k, row in zip(keys, rows, strict=True) if k not in self._vectors}
        items = list(missing.items())
        for at in range(0, len(items), _CHUNKS_AT_ONCE):
            part = items[at : at + _CHUNKS_AT_ONCE]
            self._vectors.add([k for k, _ in part], self._encode([row for _, row in part]))
        vectors = torch.stack([self._vectors[key] for key in keys])
        return vectors.float().view(*chunks.shape[:2], -1)

    def _encode(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Return the vectors [N, F], fp16, of the texts of chunks."""
        encoder, most = self._encoder, _MOST_TOKENS * self._encoder.config.chunk
        texts = [self._tokenizer.decode(row) for row in rows]
        words = [e.ids[:most] for e in self._words.encode_batch(texts)]
        length = max(1, *(len(w) for w in words))
        ids = torch.full((len(words), length), encoder.config.pad_id)
        for number, word_ids in enumerate(words):
            ids[number, : len(word_ids)] = torch.tensor(word_ids, dtype=torch.long)
        lengths = torch.tensor([len(w) for w in words])
        valid = torch.arange(length) < lengths[:, None]
        # Each text is a chunk of its own length, in a window of its own.
        mask = insert_landmarks(valid, True)
        states = encoder.lower_states(insert_landmarks(ids, encoder.config.landmark_id), mask)
        keys = encoder.scorer.keys(encoder.encode(states, mask).landmarks)
        return F.normalize(keys, dim=-1).half()


def _digest(ids: Sequence[int]) -> bytes:
    return hashlib.blake2b(array.array("I", ids).tobytes(), digest_size=_KEY).digest()


class VectorFile:
    """fp16 vectors by key, in memory and appended to a file of records (key, vector).

    A record that a crash cut is dropped. Where another process writes the file, what is added here
    stays in memory.
    """

    def __init__(self, path: Path | None, size: int) -> None:
        self._vectors: dict[bytes, Tensor] = {}
        self._record = _KEY + 2 * size
        self._file: IO[bytes] | None = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = self._file = path.open("a+b")
            weakref.finalize(self, file.close)
            self._read(file)

    def __contains__(self, key: bytes) -> bool:
        return key in self._vectors

    def __getitem__(self, key: bytes) -> Tensor:
        return self._vectors[key]

    def add(self, keys: Sequence[bytes], vectors: Tensor) -> None:
        """Keep ``vectors`` [N, F], fp16."""
        vectors = vectors.contiguous()
        self._vectors.update(zip(keys, vectors, strict=True))
        if self._file is not None:
            rows = vectors.view(torch.uint8).tolist()
            records = (key + bytes(row) for key, row in zip(keys, rows, strict=True))
            self._file.write(b"".join(records))
            self._file.flush()

    def _read(self, file: IO[bytes]) -> None:
        if not lock(file):
            self._file = None
        file.seek(0)
        data = file.read()
        whole = len(data) // self._record * self._record
        if self._file is not None and whole < len(data):
            with contextlib.suppress(OSError):
                file.truncate(whole)
        for at in range(0, whole, self._record):
            row = bytearray(data[at + _KEY : at + self._record])
            self._vectors[data[at : at + _KEY]] = torch.frombuffer(row, dtype=torch.float16)
