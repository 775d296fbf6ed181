"""What a document reader takes and returns: sources of bytes in, blocks of text with places out.

This is the interface for readers of other distributions, too: they import from here and name a
``Format`` in an entry point of the group ``drt.readers``. Knows no format, no model and no library.
"""

from __future__ import annotations

from drt_engine.blocks.nodes import Node
from drt_engine.documents.base.blocks import (
    BLOCK_CHARACTERS,
    Block,
    Origin,
    PassedOver,
    Run,
    regroup,
    runs_between,
    source_span,
)
from drt_engine.documents.base.notes import Notes
from drt_engine.documents.base.reader import OpenDocument, Reader, SuffixOnly
from drt_engine.documents.base.source import Source, printable_path, unreadable
from drt_engine.documents.base.titles import (
    TITLE_CHARACTERS,
    SectionPath,
    date_of,
    one_line,
    reason_of,
    words,
)

__all__ = [
    "BLOCK_CHARACTERS",
    "TITLE_CHARACTERS",
    "Block",
    "Node",
    "Notes",
    "OpenDocument",
    "Origin",
    "PassedOver",
    "Reader",
    "Run",
    "SectionPath",
    "Source",
    "SuffixOnly",
    "date_of",
    "one_line",
    "printable_path",
    "reason_of",
    "regroup",
    "runs_between",
    "source_span",
    "unreadable",
    "words",
]
