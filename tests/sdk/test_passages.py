"""From a citation back to the passage."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt import Assistant, NotFoundError, passage
from tests.sdk.conftest import HANDBOOK


def test_a_citation_leads_to_its_passage(assistant: Assistant, handbook: Path) -> None:
    assistant.ingest(handbook)
    (citation,) = assistant.ask("Which period?").citations
    for named in (citation, citation.handle, f"handbook.txt:{citation.start}-{citation.end}"):
        found = passage(assistant.library, named)
        assert found.before + found.quote + found.after == HANDBOOK
        assert found.quote == citation.quote == "period"
        assert (found.citation.page, found.citation.section) == (3, "Part > Terms")


def test_a_chunk_of_a_trace_leads_to_its_passage(assistant: Assistant, handbook: Path) -> None:
    assistant.ingest(handbook)
    group = assistant.trace("Which period?").groups[0]
    for chunk in (group.entries[0], group.by_words[0]):
        for named in (chunk, chunk.handle):
            found = passage(assistant.library, named)
            assert found.quote == chunk.text and found.citation.end == chunk.end


def test_a_passage_has_the_sentence_around_its_quote(assistant: Assistant, handbook: Path) -> None:
    assistant.ingest(handbook)
    values = passage(assistant.library, "handbook.txt:11-17").to_dict()
    assert values["sentence"] == "The notice period is thirty days."


def test_surroundings_are_cut_between_words(assistant: Assistant, handbook: Path) -> None:
    assistant.ingest(handbook)
    found = passage(assistant.library, "handbook.txt:11-17", around=10)
    assert (found.before, found.quote, found.after) == ("notice ", "period", " is")
    whole = passage(assistant.library, "handbook.txt:0-3", around=0)
    assert (whole.before, whole.quote, whole.after) == ("", "The", "")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("handle", "words"),
    [
        ("handbook.txt", "not a citation"),
        ("handbook.txt:5-x", "not a citation"),
        ("handbook.txt:9-9", "9-9"),
        ("handbook.txt:9-5", "9-5"),
        ("handbook.txt:0-99999", "77 characters"),
        ("handbuch.txt:0-3", "handbook.txt"),
    ],
)
def test_what_leads_nowhere_is_a_sentence(
    assistant: Assistant, handbook: Path, handle: str, words: str
) -> None:
    assistant.ingest(handbook)
    with pytest.raises(NotFoundError, match=words):
        passage(assistant.library, handle)
