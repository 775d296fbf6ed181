"""The sentences of a part of a document with their places, and which of them are prose.

No prose are headings, lines of contents, table rows, code, header fields, fragments, and the
licences and notices that publishers put around a text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from drt_engine.documents.structure.block_kinds import BlockKinds
from drt_engine.documents.structure.lines import BlockKind
from drt_engine.summary.sentences import wording
from drt_engine.text.sentences import is_heading, sentence_spans

PROSE, FRAGMENT, OTHER, LABEL = 2, 1, 0, -1  # grades
_SHORTEST, _LONGEST = 6, 70  # words of a sentence in a summary
_FEWEST_FRAGMENTS = 4  # one fragment in so many sentences, or all are taken
_WHOLE: frozenset[BlockKind] = frozenset(("paragraph", "item", "field"))
_LABELS: frozenset[BlockKind] = frozenset(("heading", "contents", "running head"))


@dataclass(frozen=True, slots=True)
class PlacedSentence:
    """A sentence with its characters ``start:end`` in the document and what is around it.

    ``grade`` is ``PROSE``, ``FRAGMENT`` (no whole sentence, or a quotation), ``LABEL`` (a heading,
    a header field, a line of contents) or ``OTHER``.
    ``is_notice`` says that its paragraph is of a licence, a copyright or publisher's notice.
    ``is_item`` says that it is an item of a list; its bullet or number is not part of it.
    ``previous`` is the end of the sentence before it in its paragraph.
    """

    start: int
    end: int
    text: str
    section: str
    grade: int
    is_item: bool = False
    is_notice: bool = False
    previous: int | None = None
    opens_section: bool = False


def placed_sentences(
    text: str, base: int, kinds: BlockKinds, sections: Sequence[tuple[int, str]]
) -> list[PlacedSentence]:
    """Return the sentences of ``text``, which begins at the document's character ``base``.

    ``sections`` are (start, name) in order, the last part of the name being the section's own.
    """
    lines = kinds.lines(base, base + len(text))
    out: list[PlacedSentence] = []
    section, names = "", iter([*sections, (base + len(text) + 1, "")])
    next_start, next_name = next(names)
    line_number, opens_section, last_end = 0, True, base
    for start, end in sentence_spans(text):
        sentence = text[start:end]
        start, end = start + base, end + base
        while start >= next_start:
            section, opens_section = next_name, True
            next_start, next_name = next(names)
        if is_heading(sentence):
            section, opens_section = sentence.lstrip("# "), True
        while line_number < len(lines) - 1 and lines[line_number][0].end <= start:
            line_number += 1
        kind = lines[line_number][1]
        item_mark = wording.item_mark_length(sentence)
        mark = item_mark or wording.opening_mark_length(sentence)
        between = text[last_end - base : start - base]
        opens_paragraph = "\n\n" in between or bool(mark) or not out or opens_section
        placed = PlacedSentence(
            start=start + mark,
            end=end,
            text=sentence[mark:],
            section=section,
            grade=_grade(sentence[mark:], kind, section),
            is_item=kind == "item" or item_mark > 0,
            previous=None if opens_paragraph else last_end,
            opens_section=opens_section,
        )
        out.append(placed)
        last_end = end
        if placed.grade == PROSE:
            opens_section = False
    return list(_with_notices_marked(out))


def section_names(
    places: Sequence[tuple[int, int | None, str | None]],
) -> list[tuple[int, str]]:
    """Return where sections begin, with the last part of their path, from a document's places."""
    return [(start, (section or "").rsplit(" > ", 1)[-1]) for start, _, section in places]


def quotable(sentences: Sequence[PlacedSentence]) -> list[int]:
    """Return the numbers of the sentences of a document that a summary may quote.

    They are prose, without notices unless the document is one. A document of tables, headings or
    scraps is summarised by what it has.
    """
    counts = Counter(sentence.grade for sentence in sentences)
    if not counts[PROSE] and _FEWEST_FRAGMENTS * counts[FRAGMENT] < len(sentences):
        scraps = [number for number, s in enumerate(sentences) if s.grade != LABEL]
        return scraps or list(range(len(sentences)))
    best = PROSE if counts[PROSE] else FRAGMENT
    numbers = [number for number, s in enumerate(sentences) if s.grade == best]
    own_text = [number for number in numbers if not sentences[number].is_notice]
    return own_text if 2 * len(own_text) > len(numbers) else numbers


def _grade(sentence: str, kind: BlockKind, section: str) -> int:
    length = len(sentence.split())
    if kind in _LABELS or is_heading(sentence):
        return LABEL
    if kind not in _WHOLE and kind != "quote":
        return OTHER
    if kind == "field" and not wording.is_whole(sentence):
        return LABEL
    if length < _SHORTEST or wording.is_code(sentence):
        return OTHER
    if (
        kind == "quote"
        or length > _LONGEST
        or not wording.is_whole(sentence)
        or (section and wording.is_back_matter(section))
    ):
        return FRAGMENT
    return PROSE


def _with_notices_marked(sentences: Sequence[PlacedSentence]) -> Iterator[PlacedSentence]:
    """Yield the sentences, those of paragraphs with the words of a notice marked as such."""
    paragraph: list[PlacedSentence] = []
    is_notice = False
    for sentence in [*sentences, None]:
        if sentence is not None and (sentence.previous is not None or not paragraph):
            paragraph.append(sentence)
            continue
        is_notice = any(wording.is_notice(member.text) for member in paragraph) or (
            is_notice and paragraph[0].is_item  # the conditions of a licence
        )
        for member in paragraph:
            yield replace(member, is_notice=True) if is_notice else member
        paragraph = [] if sentence is None else [sentence]
