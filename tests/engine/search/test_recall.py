"""Which sentences of a library its index is measured with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from drt_engine.search.recall import _sentences


class _View:
    """A library with one document, whose chunks have these texts."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def documents(self) -> list[Any]:
        return [SimpleNamespace(id="1", chunks=len(self.texts))] if self.texts else []

    def chunk_texts(self, document_id: str, ordinals: range) -> list[Any]:
        return [SimpleNamespace(text=self.texts[ordinal]) for ordinal in ordinals]


def test_sentences_have_words_enough_to_ask() -> None:
    sentence = "The cook keeps the key of the store."
    view: Any = _View(["| --- | --- | --- | --- | --- | --- |", "Too short.", sentence])
    assert set(_sentences(view, 8)) == {sentence}


def test_a_library_of_marks_or_nothing_has_none() -> None:
    marks: Any = _View(["- - - - - - - -"])
    empty: Any = _View([])
    assert list(_sentences(marks, 4)) == [] == list(_sentences(empty, 4))
