"""The table of formats, plug-ins of other distributions, and what is said of unknown files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from drt_engine.documents import Block, Format, OpenDocument, Source, formats, open_document
from drt_engine.documents.formats import BUILT_IN, all_formats, by_suffix, format_named, plugins
from drt_engine.documents.registry import find_format
from drt_engine.errors import MissingExtra, UnreadableDocument, UnsupportedFormat
from tests.engine.documents.helpers import joined, make_pdf
from tests.engine.documents.makers import make_docx, make_odt, make_xlsx, paragraph
from tests.tables import each_row


class ScoreReader:
    """Reads files that begin with SCORE."""

    def recognises(self, head: bytes) -> bool:
        return head.startswith(b"SCORE\0")

    def open(self, source: Source) -> OpenDocument:
        with source.open() as file:
            text = file.read().decode("utf-8").removeprefix("SCORE\0")
        return OpenDocument("A score", "text/x-score", iter([Block(text, section="Music")]))


SCORE = Format("score", "music", (".score", ".pdf"), f"{__name__}:ScoreReader", isolated=False)
ABSENT = Format("absent", "absent", (".absent",), "nowhere:Reader", isolated=False)
NEEDY = Format("needy", "needy", (".needy",), "nowhere:Reader", package="nowhere", isolated=False)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[metadata.EntryPoint]]:
    """Entry points as if distributions had them."""
    points = [
        metadata.EntryPoint("score", f"{__name__}:SCORE", formats.GROUP),
        metadata.EntryPoint("needy", f"{__name__}:NEEDY", formats.GROUP),
        metadata.EntryPoint("absent", f"{__name__}:ABSENT", formats.GROUP),
        metadata.EntryPoint("gone", "no_such_module:X", formats.GROUP),
        metadata.EntryPoint("wrong", f"{__name__}:ScoreReader", formats.GROUP),
    ]
    monkeypatch.setattr(metadata, "entry_points", lambda group: points)
    plugins.cache_clear()
    yield points
    plugins.cache_clear()


@pytest.mark.usefixtures("installed")
def test_a_plug_in_reads_its_suffixes_and_its_content(tmp_path: Path) -> None:
    for name in ("a.score", "a.pdf", "a.bin"):
        (tmp_path / name).write_bytes(b"SCORE\0do re mi")
        document = open_document(Source.from_path(tmp_path / name))
        assert (document.title, joined(list(document.blocks))) == ("A score", "do re mi")


@pytest.mark.usefixtures("installed")
def test_broken_plug_ins_are_named_and_stop_nothing(tmp_path: Path) -> None:
    assert {one.name: one.why.partition(":")[0] for one in plugins().broken} == {
        "gone": "ModuleNotFoundError",
        "wrong": f"{__name__}",
    }
    (tmp_path / "a.bin").write_bytes(b"\0\1\2\3")
    with pytest.raises(UnsupportedFormat, match="gone is broken: ModuleNotFoundError"):
        open_document(Source.from_path(tmp_path / "a.bin"))
    (tmp_path / "a.txt").write_text("words")
    assert joined(list(open_document(Source.from_path(tmp_path / "a.txt")).blocks)) == "words"


@pytest.mark.usefixtures("installed")
def test_what_a_plug_in_lacks_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.needy").write_text("words")
    with pytest.raises(MissingExtra, match="needs the package nowhere; .*: pip install nowhere$"):
        open_document(Source.from_path(tmp_path / "a.needy"))


@pytest.mark.usefixtures("installed")
def test_a_plug_in_without_its_reader_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.absent").write_text("words")
    with pytest.raises(UnreadableDocument, match="the reader of absent cannot be loaded"):
        open_document(Source.from_path(tmp_path / "a.absent"))


def test_built_in_formats_need_no_entry_point() -> None:
    assert plugins().formats == ()
    assert all_formats() == BUILT_IN
    suffixes = [suffix for one in BUILT_IN for suffix in one.suffixes]
    assert len(suffixes) == len(set(suffixes))
    assert all(suffix == suffix.lower() and suffix.startswith(".") for suffix in suffixes)


def test_every_reader_is_there_and_shy() -> None:
    """No reader takes what is another's: text, nothing, and bytes of no format."""
    for one in BUILT_IN:
        assert format_named(one.name) is one
        if one.installed:
            reader = one.load()
            for head in (b"", b"Some words.\n" * 9, b"\0\1\2\3"):
                assert reader.recognises(head) is (one.name == "text" and b"\0" not in head)


