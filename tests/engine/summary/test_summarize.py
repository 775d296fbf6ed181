"""Summaries: slices in the document's order, as long as asked for, whatever the document."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch

from drt_engine.errors import ConfigError, NotFound, QuestionError
from drt_engine.results import Citation
from drt_engine.retrieval.passages import Passage
from drt_engine.store import DocumentRow, Store
from drt_engine.summary import abstractive, candidates
from drt_engine.summary.centrality import chunk_centrality
from drt_engine.summary.focus import share_meant
from drt_engine.summary.options import WORDS, SummaryOptions
from drt_engine.summary.result import SummaryResult
from drt_engine.summary.summarize import summarize
from tests.model_folder import LETTERS, MANUAL, library, read_text, runtime, text_of
from tests.sampling import sampled
from tests.tables import each_row

LONG = "\n\n".join(
    [MANUAL, LETTERS]
    + [
        f"The {thing} of the {place} costs {price} crowns a year, and the keeper pays for it."
        for thing, price in (("lamp", "nine"), ("boat", "forty"), ("bell", "two"), ("coat", "six"))
        for place in ("island", "school", "store", "lake", "coast")
    ]
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("summarize")
    with library(folder / "library") as opened:
        read_text(opened, folder, name="long.md", text=LONG)
        yield opened


@pytest.fixture(scope="module")
def long(store: Store) -> DocumentRow:
    return store.documents()[0]


def assert_made_of_slices(store: Store, row: DocumentRow, summary: SummaryResult) -> None:
    text = text_of(store, row)
    places = [(s.start, s.end) for s in summary.sentences]
    assert places == sorted(places)
    assert all(a[1] <= b[0] for a, b in zip(places, places[1:], strict=False))
    for sentence in summary.sentences:
        assert_exact(text, sentence)
        assert 0 < sentence.probability <= 1
    assert summary.text == " ".join(" ".join(s.quote.split()) for s in summary.sentences)


def assert_exact(text: str, sentence: Citation) -> None:
    assert text[sentence.start : sentence.end] == sentence.quote != ""


@each_row("length", WORDS)
def test_lengths(store: Store, long: DocumentRow, length: str) -> None:
    summary = summarize(runtime(), store, long.id, SummaryOptions(length=length))
    assert summary.mode == "extractive"
    assert 0.5 * min(WORDS[length], 300) <= len(summary.text.split()) <= WORDS[length]
    assert_made_of_slices(store, long, summary)


@each_row("words", [1, 8, 12, 13, 30, 77])
def test_a_budget_of_words_is_kept(store: Store, long: DocumentRow, words: int) -> None:
    summary = summarize(runtime(), store, long.id, SummaryOptions(words=words))
    assert len(summary.text.split()) <= words
    assert_made_of_slices(store, long, summary)


def test_summaries_are_prose(store: Store, long: DocumentRow) -> None:
    summary = summarize(runtime(), store, long.id, SummaryOptions(length="long"))
    for sentence in summary.sentences:
        assert "|" not in sentence.quote and not sentence.quote.startswith("#")
        assert len(sentence.quote.split()) >= 6


def test_no_sentence_is_taken_twice(store: Store, long: DocumentRow) -> None:
    summary = summarize(runtime(), store, long.id, SummaryOptions(length="medium"))
    quotes = [sentence.quote for sentence in summary.sentences]
    assert len(set(quotes)) == len(quotes)


def test_what_was_said_counts_less(tmp_path: Path) -> None:
    text = "The keeper signs the log on the first Monday of May.\n\n"
    second = "The keeper of the lake sells two cows on the island.\n\n"
    with library(tmp_path / "library") as store:
        row = read_text(store, tmp_path, name="a.txt", text=text * 3 + second + text * 3)
        summary = summarize(runtime(), store, row.id, SummaryOptions(words=22))
        assert sorted(s.quote for s in summary.sentences) == sorted([text.strip(), second.strip()])


def test_the_focus_changes_the_choice(store: Store, long: DocumentRow) -> None:
    plain = summarize(runtime(), store, long.id, SummaryOptions(length="short"))
    focused = summarize(
        runtime(), store, long.id, SummaryOptions(length="short", focus="the harvest of 1902")
    )
    assert_made_of_slices(store, long, focused)
    assert focused.text != plain.text


def test_the_focus_finds_a_section_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "focus_scores", lambda *given: torch.ones(len(given[-1])))
    sections = {
        "Duties": "The member carries out the work of the post. The member obeys lawful orders.",
        "Payment": "Money is handed over on the last day. Nothing is added for nights.",
        "Travel": "The society buys the tickets. The member carries no more than two bags.",
    }
    text = "".join(f"# {name}\n\n{prose}\n\n" for name, prose in sections.items())
    with library(tmp_path / "library") as store:
        row = read_text(store, tmp_path, name="terms.md", text=text)
        summary = summarize(runtime(), store, row.id, SummaryOptions(words=8, focus="pay"))
    assert summary.sentences[0].quote in sections["Payment"]


@each_row(
    ("focus", "words", "share"),
    [
        ({"pay"}, {"payments", "money"}, 1.0),
        ({"deductions", "pay"}, {"deduct", "payable"}, 1.0),
        ({"deductions", "pay"}, {"repay", "deduction"}, 0.5),
        ({"pay"}, {"payload", "spay"}, 0.0),
    ],
)
def test_words_of_the_focus_count_whatever_their_ending(
    focus: set[str], words: set[str], share: float
) -> None:
    assert share_meant(focus, words) == share


@pytest.mark.thorough
def test_a_focus_of_any_length(store: Store, long: DocumentRow) -> None:
    options = [SummaryOptions(focus=" ".join(["oil"] * count)) for count in (160,)]
    for focused in options:
        assert_made_of_slices(store, long, summarize(runtime(), store, long.id, focused))


@pytest.mark.parametrize(
    ("focus", "message"), [("?", "the focus has no words"), ("oil " * 161, "161 tokens")], ids=len
)
def test_a_focus_that_cannot_be(store: Store, long: DocumentRow, focus: str, message: str) -> None:
    with pytest.raises(QuestionError, match=message):
        summarize(runtime(), store, long.id, SummaryOptions(focus=focus))


STRANGE = {
    "sentence": "The keeper signs the log on the first Monday of May.",
    "word": "Oil.",
    "words": "oil lamp bell",
    "headings": "# Fog\n\n## Leave\n",
    "table": "| bell | fog |\n| ---- | --- |\n| gun | wreck |\n",
    "dots": "...",
    "digits": "1 2 3 4 5",
    "endless": "lamp " * 500,
    "foreign": "La lampe brûle. " * 3,
}


@pytest.mark.parametrize(
    ("name", "mode"),
    sampled(
        itertools.product(STRANGE, ("extractive", "abstractive")),
        {0, 14},  # a sentence, and what has no end
        thorough={3},  # a word
        unpack=True,
    ),
)
def test_short_and_strange_documents(tmp_path: Path, name: str, mode: str) -> None:
    with library(tmp_path / "library") as store:
        row = read_text(store, tmp_path, name="a.md", text=STRANGE[name])
        options = SummaryOptions(mode=mode, words=60)  # type: ignore[arg-type]
        summary = summarize(runtime(), store, row.id, options)
        assert summary.text
        document_text = text_of(store, row)
        for sentence in summary.sentences:
            assert_exact(document_text, sentence)


def test_a_document_of_several_parts(
    store: Store, long: DocumentRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "_PART", 16)
    summary = summarize(runtime(), store, long.id, SummaryOptions(length="long"))
    assert_made_of_slices(store, long, summary)
    text = text_of(store, long)
    for sentence in summary.sentences:  # none was cut by the border of a part
        assert text[sentence.end - 1] in ".!" and text[sentence.start].isupper()
    first, last = summary.sentences[0].start, summary.sentences[-1].start
    assert last - first > len(text) / 2


@pytest.mark.thorough
@pytest.mark.parametrize("focus", sampled([None, "the notice period"], {1}))
def test_abstractive_summaries_end_and_rest_on_the_document(
    store: Store, long: DocumentRow, focus: str | None
) -> None:
    options = SummaryOptions(mode="abstractive", length="short", focus=focus)
    summary = summarize(runtime(), store, long.id, options)
    text = text_of(store, long)
    assert summary.sentences and len(summary.text.split()) <= WORDS["short"]
    for sentence in summary.sentences:
        assert_exact(text, sentence)


def test_a_decoder_rewrites_each_sentence_of_the_extract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = runtime(writes=True)
    rewritten: list[str] = []

    def rewrite(_: object, sentence: str, passages: Sequence[Passage], **__: int) -> str:
        rewritten.append(sentence)
        assert passages
        return f"{sentence[:-1]} indeed." if len(rewritten) % 2 else "Zebras paint xylophones."

    text = MANUAL.split("\n\n", 1)[1]
    with library(tmp_path / "library", model) as store:
        row = read_text(store, tmp_path, name="a.txt", text=text)
        options = SummaryOptions(mode="abstractive", length="short")
        made = summarize(model, store, row.id, options)
        assert made.mode in ("abstractive", "extractive")  # what random weights write has no source
        monkeypatch.setattr(abstractive, "rewrite_from_memory", rewrite)
        summary = summarize(model, store, row.id, options)
    assert len(rewritten) > 1 and "Zebras" not in summary.text
    assert summary.text == " ".join(f"{s[:-1]} indeed." for s in rewritten[::2])


@pytest.mark.parametrize("mode", sampled(["extractive", "abstractive"], {0}, thorough={1}))
def test_the_same_document_gives_the_same_summary(
    store: Store, long: DocumentRow, mode: str
) -> None:
    options = SummaryOptions(mode=mode, words=16)  # type: ignore[arg-type]
    summary = summarize(runtime(), store, long.id, options)
    with library(store.path) as reopened:
        assert summarize(runtime(), reopened, long.id, options) == summary


def test_centrality_prefers_what_many_chunks_lean_on() -> None:
    directions = torch.eye(32)
    around = torch.nn.functional.normalize(0.7 * directions[0] + directions[1:21], dim=1)
    middle = directions[:1]
    scores = chunk_centrality(runtime(), torch.cat([around[:10], middle, around[10:]]))
    assert int(scores.argmax()) == 10
    assert float(scores.mean()) == pytest.approx(1, abs=1e-3)
    assert torch.equal(chunk_centrality(runtime(), around[:2]), torch.ones(2))


def test_wrong_options_and_documents(store: Store) -> None:
    for wrong in ({"mode": "x"}, {"length": "x"}, {"words": 0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            SummaryOptions(**wrong)
    with pytest.raises(NotFound):
        summarize(runtime(), store, "0123456789abcdef", SummaryOptions())
