"""Document readers: any source of bytes to blocks of text with their pages and sections.

Knows formats and encodings; knows nothing of tokens, models or libraries.
"""

from __future__ import annotations

from drt_engine.documents.base import Block, OpenDocument, Reader, Source
from drt_engine.documents.formats import Format, all_formats, plugins
from drt_engine.documents.inputs.paths import (
    PathExpansion,
    expand_files,
    expand_paths,
    holds_library,
    is_archive,
)
from drt_engine.documents.registry import find_format, open_document

__all__ = [
    "Block",
    "Format",
    "OpenDocument",
    "PathExpansion",
    "Reader",
    "Source",
    "all_formats",
    "expand_files",
    "expand_paths",
    "find_format",
    "holds_library",
    "is_archive",
    "open_document",
    "plugins",
]