@each_row(
    ("name", "format_name"),
    [
        ("REPORT.PDF", "pdf"),
        ("a.tar.gz", "archive"),
        ("a.b.c.md", "markdown"),
        ("archive.tgz", "archive"),
        ("ls.1.gz", "archive"),
        ("a.Rmd", "markdown"),
        ("m.hpp", "code"),
    ],
)
def test_suffixes(name: str, format_name: str) -> None:
    found = by_suffix(name)
    assert found is not None and found.name == format_name
    assert find_format(Source.from_path(name)) is found


@each_row("name", ["a.z", "pdf", "tar.gz.x", ".", ""])
def test_no_suffix(name: str) -> None:
    assert by_suffix(name) is None


@each_row(
    ("head", "format_name"),
    [
        (b"%PDF-1.7\n", "pdf"),
        (b"<!DOCTYPE html><p>x", "html"),
        (b"From a@b.c Tue Mar  5 10:00:00 2024\nSubject: x\n\nHi\n", "email"),
        (b"Received: from x\nFrom: a@b.c\nSubject: x\n\nHi\n", "email"),
        (b'{\n "cells": [{"cell_type": "markdown", "source": "x"}]}', "notebook"),
        (b"#!/bin/sh\nfoo() {\n}\n", "code"),
        (b"% paper\n\\documentclass{article}\n\\begin{document}x", "latex"),
        (b"From here on it is only prose.\n", "text"),
        (b"To: be or not to be\nThat: is the question\n", "text"),
        (b'{"a": 1}\n', "text"),
        (b"Plain words", "text"),
    ],
)
def test_content(head: bytes, format_name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(head)
    found = find_format(Source.from_path(tmp_path / "file"))
    assert found is not None and found.name == format_name


def test_an_unknown_file_names_formats_and_plug_ins(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\x89PNG\0")
    with pytest.raises(UnsupportedFormat) as caught:
        open_document(Source.from_path(tmp_path / "a.bin"))
    for part in ("PDF (.pdf)", "Word (.docx)", "EPUB (.epub)", "plug-in", "drt formats"):
        assert part in str(caught.value)


def test_a_missing_extra_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pypdfium2", "rapidocr"):
        monkeypatch.setitem(sys.modules, module, None)
    assert [one.name for one in BUILT_IN if not one.installed] == ["pdf", "picture"]


def test_the_first_bytes_tell_a_format_that_a_suffix_hides(tmp_path: Path) -> None:
    word = make_docx(paragraph("The quay is old."))
    contents = {
        "a.pdf": (word, "docx"),
        "a.txt": (word, "docx"),
        "a.docx": (make_odt("<text:p>The quay is old.</text:p>"), "odt"),
        "a.md": (make_xlsx({"Quays": [["quay", "age"], ["old", 3]]}), "xlsx"),
        "a.odt": (make_pdf([["The quay is old."]]), "pdf"),
        # An archive may hold what looks like one, and what is broken is what its name says.
        "a.zip": (word, "archive"),
        "b.docx": (b"PK\x03\x04broken", "docx"),
        "b.pdf": (b"The quay is old.", "pdf"),
        "b.txt": (b"PDF, as in %PDF-1.5", "text"),
    }
    for name, (content, expected) in contents.items():
        (tmp_path / name).write_bytes(content)
        found = find_format(Source.from_path(tmp_path / name))
        assert found is not None and found.name == expected, name
    document = open_document(Source.from_path(tmp_path / "a.txt"))
    assert "The quay is old." in joined(list(document.blocks))
