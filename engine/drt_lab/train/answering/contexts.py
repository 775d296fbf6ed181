"""Titles and sections of training documents, which asking finds in the library.

Training documents are text alone, so their headings are told as readers of Markdown and of plain
text tell them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from drt_engine.config.model import ReaderConfig
from drt_engine.documents.base import Notes
from drt_engine.documents.readers.markdown import sections as markdown_sections
from drt_engine.documents.readers.text_headings import TextSections
from drt_engine.model.reader import context_ids
from drt_engine.text.tokenizer import Encoding, Tokenizer
from drt_lab.data.schema import QADocument

_MARKDOWN = re.compile(r"^#{1,6} \S", re.MULTILINE)
_FEWEST_HEADINGS = 2  # of Markdown, in a text that is read as such


def section_starts(text: str) -> list[tuple[int, str]]:
    """Return where each section of ``text`` starts, and its path; empty before the first one."""
    lines = text.splitlines(keepends=True)
    if len(_MARKDOWN.findall(text)) >= _FEWEST_HEADINGS:
        blocks = markdown_sections(lines)
    else:
        blocks = TextSections(Notes()).places(lines)
    starts, at = [(0, "")], 0
    for block in blocks:
        section = getattr(block, "section", None) or ""
        if section != starts[-1][1]:
            starts.append((at, section))
        at += len(block.text)
    return starts


def chunk_contexts(
    document: QADocument,
    encoding: Encoding,
    tokenizer: Tokenizer,
    config: ReaderConfig,
    *,
    chunk: int,
) -> list[list[int]]:
    """Return for each chunk of a document the token ids that stand in front of its passage.

    A chunk is in the section where its first character is, as in a library.
    """
    starts = section_starts(document.text)
    texts = [document.title, *(section for _, section in starts)]
    title, *paths = (encoded.ids for encoded in tokenizer.encode_batch(texts))
    contexts = [context_ids(config, title, path) for path in paths]
    return [contexts[number] for number in _sections_of(starts, encoding.starts[::chunk])]


def _sections_of(starts: Sequence[tuple[int, str]], places: Sequence[int]) -> list[int]:
    """Return the number of the section that each place is in."""
    firsts = [start for start, _ in starts]
    return [bisect_right(firsts, place) - 1 for place in places]
