"""What changed between two versions, of sections, and of several documents; lengths are kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drt_engine.errors import ConfigError, NotFound, UnreadableDocument
from drt_engine.store import DocumentRow, Store
from drt_engine.summary import changes
from drt_engine.summary import differences as module
from drt_engine.summary.changes import NOTHING, summarize_changes
from drt_engine.summary.differences import Difference, differences
from drt_engine.summary.options import SummaryOptions
from drt_engine.summary.summarize import summarize
from drt_engine.text.sentences import sentence_spans
from tests.model_folder import LETTERS, MANUAL, library, read_text, runtime, text_of
from tests.tables import each_row

NEW = (
    MANUAL.replace("thirty days", "sixty days")
    .replace("It brings flour, letters and lamp oil.", "It brings flour and letters.")
    .replace("Captain Holm wrote this rule after the wreck of the Marigold in 1871.", "")
)
NEW += "\nA second keeper is hired for the winter.\n"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("changes")
    with library(folder / "library") as opened:
        read_text(opened, folder, name="manual.md", text=NEW)
        read_text(opened, folder, name="letters.txt", text=LETTERS)
        yield opened


@pytest.fixture(scope="module")
def manual(store: Store) -> DocumentRow:
    return store.document("manual.md")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    file = tmp_path / "manual-1.md"
    file.write_text(MANUAL, encoding="utf-8")
    return file


def test_differences_are_added_changed_and_removed(store: Store, manual: DocumentRow) -> None:
    new = text_of(store, manual)
    triples = [
        (
            difference.kind,
            difference.old and MANUAL[slice(*difference.old)],
            difference.new and new[slice(*difference.new)],
        )
        for difference in differences(MANUAL, new)
    ]
    assert ("added", None, "A second keeper is hired for the winter.") in triples
    assert (
        "changed",
        "The notice period for a keeper is thirty days.",
        "The notice period for a keeper is sixty days.",
    ) in triples
    assert [triple[0] for triple in triples].count("changed") == 2
    removed = [old for kind, old, _ in triples if kind == "removed"]
    assert len(removed) == 1 and removed[0].startswith("Captain Holm wrote this rule")


def test_a_new_number_in_front_comes_last(tmp_path: Path) -> None:
    old, new = "3.3 Nobody is paid for oil.", "3.4 Nobody is paid for oil."
    log = "The keeper signs the log in {} every day."
    file = tmp_path / "old.txt"
    file.write_text(f"{old} {log.format('May')}")
    with library(tmp_path / "library") as store:
        row = read_text(store, tmp_path, name="new.txt", text=f"{new} {log.format('June')}")
        for words, count in ((14, 1), (40, 2)):
            options = SummaryOptions(words=words)
            summary = summarize_changes(runtime(), store, [row.id], file, options)
            assert len(summary.changes) == count
            assert "signs the log in June [was: May]" in summary.text


@pytest.mark.few(1)
@pytest.mark.parametrize("reads", [False, True], ids=["removed", "another read"])
def test_a_comparison_under_way_keeps_its_document(
    tmp_path: Path, old: Path, monkeypatch: pytest.MonkeyPatch, reads: bool
) -> None:
    with library(tmp_path / "library") as store, library(tmp_path / "library") as second:
        row = read_text(store, tmp_path, name="manual.md", text=NEW)
        options = SummaryOptions(words=100)
        expected = summarize_changes(runtime(), store, [row.id], old, options)

        def disturbed(old_text: str, new_text: str) -> list[Difference]:
            second.remove_document(row.id)
            if reads:
                read_text(second, tmp_path, name="letters.txt", text=LETTERS)
            return differences(old_text, new_text)

        monkeypatch.setattr(changes, "differences", disturbed)
        assert summarize_changes(runtime(), store, [row.id], old, options) == expected
        assert store.document_by_id(row.id) is None


SENTENCES = st.lists(st.sampled_from(["A b c.", "D e f.", "G h.", "I j k l.", "M."]), max_size=12)


@settings(max_examples=40)
@given(SENTENCES, SENTENCES)
def test_the_old_text_and_the_differences_make_the_new_one(old: list[str], new: list[str]) -> None:
    before, after = " ".join(old), " ".join(new)
    changes_found = differences(before, after)
    unchanged = [
        span
        for span in sentence_spans(after)
        if span not in {difference.new for difference in changes_found}
    ]
    unchanged_before = [
        span
        for span in sentence_spans(before)
        if span not in {difference.old for difference in changes_found}
    ]
    assert [after[a:b] for a, b in unchanged] == [before[a:b] for a, b in unchanged_before]


def test_a_summary_of_changes_says_what_was_and_what_is(
    store: Store, manual: DocumentRow, old: Path
) -> None:
    summary = summarize_changes(runtime(), store, [manual.id], old, SummaryOptions(words=200))
    lines = summary.text.splitlines()
    assert len(lines) == len(summary.changes) == 4
    assert "Changed: The notice period for a keeper is sixty [was: thirty] days." in lines
    assert "Added: A second keeper is hired for the winter." in lines
    assert any(line.startswith("Removed: Captain Holm wrote this rule") for line in lines)
    text = text_of(store, manual)
    for change in summary.changes:
        assert (change.new is None) == (change.kind == "removed")
        if change.new is not None:
            assert text[change.new.start : change.new.end] == change.new.quote
    assert summary.sentences == tuple(c.new for c in summary.changes if c.new is not None)


@pytest.mark.parametrize("words", [1, 9, 12, 25, 60])
def test_a_budget_is_kept(store: Store, manual: DocumentRow, old: Path, words: int) -> None:
    summary = summarize_changes(runtime(), store, [manual.id], old, SummaryOptions(words=words))
    if summary.changes:
        assert len(summary.text.split()) <= words
    else:
        assert words < 9 and not summary.text
    assert len(summary.changes) + summary.changes_omitted == 4


def test_every_change_is_listed_unless_a_length_is_set(tmp_path: Path) -> None:
    rules = [f"Rule {n} says that the keeper pays {n} crowns for lamp {n}." for n in range(40)]
    old, new = tmp_path / "old.txt", "\n\n".join(rules).replace("crowns", "marks")
    old.write_text("\n\n".join(rules))
    with library(tmp_path / "library") as store:
        row = read_text(store, tmp_path, name="new.txt", text=new)
        unlimited = summarize_changes(runtime(), store, [row.id], old, SummaryOptions())
        assert (len(unlimited.changes), unlimited.changes_omitted) == (40, 0)
        assert len(unlimited.text.splitlines()) == 40
        limited = summarize_changes(runtime(), store, [row.id], old, SummaryOptions(length="short"))
    assert 0 < len(limited.changes) < 10 and len(limited.changes) + limited.changes_omitted == 40


@pytest.mark.thorough
def test_a_text_written_anew_is_compared_in_bounded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[object] = []
    matcher = module.difflib.SequenceMatcher

    def counting(*arguments: Any, **options: Any) -> Any:
        compared.append(arguments)
        return matcher(*arguments, **options)

    old = [f"Alpha {n} beta {n * 7} gamma delta." for n in range(300)]
    new = [f"Epsilon {n} zeta {n * 11} eta theta." for n in range(300)]
    monkeypatch.setattr(module.difflib, "SequenceMatcher", counting)
    all_differences = differences("\n\n".join(old), "\n\n".join(new))
    assert len(compared) <= 1 + 300 * 100
    assert [difference.kind for difference in all_differences].count("added") == 300
    assert [difference.kind for difference in all_differences].count("removed") == 300


def test_nothing_changed(store: Store, manual: DocumentRow, tmp_path: Path) -> None:
    same = tmp_path / "same.md"
    same.write_text(NEW.replace(" A ", "  A "), encoding="utf-8")
    summary = summarize_changes(runtime(), store, [manual.id], same, SummaryOptions())
    assert (summary.text, summary.changes) == (NOTHING, ())


def test_changes_of_a_section(store: Store, manual: DocumentRow, old: Path) -> None:
    options = SummaryOptions(words=200, section="Fog")
    summary = summarize_changes(runtime(), store, [manual.id], old, options)
    assert [change.kind for change in summary.changes] == ["removed"]


def test_what_cannot_be_compared(
    store: Store, manual: DocumentRow, old: Path, tmp_path: Path
) -> None:
    both = [row.id for row in store.documents()]
    with pytest.raises(ConfigError, match="2 were named"):
        summarize_changes(runtime(), store, both, old, SummaryOptions())
    with pytest.raises(ConfigError, match="abstractive"):
        summarize_changes(runtime(), store, [manual.id], old, SummaryOptions(mode="abstractive"))
    with pytest.raises(UnreadableDocument):
        summarize_changes(runtime(), store, [manual.id], tmp_path / "none", SummaryOptions())


@each_row("name", ["Leave", "leave", "Lea", "Lighthouse manual > Leave"])
def test_a_section_is_summarised_alone(store: Store, manual: DocumentRow, name: str) -> None:
    summary = summarize(runtime(), store, manual.id, SummaryOptions(section=name, length="long"))
    text = text_of(store, manual)
    start = text.index("## Leave")
    assert summary.sentences and all(sentence.start >= start for sentence in summary.sentences)
    for sentence in summary.sentences:
        assert sentence.section is not None and sentence.section.endswith("Leave")
    assert "sixty days" in summary.text


def test_a_section_holds_those_below_it(store: Store, manual: DocumentRow) -> None:
    options = SummaryOptions(section="Lighthouse manual", length="long")
    document_summary = summarize(runtime(), store, manual.id, SummaryOptions(length="long"))
    assert summarize(runtime(), store, manual.id, options).text == document_summary.text


def test_an_unknown_section_is_a_sentence(store: Store, manual: DocumentRow) -> None:
    with pytest.raises(NotFound, match="did you mean 'Leave'"):
        summarize(runtime(), store, manual.id, SummaryOptions(section="Leavex"))


def test_several_documents_have_their_say_in_turn(store: Store) -> None:
    ids = [row.id for row in store.documents()]
    for words in (40, 80):
        summary = summarize(runtime(), store, ids, SummaryOptions(words=words))
        assert len(summary.text.split()) <= words
        documents = [sentence.document for sentence in summary.sentences]
        assert set(documents) == set(ids) and documents == sorted(documents, key=ids.index)
    assert summary.tokens_read == sum(row.tokens for row in store.documents())


@each_row("words", [1, 5, 8, 14, 30])
def test_a_length_is_never_exceeded(store: Store, manual: DocumentRow, words: int) -> None:
    summary = summarize(runtime(), store, manual.id, SummaryOptions(words=words))
    assert 1 <= len(summary.text.split()) <= words
    text = text_of(store, manual)
    for sentence in summary.sentences:
        assert text[sentence.start : sentence.end] == sentence.quote


@pytest.mark.thorough
def test_abstractive_summaries_of_several_and_of_a_section(store: Store) -> None:
    ids = [row.id for row in store.documents()]
    for options in (
        SummaryOptions(mode="abstractive", words=12),
        SummaryOptions(mode="abstractive", words=12, section="Fog"),
    ):
        summary = summarize(runtime(), store, ids, options)
        assert summary.text and len(summary.text.split()) <= 12
