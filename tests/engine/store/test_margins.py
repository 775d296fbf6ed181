"""The full-text index holds words around each chunk, whatever is read, appended or removed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drt_engine.errors import CorruptStore
from drt_engine.store import Store
from drt_engine.store.catalogue.index_text import WORDS, indexed, indexed_text
from drt_engine.store.catalogue.row_checksums import pack_text
from tests.engine.store.helpers import add_document, document_id

TEXTS = st.text(st.sampled_from("ab \n\u3000é"), max_size=120)
FILLER = "moss " * 20


@given(TEXTS, TEXTS, TEXTS)
def test_a_slice_of_the_text_with_a_few_words_on_each_side(
    before: str, text: str, after: str
) -> None:
    whole = indexed_text(before, text, after)
    at = (before + text + after).find(whole)
    assert at >= 0 and text in whole
    assert len(whole.split()) <= len(text.split()) + 2 * WORDS + 2
    if len(before.split()) <= WORDS and len(after.split()) <= WORDS:
        assert whole == before + text + after


def test_words_that_never_end_are_cut() -> None:
    assert indexed_text("x" * 9_000, "y", "z" * 9_000) == "x" * 400 + "y" + "z" * 400


def test_texts_as_they_are_stored() -> None:
    packed = [pack_text(text) for text in ("one ", "two ", "three")]
    assert indexed(packed[0], packed[1], packed[2]) == "one two three"
    assert indexed(None, packed[1], None) == "two "
    with pytest.raises(CorruptStore):
        indexed(packed[0][:-1], packed[1], None)


def ordinals(store: Store, query: str) -> list[int]:
    rows = store.chunk_rows([chunk for chunk, _ in store.search_text(query)])
    return sorted(row.ordinal for row in rows)


@pytest.mark.parametrize("per_segment", [1, 2, 10])
def test_a_cut_sentence_is_found_in_both_chunks(store: Store, per_segment: int) -> None:
    pieces = [FILLER, FILLER + "the code of the Ravbrook ", "granary is 4711. " + FILLER, FILLER]
    add_document(store, 1, pieces, per_segment=per_segment)
    add_document(store, 2, ["granary "])  # no neighbour of another document's
    for word in ("ravbrook", "4711"):
        assert ordinals(store, word) == [1, 2]
    best, second, *_ = store.search_text("code ravbrook granary")
    assert {row.ordinal for row in store.chunk_rows([best[0], second[0]])} == {1, 2}
    assert store.check() == []
    store.remove_document(document_id(1))
    assert store.check() == [] and store.search_text("ravbrook") == []
