"""Lines of citations: the file's own, or none."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drt_engine.answer import citations
from drt_engine.answer.citations import cite
from drt_engine.documents import Block, Source, open_document
from drt_engine.ingest.rebuild import rebuild
from drt_engine.source_lines import PARAMETER, LineCheck, line_at
from drt_engine.store import DocumentRow, Store
from tests.model_folder import library, read_text, runtime, text_of

CODE = '"""Pumps."""\n\n\ndef start(pump):\n    """Start it."""\n    pump.on()\n\n\nLIMIT = 12\n'
LOG = "".join(f"event{n} happened\r\n" + "\r\n" * (n % 3) for n in range(400))
TABLE = "item,price\nlamp,nine\nrope,two\nsail,thirty\n"
RECORDS = "".join(json.dumps({"item": f"thing{n}", "price": f"cost{n}"}) + "\n" for n in range(40))
MARKED = "preface words\n\n# Fog\n\nThe bell rings.\n"
PAGE = "<html><body><p>The harbour closes at eight.</p><p>Boats wait.</p></body></html>"
TWO_LINES = 'item,note\nlamp,"burns\nlong"\nrope,short\n'


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with library(tmp_path / "library") as opened:
        yield opened


def words(store: Store, row: DocumentRow) -> Iterator[tuple[str, int | None]]:
    """Each word of a document with the line of its citation."""
    for found in re.finditer(r"\w+", text_of(store, row)):
        cited = cite(store, row, found.start(), found.end(), 1.0)
        yield cited.quote, cited.line


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.py", CODE), ("a.log", LOG[:2000]), ("a.csv", TABLE), ("a.jsonl", RECORDS)],
    ids=["code", "log", "csv", "jsonl"],
)
def test_a_citation_names_the_line_that_holds_it(
    store: Store, tmp_path: Path, name: str, text: str
) -> None:
    row = read_text(store, tmp_path, name=name, text=text)
    lines = (tmp_path / name).read_text().splitlines()
    checked = 0
    for word, line in words(store, row):
        assert line is not None
        if word not in ("item", "price"):  # column names are repeated in each row
            assert word in lines[line - 1], (word, line)
            checked += 1
    assert checked > 5


def test_a_line_stands_where_no_section_does(store: Store, tmp_path: Path) -> None:
    row = read_text(store, tmp_path, name="a.md", text=MARKED)
    assert dict(words(store, row))["preface"] == 1
    assert dict(words(store, row))["bell"] is None


@pytest.mark.parametrize(
    ("name", "text"), [("a.html", PAGE), ("a.csv", TWO_LINES)], ids=["html", "csv"]
)
def test_no_line_is_made_up(store: Store, tmp_path: Path, name: str, text: str) -> None:
    row = read_text(store, tmp_path, name=name, text=text)
    assert PARAMETER not in row.media_type
    assert {line for _, line in words(store, row)} == {None}


def test_lines_far_into_a_long_text_are_left_to_show(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = read_text(store, tmp_path, name="a.log", text=LOG)
    text = text_of(store, row)
    far = text.index("event399")
    assert cite(store, row, far, far + 8, 1.0).line == text[:far].count("\n") + 1
    monkeypatch.setattr(citations, "_FARTHEST_LINE", far - 1)
    assert cite(store, row, far, far + 8, 1.0).line is None
    assert line_at(store, row, far) == text[:far].count("\n") + 1


def test_a_library_from_before_lines_is_read_without_them(store: Store, tmp_path: Path) -> None:
    row = read_text(store, tmp_path, name="a.log", text=LOG)
    older = row._replace(media_type="text/plain")
    cited = cite(store, older, 0, 6, 1.0)
    assert (cited.quote, cited.line) == ("event0", None)


def test_lines_outlive_a_new_model(tmp_path: Path) -> None:
    with library(tmp_path / "library") as store:
        read_text(store, tmp_path, name="a.csv", text=TABLE)
    rebuild(runtime(), tmp_path / "library", lock_timeout=1.0, progress=None)
    with library(tmp_path / "library") as store:
        (row,) = store.documents()
        assert dict(words(store, row))["thirty"] == 4


def test_a_readers_own_word_on_lines_is_not_taken() -> None:
    check = LineCheck()
    check.see(Block("a\nb", line=1))
    check.see(Block("c\n", line=2))
    assert check.media_type("text/plain") == "text/plain" + PARAMETER
    check.see(Block("d", line=7))
    assert check.media_type("text/plain" + PARAMETER) == "text/plain"


CELLS = st.text(st.sampled_from('ab ,;"\n|'), max_size=8)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=6))
def test_tables_never_name_a_wrong_line(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    """A mark in each row leads to the line where its row begins, or to none."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    begins: list[int] = []
    for number, row in enumerate(rows):
        begins.append(written.getvalue().count("\n") + 1)
        writer.writerow([f"mark{number}", *row])
    file = tmp_path_factory.getbasetemp() / "table.csv"
    file.write_text(written.getvalue(), encoding="utf-8")
    check = LineCheck()
    blocks = list(open_document(Source.from_path(file), isolate=False).blocks)
    for block in blocks:
        check.see(block)
    if PARAMETER not in check.media_type("text/csv"):
        return
    text = "".join(block.text for block in blocks)
    for number, begin in enumerate(begins):
        assert text.count("\n", 0, text.index(f"mark{number}")) + 1 == begin
