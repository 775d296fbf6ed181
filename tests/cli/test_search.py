"""`drt search`: what a reader sees, what a program gets, and what it leads to."""

from __future__ import annotations

import json
from pathlib import Path

from drt_engine.retrieval.filters import Filters
from tests.cli.conftest import Drt
from tests.sdk.fakes import FakeEngine


def test_a_passage_with_its_place_and_its_best_sentence(drt: Drt, handbook: Path) -> None:
    result = drt("search", "keeper signs", handbook)
    assert (result.code, result.err) == (0, "")
    first, passage = result.out.splitlines()
    assert first.startswith("[1] handbook.txt, page 3, Part > Terms, ")
    assert first.endswith(":34-61, score 1.00")
    assert passage == (
        "  The notice period is thirty days. «The keeper signs every log.» See the annex."
    )
    assert "«The keeper signs every log.»" in drt("show", "1").out


def test_json_and_lines_have_the_documented_shape(drt: Drt, handbook: Path) -> None:
    result = drt("search", "annex", handbook, "--json").json
    assert list(result) == ["query", "hits", "seconds", "model", "unread_libraries", "scan"]
    (hit,) = result["hits"]
    assert hit["sentence"] == "See the annex." and hit["handle"].endswith(":62-76")
    (line,) = drt("search", "annex", "--jsonl").out.splitlines()
    assert json.loads(line) == hit
    assert drt("search", "annex", "--json", "--jsonl").code == 2


def test_by_words_no_model_is_loaded(drt: Drt, engine: FakeEngine, handbook: Path) -> None:
    drt("ingest", handbook)
    engine.loads.clear()
    result = drt("search", "zeppelin", "--retriever", "lexical")
    assert (result.code, result.out, engine.loads) == (0, "", [])
    assert result.err == "No passage has a word of the query; other words may find one.\n"


def test_paths_and_options_restrict_the_search(
    drt: Drt, engine: FakeEngine, handbook: Path
) -> None:
    other = handbook.with_name("other.txt")
    other.write_text("Another period.")
    drt("ingest", other)
    assert "Another" not in drt("search", "period", handbook, "--top-k", 3).out
    assert engine.calls[-1][2].top_k == 3
    assert "notice" not in drt("search", "period", "--doc", "other.txt").out
    assert drt("search", "period", "missing.txt").code == 1
    assert "no words" in drt("search", "?").err


def test_tags_are_given_changed_shown_and_asked_for(
    drt: Drt, engine: FakeEngine, handbook: Path
) -> None:
    other = handbook.with_name("other.txt")
    other.write_text("Another period.")
    drt("ingest", other)
    assert drt("ingest", handbook, "--tag", "work", "--tag", "2024").code == 0
    assert drt("ingest", handbook, "--tag", "sea").out.startswith("unchanged")
    shown = drt("library", "show", "handbook.txt", "--json").json
    assert shown["tags"] == ["2024", "sea", "work"]
    tagged = drt("library", "tag", "handbook.txt", "+draft", "-work", "-2024", "-h")
    assert tagged.out.endswith("handbook.txt  [draft, sea]\n") and tagged.code == 0
    assert "handbook.txt  [draft, sea]" in drt("library", "list").out
    assert "Another" not in drt("search", "period", "--tag", "sea").out
    drt("ask", "Which period?", "--tag", "sea")
    assert engine.asked[-1]["filters"].tags == ("sea",)
    assert drt("library", "tag", "handbook.txt", "-draft", "-sea").out.endswith("  no tags\n")
    assert drt("search", "period", "--tag", "sea").err == (
        "drt: no document has the tag 'sea': `drt library tag DOC +NAME` gives one\n"
    )
    assert "neither +TAG nor -TAG" in drt("library", "tag", "handbook.txt", "work").err
    assert "is not a tag" in drt("ingest", handbook, "--tag", "two words").err


def test_filters_reach_the_engine_and_empty_ones_load_no_model(
    drt: Drt, engine: FakeEngine, handbook: Path
) -> None:
    drt("ingest", handbook)
    filters = ("--section", "terms", "--pages", "2-4", "--type", "txt", "--since", "2020-02")
    assert "notice" in drt("search", "period", *filters).out
    assert drt("ask", "Which period?", *filters).code == 0
    asked = engine.asked[-1]["filters"]  # the same as the engine's search was given
    assert asked == engine.calls[-1][2].filters != Filters()
    assert drt("search", "period", "--section", "annex").code == 1
    engine.loads.clear()
    wrong = {
        ("--pages", "7"): "nothing is on pages 7 to 7 of these documents: they have pages 3 to 3",
        ("--type", "pdf"): "no document is of type 'pdf': there is 'text' (1)",
        ("--since", "2020-13"): "since is '2020-13', expected YYYY, YYYY-MM or YYYY-MM-DD",
    }
    for options, sentence in wrong.items():
        result = drt("ask", "Which period?", *options)
        assert (result.code, result.err) == (1, f"drt: {sentence}\n")
    assert engine.loads == []
    assert drt("search", "period", "--pages", "4-2").code == 2
    assert drt("ask", "Which period?", "--since", "soon").code == 2


def test_a_summary_of_what_filters_leave(drt: Drt, engine: FakeEngine, handbook: Path) -> None:
    drt("ingest", handbook, "--tag", "sea")
    assert "notice" in drt("summarize", "--tag", "sea", "--pages", "3").out
    assert engine.calls[-1][1]["pages"] == (3, 3)
    assert "notice" in drt("summarize", "handbook.txt", "--since", "2020").out
    assert engine.calls[-1][1]["since"] is None
    assert drt("summarize", "--since", "2999-01").code == 1
    assert "neither a file nor a date" in drt("summarize", "--since", "soon").err
    assert "name a document to summarise" in drt("summarize").err
