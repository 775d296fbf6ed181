"""`drt search`: what a reader sees, what a program gets, and what it leads to."""

from __future__ import annotations

import json
from pathlib import Path

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
    assert list(result) == ["query", "hits", "seconds", "model"]
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
