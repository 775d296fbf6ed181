"""Citations lead to the file: its line, and the characters that the quote comes from."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import re
import sqlite3
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drt_engine.answer.citations import cite
from drt_engine.documents import Block, Source, open_document, source_map
from drt_engine.documents.anchors import Anchor, pack_anchors
from drt_engine.documents.base import regroup, runs_between, source_span
from drt_engine.documents.source_map import OLD_PARAMETER, SourceMap, read_anchors
from drt_engine.errors import CorruptStore
from drt_engine.ingest.rebuild import rebuild
from drt_engine.results import Citation
from drt_engine.store import DocumentRow, Store
from drt_engine.store.catalogue.row_checksums import pack_text
from drt_engine.store.catalogue.row_values import update_document_checksum
from drt_engine.store.transfer.archive_format import MAGIC
from tests.engine.documents.makers import Text, make_page_pdf
from tests.model_folder import library, read, read_text, runtime, text_of
from tests.tables import each_row

CODE = '"""Pumps."""\n\n\ndef start(pump):\n    """Start it."""\n    pump.on()\n\n\nLIMIT = 12\n'
LOG = "".join(f"event{n} happened\r\n" + "\r\n" * (n % 3) for n in range(400))
TABLE = "item,price\nlamp,nine\nrope,two\nsail,thirty\n"
RECORDS = "".join(json.dumps({"item": f"thing{n}", "price": f"cost{n}"}) + "\n" for n in range(40))
MARKED = "preface words\n\n# Fog\n\nThe bell rings.\n"
TITLED = "Fog\n===\n\nThe ``bell`` rings.\n"
PAGE = "<html><body><p>The harbour closes at eight.</p><p>Boats wait.</p></body></html>"
LONG_ROWS = 'item,note\nlamp,"burns\nlong"\nrope,short\n"anchor\n\nof iron","heavy"\noar,light\n'
PAPER = r"""\documentclass{article}
\title{A long
title}
\begin{document}
% nothing
\section{Harbours of
the north}
Plain words stand here. % and a remark
Some \emph{marked} words, caf\'e\footnote{which
goes on}.

\begin{verbatim}
bell = {fog}
\end{verbatim}
\end{document}
"""
LETTER = """\
Received: from a
 by b; Tue, 5 Mar 2024
Subject: Lamps
From: Ann <ann@example.org>
Content-Type: multipart/mixed; boundary=b

Nobody reads this preamble.
--b
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: 8bit

first línea
second words
--b
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

soft =
broken l=C3=A1mpara
after
--b
Content-Type: text/plain; name=list.txt
Content-Transfer-Encoding: base64

aGlkZGVuCndvcmRzCg==
--b--
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with library(tmp_path / "library") as opened:
        yield opened


def words(store: Store, row: DocumentRow) -> Iterator[Citation]:
    """The citation of each word of a document."""
    for found in re.finditer(r"\w+", text_of(store, row)):
        yield cite(store, row, found.start(), found.end(), 1.0)


def lines_of(store: Store, row: DocumentRow) -> dict[str, int | None]:
    return {cited.quote: cited.line for cited in words(store, row)}


@pytest.mark.few(1)
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
    for cited in words(store, row):
        assert cited.line is not None
        if cited.quote not in ("item", "price"):  # column names are repeated in each row
            assert cited.quote in lines[cited.line - 1], (cited.quote, cited.line)
            checked += 1
    assert checked > 5


@pytest.mark.thorough
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", LOG[:3000]),
        ("a.md", MARKED),
        ("a.rst", TITLED),
        ("a.py", CODE),
        ("a.ini", "\ufeffa=é\n"),
    ],
)
def test_a_verbatim_file_holds_exactly_the_quote(
    store: Store, tmp_path: Path, name: str, text: str
) -> None:
    file = tmp_path / name
    file.write_bytes(text.encode("utf-8"))
    row = read(store, file)
    source = file.read_text(encoding="utf-8-sig")
    for length in (1, 7, 400):
        for start in range(0, row.characters, 31):
            cited = cite(store, row, start, min(start + length, row.characters), 1.0)
            if cited.quote:
                assert source[cited.source_start : cited.source_end] == cited.quote
                assert cited.line == source[: cited.source_start].count("\n") + 1


