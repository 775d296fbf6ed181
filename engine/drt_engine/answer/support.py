"""Support of written sentences: by the words they share with a sentence of a retrieved passage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from drt_engine.answer.citations import cite
from drt_engine.answer.sentences import sentences_at
from drt_engine.results import Citation
from drt_engine.retrieval.passages import Passage
from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView
from drt_engine.text.sentences import sentence_spans
from drt_engine.text.words import content_words

_ENOUGH = 0.6  # share of a sentence's content words that its source must hold
UNSUPPORTED = "[unsupported]"

Judge = Callable[[str], bool]


class Evidence:
    """Sentences of retrieved passages, and citations of those that supported a written one."""

    def __init__(self, store: LibraryView, document: Callable[[str], DocumentRow]) -> None:
        self._store, self._document = store, document
        self._sources: dict[tuple[str, int], tuple[Passage, int, set[str]]] = {}
        self._of_chunk: dict[int, list[tuple[str, int]]] = {}  # keys of its sentences
        self._chunks: set[int] = set()
        self._cited: dict[tuple[str, int], Citation] = {}

    @property
    def citations(self) -> tuple[Citation, ...]:
        """Citations of the supporting sentences, in the order of what they support."""
        return tuple(self._cited.values())

    def add(self, passages: Sequence[Passage]) -> None:
        """Add the sentences that overlap the chunks of further passages."""
        for passage in passages:
            row = passage.row
            if row.id in self._chunks:
                continue
            self._chunks.add(row.id)
            document = self._document(row.document_id)
            places = sentences_at(self._store, document, row.start, row.start + len(row.text))
            self._of_chunk[row.id] = [(document.id, start) for start, _ in places]
            for start, end in places:
                words = set(content_words(self._store.text(document.id, start, end)))
                self._sources.setdefault((document.id, start), (passage, end, words))

    def supports(self, sentence: str, chunks: Sequence[int] = ()) -> bool:
        """Say whether one source holds most of the sentence's content words, and cite the best.

        Sources in the first of some ``chunks`` that has one are preferred to all others.
        """
        return any(
            self._cites(sentence, keys)
            for keys in (*(self._of_chunk.get(chunk, ()) for chunk in chunks), self._sources)
        )

    def _cites(self, sentence: str, keys: Iterable[tuple[str, int]]) -> bool:
        sentence_words = set(content_words(sentence))
        key = max(keys, key=lambda k: len(sentence_words & self._sources[k][2]), default=None)
        if not sentence_words or key is None:
            return False
        passage, end, words = self._sources[key]
        if len(sentence_words & words) / len(sentence_words) < _ENOUGH:
            return False
        if key not in self._cited:
            document = self._document(key[0])
            self._cited[key] = cite(self._store, document, key[1], end, passage.probability)
        return True


def supported_by(sentence: str, source: str) -> bool:
    """Return whether a source holds most of a sentence's content words."""
    sentence_words = set(content_words(sentence))
    shared = sentence_words & set(content_words(source))
    return bool(sentence_words) and len(shared) / len(sentence_words) >= _ENOUGH


def marked(pieces: Iterable[str], judge: Judge) -> Iterator[str]:
    """Pass text on piece by piece, with a mark after each sentence that ``judge`` does not accept.

    A sentence is judged as soon as the next one begins. White space between sentences becomes one
    space, and none is left at the ends.
    """
    open_, shown = "", 0  # the sentence being written, and how much of it was passed on
    for piece in pieces:
        open_ = (open_ + piece).lstrip() if not open_ else open_ + piece
        spans = sentence_spans(open_)
        for (start, end), (following, _) in zip(spans, spans[1:], strict=False):
            yield open_[shown:end] + _mark(open_[start:end], judge) + " "
            shown = following
        if len(spans) > 1:
            open_, shown = open_[spans[-1][0] :], shown - spans[-1][0]
        # White space waits, as it may turn out to be the end.
        ready = len(open_.rstrip())
        if ready > shown:
            yield open_[shown:ready]
            shown = ready
    mark = _mark(open_.strip(), judge) if open_.strip() else ""
    if mark:
        yield mark


def _mark(sentence: str, judge: Judge) -> str:
    return "" if judge(sentence) else f" {UNSUPPORTED}"
