"""The store's data classes: what goes in, what comes out.

Knows nothing of files or SQL, and imports torch for type checking only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from drt_engine.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

Place = tuple[int, int | None, str | None]  # start, page, section
Origins = tuple[int, str]  # start, anchors from there on
Blocks = tuple[int, str]  # start, nodes of the block tree from there on

Encoding = Literal["int8", "bf16"]
ENCODINGS: tuple[Encoding, ...] = ("int8", "bf16")
MAX_CHUNKS = 65_536  # of one segment file
LAYOUT_LIMITS = {
    "chunk_tokens": 65_536,
    "kv_heads": 1_024,
    "head_size": 65_536,
    "landmark_size": 65_536,
}


@dataclass(frozen=True)
class RecordLayout:
    """The shape of one chunk's record; the same for every chunk of a library."""

    chunk_tokens: int
    kv_heads: int
    head_size: int
    landmark_size: int
    encoding: Encoding = "int8"

    def __post_init__(self) -> None:
        for name, limit in LAYOUT_LIMITS.items():
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= limit:
                raise ConfigError(f"record layout: {name} is {value!r}, expected 1 to {limit}")
        if self.encoding not in ENCODINGS:
            raise ConfigError(
                f"record layout: encoding is {self.encoding!r}, expected one of {ENCODINGS}"
            )


@dataclass(frozen=True)
class ChunkBatch:
    """The numbers of C chunks; tokens are left-aligned, slots from ``lengths`` on are zero."""

    ids: Tensor  # [C, S] int32
    starts: Tensor  # [C, S] int32, characters from the start of the chunk's text
    ends: Tensor  # [C, S] int32
    lengths: Tensor  # [C] int32
    keys: Tensor  # [C, S, Hk, D] any float on writing, float32 on reading
    values: Tensor  # [C, S, Hk, D]
    landmarks: Tensor  # [C, E] any float on writing, float32 on reading; stored as fp16


@dataclass(frozen=True)
class TokenBatch:
    """The tokens of C chunks; slots from ``lengths`` on are zero."""

    ids: Tensor  # [C, S] int32
    starts: Tensor  # [C, S] int32, characters from the start of the chunk's text
    ends: Tensor  # [C, S] int32
    lengths: Tensor  # [C] int32


@dataclass(frozen=True)
class ChunkText:
    """One chunk's slice of the document's text; page and section are its first token's."""

    start: int
    text: str
    page: int | None = None
    section: str | None = None


class DocumentRow(NamedTuple):
    """A document of the library, or (from ``partial_documents``) one that is still being read."""

    id: str
    title: str
    source: str
    media_type: str
    characters: int
    tokens: int
    chunks: int
    created: str
    author: str = ""  # as the document names them; unknown to libraries before version 5
    date: str = ""
    tags: tuple[str, ...] = ()  # of the user's, in alphabetical order; since version 6


@dataclass(frozen=True)
class ChunkRow:
    """A chunk's text and where it stands."""

    id: int
    document_id: str
    ordinal: int
    start: int
    text: str
    page: int | None
    section: str | None


class SegmentRow(NamedTuple):
    """One committed segment file; ``first_chunk`` and ``first_ordinal`` count up through it."""

    id: int
    document_id: str
    name: str
    first_ordinal: int
    first_chunk: int
    chunks: int
    landmarks_crc: int | None  # None: written before version 2 of the catalogue
    landmark_file: int | None
    landmark_file_row: int | None


class LandmarkFileRow(NamedTuple):
    """One file of many segments' landmarks.

    ``live`` of its ``chunks`` still belong to documents.
    """

    id: int
    name: str
    chunks: int
    live: int
    crc: int


@dataclass(frozen=True)
class SessionRow:
    """A saved session in full."""

    name: str
    transcript: list[dict[str, Any]]
    meta: dict[str, Any]
    state: bytes
    created: str
    updated: str