def test_offsets_count_characters_of_the_decoded_file(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes("caf\xe9 ouvert\r\njusqu'\xe0 minuit\r\n".encode("cp1252") * 20)
    row = read(store, file)
    cited = next(one for one in words(store, row) if one.quote == "minuit")
    assert file.read_text(encoding="cp1252")[cited.source_start : cited.source_end] == "minuit"


def test_rows_of_several_lines_are_found_where_they_begin(store: Store, tmp_path: Path) -> None:
    row = read_text(store, tmp_path, name="a.csv", text=LONG_ROWS)
    found = {cited.quote: cited for cited in words(store, row)}
    begins = {"burns": 2, "long": 2, "rope": 4, "anchor": 5, "iron": 5, "heavy": 5, "light": 8}
    assert {word: found[word].line for word in begins} == begins
    iron = found["iron"]
    assert LONG_ROWS[iron.source_start : iron.source_end] == '"anchor\n\nof iron","heavy"'
    rows = text_of(store, row)
    both = cite(store, row, rows.index("short"), rows.index("anchor") + 6, 1.0)
    stop = LONG_ROWS.index(',"heavy"') + len(',"heavy"')
    assert (
        LONG_ROWS[both.source_start : both.source_end] == LONG_ROWS[LONG_ROWS.index("rope") : stop]
    )


def test_latex_is_found_where_it_is_written(store: Store, tmp_path: Path) -> None:
    row = read_text(store, tmp_path, name="a.tex", text=PAPER)
    found = {cited.quote: cited for cited in words(store, row)}
    lines = {"Harbours": 6, "north": 6, "Plain": 8, "café": 9, "goes": 10, "bell": 13}
    assert {word: found[word].line for word in lines} == lines
    for word, said in (("Plain", "Plain"), ("bell", "bell"), ("fog", "fog")):
        assert PAPER[found[word].source_start : found[word].source_end] == said
    north = found["north"]
    assert PAPER[north.source_start : north.source_end] == "\\section{Harbours of\nthe north}"
    assert "caf\\'e" in PAPER[found["café"].source_start : found["café"].source_end]


@pytest.mark.thorough
def test_mail_is_found_on_its_lines(store: Store, tmp_path: Path) -> None:
    row = read_text(store, tmp_path, name="a.eml", text=LETTER)
    found = lines_of(store, row)
    lines = {"Lamps": 3, "Ann": 4, "línea": 12, "second": 13, "soft": 18, "lámpara": 18}
    lines |= {"after": 20, "list": 22, "hidden": 25}
    assert {word: found[word] for word in lines} == lines
    assert {cited.source_start for cited in words(store, row)} == {None}


@pytest.mark.thorough
def test_mailboxes_count_the_lines_of_the_whole_file(store: Store, tmp_path: Path) -> None:
    text = ""
    for number in range(5):
        text += f"From a@b.c Tue Mar  5 10:00:0{number} 2024\nSubject: s{number}\nFrom: a@b.c\n\n"
        text += f"body{number} here\n>From now{number} on\n" + "\n" * (number + 1)
    row = read_text(store, tmp_path, name="a.mbox", text=text)
    lines = text.splitlines()
    found = lines_of(store, row)
    for word in [f"{name}{number}" for number in range(5) for name in ("s", "body", "now")]:
        assert word in lines[(found[word] or 0) - 1]


@pytest.mark.thorough
def test_characters_of_a_pdf_are_the_pages(store: Store, tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    import pypdfium2

    pages = [[Text(72, 700 - 14 * n, f"Line {n} of page {page} ends") for n in range(4)]
             for page in range(3)]  # fmt: skip
    file = tmp_path / "a.pdf"
    file.write_bytes(make_page_pdf(pages))
    row = read(store, file)
    text = text_of(store, row)
    document = pypdfium2.PdfDocument(file)
    for number in range(3):
        start = text.index(f"Line 2 of page {number}")
        cited = cite(store, row, start, start + 16, 1.0)
        assert cited.page == number + 1 and cited.source_start is not None
        assert cited.source_end == cited.source_start + 16
        page = document[number].get_textpage()
        assert page.get_text_range(cited.source_start, 16) == cited.quote
    over = cite(store, row, text.index("Line 3 of page 0"), text.index("Line 1 of page 1"), 1.0)
    assert (over.page, over.source_start, over.source_end) == (1, None, None)


@pytest.mark.thorough
def test_no_place_is_made_up(store: Store, tmp_path: Path) -> None:
    row = read_text(store, tmp_path, name="a.html", text=PAGE)
    assert store.origins(row.id) == []
    assert {(one.line, one.source_start) for one in words(store, row)} == {(None, None)}


def as_version_2(store: Store, row: DocumentRow) -> DocumentRow:
    """The document as version 2 of the library kept it."""
    with store._database.transaction() as connection:
        connection.execute("DELETE FROM origins")
        connection.execute("DELETE FROM blocks")  # which its checksums know nothing of
        connection.execute("UPDATE documents SET media_type = media_type || ?", (OLD_PARAMETER,))
        for (number,) in connection.execute("SELECT number FROM documents").fetchall():
            update_document_checksum(connection, number)
    return store.document(row.id)


@pytest.mark.thorough
def test_a_library_of_version_2_keeps_its_lines(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = as_version_2(store, read_text(store, tmp_path, name="a.log", text=LOG))
    text = text_of(store, older)
    far = text.index("event399")
    cited = cite(store, older, far, far + 8, 1.0)
    assert (cited.line, cited.source_start) == (text[:far].count("\n") + 1, None)
    monkeypatch.setattr(source_map, "_FARTHEST_LINE", far - 1)
    assert cite(store, older, far, far + 8, 1.0).line is None


@pytest.mark.thorough
def test_a_library_from_before_lines_is_read_without_them(store: Store, tmp_path: Path) -> None:
    row = as_version_2(store, read_text(store, tmp_path, name="a.log", text=LOG))
    cited = cite(store, row._replace(media_type="text/plain"), 0, 6, 1.0)
    assert (cited.quote, cited.line) == ("event0", None)


@pytest.mark.thorough
@pytest.mark.parametrize("older", [False, True])
def test_places_outlive_a_new_model(tmp_path: Path, older: bool) -> None:
    with library(tmp_path / "library") as store:
        row = read_text(store, tmp_path, name="a.csv", text=TABLE)
        if older:
            as_version_2(store, row)
        before = list(words(store, store.document(row.id)))
    rebuild(runtime(), tmp_path / "library", lock_timeout=1.0, progress=None)
    with library(tmp_path / "library") as store:
        (row,) = store.documents()
        assert list(words(store, row)) == before
        assert before[-1].line == 4


def test_places_travel_in_an_archive(store: Store, tmp_path: Path) -> None:
    row = read_text(store, tmp_path, name="a.csv", text=LONG_ROWS)
    before = list(words(store, row))
    store.export_archive(tmp_path / "a.drt")
    with library(tmp_path / "other") as other:
        other.import_archive(tmp_path / "a.drt")
        assert list(words(other, other.document(row.id))) == before


def test_a_library_of_version_2_opens(tmp_path: Path) -> None:
    with library(tmp_path / "library") as store:
        row = as_version_2(store, read_text(store, tmp_path, name="a.csv", text=TABLE))
    with contextlib.closing(sqlite3.connect(tmp_path / "library" / "catalog.db")) as connection:
        connection.execute("DROP TABLE origins")
        connection.execute("DROP TABLE blocks")
        connection.execute("DROP INDEX documents_partial")
        for column in ("author", "date", "tags"):
            connection.execute(f"ALTER TABLE documents DROP COLUMN {column}")
        connection.execute("PRAGMA user_version = 2")
    with library(tmp_path / "library") as store:
        assert store.origins(row.id) == []
        assert dict(lines_of(store, row))["thirty"] == 4
        (tmp_path / "b.csv").write_text(TABLE + "mast,six\n", encoding="utf-8")
        newer = read(store, tmp_path / "b.csv")
        assert next(one for one in words(store, newer) if one.quote == "mast").source_start == 42


def test_an_archive_of_version_1_is_taken_over(store: Store, tmp_path: Path) -> None:
    """The frames of one that has no origins, with the first version's number and digest."""
    row = as_version_2(store, read_text(store, tmp_path, name="a.csv", text=TABLE))
    target = tmp_path / "a.drt"
    store.export_archive(target)
    data = target.read_bytes()
    empty = struct.pack("<4sQ", b"ORIG", 0)
    whole = empty + struct.pack("<I", zlib.crc32(empty))
    assert data.count(whole) == 1
    size = 16 + 32  # of the last frame
    body = data[:-size].replace(whole, b"").replace(MAGIC + b"\3", MAGIC + b"\1")
    head = struct.pack("<4sQ", b"DONE", 32)
    digest = hashlib.sha256(body).digest()
    crc = struct.pack("<I", zlib.crc32(digest, zlib.crc32(head)))
    target.write_bytes(body + head + crc + digest)
    with library(tmp_path / "other") as other:
        other.import_archive(target)
        assert text_of(other, other.document(row.id)) == text_of(store, row)


def test_a_damaged_map_is_seen(store: Store, tmp_path: Path) -> None:
    row = read_text(store, tmp_path, name="a.csv", text=TABLE)
    with store._database.transaction() as connection:
        connection.execute("UPDATE origins SET start = start + 1")
    assert [one.kind for one in store.check()] == ["document", "origins"]
    with store._database.transaction() as connection:
        connection.execute("UPDATE origins SET start = start - 1")
    assert row.id


@pytest.mark.parametrize("anchors", ["[[", "{}", "[[0,true,null,null]]", "[]", "[[0,1,5,-9]]"])
def test_a_damaged_map_costs_the_line_not_the_answer(
    store: Store, tmp_path: Path, anchors: str
) -> None:
    row = read_text(store, tmp_path, name="a.csv", text=TABLE)
    whole = cite(store, row, 0, 3, 0.5)
    assert whole.line is not None
    kept = store._database.query("SELECT anchors FROM origins")[0][0]
    for value, line in ((pack_text(anchors), None), (b"damaged", None), (kept, whole.line)):
        with store._database.transaction() as connection:
            connection.execute("UPDATE origins SET anchors = ?", (value,))
        cited = cite(store, row, 0, 3, 0.5)
        assert (cited.quote, cited.line) == (whole.quote, line)


@each_row(
    "text", ["", "5", "[5]", "[[1,2]]", '[[1,2,3,"x"]]', "[[-1,1,1,1]]", "[[0.5,1,null,null]]",
             "[[5,1,null,null],[-3,1,null,null]]", "[" * 100_000]
)  # fmt: skip
def test_a_map_that_no_library_writes_is_refused(text: str) -> None:
    with pytest.raises(CorruptStore, match="map from a text"):
        read_anchors(text)


@pytest.mark.thorough
def test_a_readers_own_word_on_lines_is_not_taken(store: Store, tmp_path: Path) -> None:
    row = read_text(store, tmp_path, name="a.txt", text=LOG)
    assert OLD_PARAMETER not in row.media_type


def test_long_texts_have_places_near_every_character() -> None:
    seen = SourceMap()
    seen.see(Block("word \n" * 10_000, line=1, origin=((0, 7),)))
    anchors = [anchor for _, text in seen.groups for anchor in read_anchors(text)]
    assert [one.start for one in anchors] == list(range(0, 60_000, 8192))
    assert all(one.line == one.start // 6 + 1 and one.first == one.start + 7 for one in anchors)


NUMBERS = st.none() | st.integers(0, 1 << 40)


@given(rows=st.lists(st.tuples(st.integers(1, 99), NUMBERS, NUMBERS, NUMBERS), max_size=8))
def test_anchors_are_packed_without_loss(
    rows: list[tuple[int, int | None, int | None, int | None]],
) -> None:
    anchors: list[Anchor] = []
    for step, line, first, length in rows:
        start = step + (anchors[-1].start if anchors else 0)
        last = None if first is None or length is None else first + length
        anchors.append(Anchor(start, line, first, last))
    assert read_anchors(pack_anchors(anchors)) == anchors


PIECES = st.lists(
    st.tuples(st.text("ab\n", min_size=1, max_size=9), st.sampled_from(["kept", "made", "lost"])),
    min_size=1, max_size=12,
)  # fmt: skip


@pytest.mark.thorough
@settings(max_examples=60, deadline=None)
@given(pieces=PIECES, limit=st.integers(4, 12))
def test_regrouping_keeps_places(pieces: list[tuple[str, str]], limit: int) -> None:
    """Of a source of kept, rewritten and dropped pieces, every slice of the text is found."""
    source, text = "", ""
    blocks, comes_from = [], []
    for piece, kind in pieces:
        at, line = len(source), source.count("\n") + 1
        source += piece
        if kind == "kept":
            blocks.append(Block(piece, line=line, origin=((0, at),)))
            comes_from += [(at + i, at + i + 1) for i in range(len(piece))]
        elif kind == "made":
            blocks.append(Block("x", line=line, origin=((0, at, len(source)),)))
            comes_from.append((at, len(source)))
    given_text = "".join(block.text for block in blocks)
    seen = SourceMap()
    for block in regroup(blocks, limit):
        assert len(block.text) <= max(limit, 1)
        text += block.text
        seen.see(block)
    assert text == given_text
    anchors = [anchor for _, one in seen.groups for anchor in read_anchors(one)]
    runs = [(a.start, a.first or 0) if a.last is None else (a.start, a.first or 0, a.last)
            for a in anchors]  # fmt: skip
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            expected = [comes_from[i] for i in range(start, end)]
            assert source_span(runs, start, end) == (
                min(first for first, _ in expected),
                max(last for _, last in expected),
            )
            assert source_span(runs_between(runs, start, end), 0, end - start) == source_span(
                runs, start, end
            )


def cells(letters: str) -> st.SearchStrategy[list[tuple[str, str]]]:
    cell = st.text(st.sampled_from(letters), max_size=8)
    return st.lists(st.tuples(cell, cell), min_size=1, max_size=6)


def check_table(rows: list[tuple[str, str]], folder: Path, *, plain: bool) -> None:
    """A mark in each row leads to the line where its row begins, and to the row's characters.

    Where the rows hold what could be delimiters the reader may see other rows than were written.
    """
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    begins: list[int] = []
    for number, row in enumerate(rows):
        begins.append(written.tell())
        writer.writerow([f"mark{number}", *row])
    source = written.getvalue()
    stops = [begin - 1 for begin in [*begins[1:], len(source)]]
    file = folder / "table.csv"
    file.write_text(source, encoding="utf-8")
    seen = set()
    for block in open_document(Source.from_path(file), isolate=False).blocks:
        for found in re.finditer(r"mark(\d+)", block.text):
            number = int(found[1])
            if number in seen:
                continue  # as a column's name, which every row repeats
            seen.add(number)
            span = source_span(block.origin, found.start(), found.end())
            assert span is not None and found[0] in source[slice(*span)]
            assert block.line_at(found.start()) == source.count("\n", 0, span[0]) + 1
            if plain:
                assert span == (begins[number], stops[number])
    assert len(seen) == len(rows)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=cells('ab ,"\n'))
def test_rows_name_their_lines_and_characters(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    check_table(rows, tmp_path_factory.getbasetemp(), plain=True)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=cells('ab ,;"\n|'))
def test_rows_that_are_hard_to_tell_name_no_wrong_place(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    check_table(rows, tmp_path_factory.getbasetemp(), plain=False)


def test_a_citation_begins_below_the_underline_of_a_heading(tmp_path: Path) -> None:
    text = "Pump\n----\n\nIt pumps. ---\n\n***\n"
    with library(tmp_path / "library") as opened:
        row = read_text(opened, tmp_path, name="pump.txt", text=text)
        citation = cite(opened, row, text.index("----"), text.index("***"), 0.9)
        assert citation.quote == text[citation.start : citation.end] == "It pumps. ---"
        marks = cite(opened, row, text.index("***"), len(text), 0.9)
        assert marks.quote == text[marks.start : marks.end] == "***"
