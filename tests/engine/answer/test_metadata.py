"""Questions about a document itself are answered from its head or its file's metadata."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from drt_engine.answer.ask import ask
from drt_engine.answer.candidates import Candidate, ReadQuestion
from drt_engine.answer.documents import DocumentRows
from drt_engine.answer.metadata.header import header_values
from drt_engine.answer.metadata.lookup import propose_fields
from drt_engine.answer.metadata.question import is_about, metadata_question, names_title
from drt_engine.answer.metadata.values import HEAD, Stored, find_value
from drt_engine.answer.options import AskOptions
from drt_engine.retrieval.filters import Scope
from drt_engine.store import Store
from tests.model_folder import library, read_text, runtime, text_of

BEES = """---
title: "Keeping bees in towns"
author: Mara Osei
date: 2023-05-14
version: 2.1
---

Bees were first kept on roofs in 1874, when Louis Vane published a guide. The city released its
rules in 1990; the third version of the rules was written by Ann Adair. Use frame version 3.
"""
MAIL = """From: Ada Quist <ada@harbour.example>
To: Tom Lind <tom@pier.example>
Subject: Crane inspection moved
Date: Mon, 3 Mar 2025 09:12:00 +0100
Content-Type: text/plain; charset=utf-8

Dear Tom, the crane inspection moves to 14 April 2025. Professor Ames wrote the new checklist.
"""
NOVEL = """The Salt Road

by Helena Marsh

Published 1911 by Dorn & Sons, Leeds

CHAPTER I

It was a long night, and a quiet one, until the door was opened and the lamp went out. The letter
came at noon. It was written by her uncle. "Who wrote it?" she asked.
"""


PACKAGE = """Name: hive
Version: 2.1
License-Expression: MIT
Requires-Python: >=3.9
Classifier: Topic :: Bees
Classifier: Topic :: Honey
Maintainer-email: Ann Lee <ann@hive.example>
Platform: UNKNOWN

# Hive

Hive counts bees. It requires a camera; the platform is of wood. License plates are not read.
"""

MANUAL = """.TH PEEL 1
.SH NAME
peel \\- peels fruit
.SH DESCRIPTION
Written for apples by default.
.SH AUTHORS
Written by Ada Quist and Tom Lind.
.SH SEE ALSO
core(1)
"""
MEMO = """Network Working Group                                         A. Quist
Request for Comments: 9999                                  Lamp Company
Category: Informational                                         T. Lind
                                                                May 2020

                          Lamps on Piers

   This memo was written for keepers.
"""
RULES = """= Pier Rules
Ada Quist <ada@pier.example>
1.3, 2013-08-07

Version 2 of the lamp is used.
"""
README = """# Peeler

It peels, since May 2020.

## Authors

Nobody but machines.
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("metadata")
    with library(folder / "library") as opened:
        for name, text in (
            ("bees.md", BEES),
            ("crane.eml", MAIL),
            ("salt.txt", NOVEL),
            ("hive.md", PACKAGE),
            ("peel.man", MANUAL),
            ("rfc9999.txt", MEMO),
            ("rules.adoc", RULES),
            ("peeler.md", README),
        ):
            read_text(opened, folder, name=name, text=text)
        yield opened


def proposed(store: Store, question: str, scope: Scope | None = None) -> Candidate | None:
    asked = ReadQuestion(question, runtime(), DocumentRows(store), scope or Scope())
    return next(iter(propose_fields(asked, store)), None)


def answer(store: Store, name: str, question: str) -> str | None:
    draft = proposed(store, question, Scope((store.document(name).id,)))
    return None if draft is None else draft.text


@pytest.mark.few(8)
@pytest.mark.parametrize(
    ("name", "question", "expected"),
    [
        ("bees.md", "Who wrote this article?", "Mara Osei"),
        ("bees.md", "When was it published?", "2023-05-14"),
        ("bees.md", "Which version is this document?", "2.1"),
        ("bees.md", "title of the document", "Keeping bees in towns"),
        ("bees.md", "author and date", "Mara Osei\ndate: 2023-05-14"),
        ("bees.md", "When did Louis Vane publish a guide?", None),
        ("bees.md", "Who wrote the third version of the rules?", None),
        ("bees.md", "When were the rules released?", None),
        ("bees.md", "Which version of the frame is used?", None),
        ("bees.md", "Who wrote the article about wasps?", None),
        ("crane.eml", "Who sent this message?", "Ada Quist <ada@harbour.example>"),
        ("crane.eml", "To whom was it sent?", "Tom Lind <tom@pier.example>"),
        ("crane.eml", "subject line", "Crane inspection moved"),
        ("crane.eml", "date of Ada's email", "Mon, 3 Mar 2025 09:12:00 +0100"),
        ("crane.eml", "When is the crane inspection?", None),
        ("crane.eml", "Who wrote the checklist?", None),
        ("salt.txt", "Who is the author of the book?", "Helena Marsh"),
        ("salt.txt", "Who published the book?", "Dorn & Sons"),
        ("salt.txt", "Who wrote the letter?", None),
        ("salt.txt", "When was the letter sent?", None),
        ("salt.txt", "When was it last updated?", None),
        ("hive.md", "Which Python version does hive require?", ">=3.9"),
        ("hive.md", "What licence is used?", "MIT"),
        ("hive.md", "Who is the maintainer?", "Ann Lee <ann@hive.example>"),
        ("hive.md", "classifiers", "Topic :: Bees; Topic :: Honey"),
        ("hive.md", "What is the platform?", None),  # which the header does not know
        ("hive.md", "Which camera is required?", None),
        ("hive.md", "Is there a license?", None),
        ("salt.txt", "What is the license?", None),
        ("peel.man", "Who wrote core?", None),
        ("peel.man", "When was peel updated?", None),
        ("rfc9999.txt", "Who are the authors of this RFC?", "A. Quist; T. Lind"),
        ("rfc9999.txt", "When was the RFC published?", "May 2020"),
        ("rfc9999.txt", "Who wrote the lamp?", None),
        ("rules.adoc", "Which version of the rules is this?", "1.3"),
        ("rules.adoc", "Who wrote this document?", "Ada Quist"),
        ("peeler.md", "Who is the author of this document?", None),
    ],
)
def test_what_a_document_says_of_itself(
    store: Store, name: str, question: str, expected: str | None
) -> None:
    assert answer(store, name, question) == expected


def test_the_value_is_cited_where_the_text_has_it(store: Store) -> None:
    document = store.document("bees.md")
    options = AskOptions(documents=(document.id,))
    result = ask(runtime(), store, "Who wrote this article?", options)
    assert (result.text, result.found, result.origin) == ("Mara Osei", True, "metadata")
    (citation,) = result.citations
    assert text_of(store, document)[citation.start : citation.end] == citation.quote == "Mara Osei"
    assert citation.metadata is None


def test_of_several_documents_one_has_to_be_named(store: Store) -> None:
    assert proposed(store, "Who wrote it?") is None
    draft = proposed(store, "Who wrote the book Keeping bees in towns?")
    assert draft is not None and draft.text == "Mara Osei"


def test_what_only_the_file_says_is_cited_as_such(tmp_path: Path) -> None:
    with library(tmp_path / "library") as plain:
        row = read_text(plain, tmp_path, name="plan.txt", text="we sail at dawn, says the captain.")
        plain.set_author_and_date(row.id, "Ann Lee", "2020-01-02")
        result = ask(runtime(), plain, "Who wrote this, and on what date?", AskOptions())
        assert (result.text, result.found) == ("Ann Lee; 2020-01-02", True)
        for citation, metadata in zip(
            result.citations, ("author: Ann Lee", "date: 2020-01-02"), strict=True
        ):
            assert (citation.metadata, citation.quote) == (metadata, "")
            assert citation.handle == f"{row.id[:8]}:0-0"
            assert citation.to_dict()["metadata"] == metadata
        assert proposed(plain, "What is its title?") is None  # a file's name


def test_speakers_of_a_transcript_are_no_fields() -> None:
    talk = "Ann: I came by sea.\nTom: I did not.\nMaster: Who did?\nAnn: You did.\n"
    assert header_values("Who is Ann?", talk, "Talk") == []
    assert [value.text for value in header_values("Ann?", talk, "Talk")][:1] == ["I came by sea."]


@pytest.mark.thorough
def test_a_version_in_the_title_of_the_file_alone_is_cited_as_such(tmp_path: Path) -> None:
    page = "<title>Rules of the pier 0.12.1</title><p>Free under version 2 of the GNU licence.</p>"
    with library(tmp_path / "library") as pages:
        read_text(pages, tmp_path, name="rules.html", text=page)
        draft = proposed(pages, "Which version is this document?")
        assert draft is not None and draft.text == "0.12.1"
        assert [c.metadata for c in draft.citations] == ["version: 0.12.1"]


@pytest.mark.parametrize(
    ("head", "field", "expected"),
    [
        ('#define ZLIB_VERSION "1.2.13"\n', "version", "1.2.13"),
        (
            "/* Copyright (C) 1995-2022 Jean Gail and Mark Adler */",
            "author",
            "Jean Gail and Mark Adler",
        ),
        ("Peter Novak\nFeb 2024\n\nText.", "author", "Peter Novak"),
        (
            "Ann Lee, ann@a.example\nTom Day, tom@a.example\n\nText.",
            "author",
            "Ann Lee, ann@a.example\nTom Day, tom@a.example",
        ),
        ("Field Guide\nMay 2020\n", "author", None),
        (
            "The Project Gutenberg eBook\n\nRelease Date: May 1, 2006\n\nLAMPS\n\n  1890\n",
            "date",
            "1890",
        ),
        ("The standard. Publication date March 19, 2015", "date", "March 19, 2015"),
        ("Dated this 1st day of May, 2020 in Hull", "date", "1st day of May, 2020"),
        ("Improved since v2.27. See v2.28", "version", "v2.28"),
        ("* **Author(s)**: Kai Seth\n", "author", "Kai Seth"),
        ('Author-email: "Bee Inc." <a@bee.example>\n', "author", '"Bee Inc." <a@bee.example>'),
        ('Author: "Kai Seth"\n', "author", "Kai Seth"),
        ("Original Authors\n\n- Ann Lee\n- Tom Day\n\nText.", "author", "- Ann Lee\n- Tom Day"),
        ("for infringements caused\nby: i) the use of the code or ii) its copies", "author", None),
        ("Free under the terms of version 2 of the GNU General Public License.", "version", None),
        ("License GPLv3+: GNU GPL version 3 or later", "version", None),
        ("under the GNU Licence as published; either version 2 or (at", "version", None),
        ("The Salt Licence\n  Version 1.3, 3 May 2008\n", "version", "Version 1.3"),
        ("under the Salt Licence as published by the Salt Foundation", "publisher", None),
        ("name: Buzz | released: 1996-06-17 | end: 1997-06-05\n", "date", None),
        (
            "An official guide published by the Open Project (www.open.example)",
            "publisher",
            "Open Project",
        ),
    ],
)
def test_values_in_the_first_lines(head: str, field: str, expected: str | None) -> None:
    value = find_value(field, head, Stored("", "", ""))  # type: ignore[arg-type]  a parameter
    assert (value and value.text) == expected
    assert value is None or head[value.start : value.end] == value.text


@pytest.mark.parametrize(
    ("below", "expected"),
    [
        ("Ann Lee Tom B. Day\n\nAbstract", "Ann Lee Tom B. Day"),
        (
            "Ann Lee1, Tom Day2, and Kai de Seth*\n\n## Abstract",
            "Ann Lee1, Tom Day2, and Kai de Seth",
        ),
        ("Ann Lee Tom Day\n\nThe lamps are lit.", None),
        ("Lit at Night\n\nAbstract", None),
        ("University Press\n\nAbstract", None),
        ("Abstract\n\nThe lamps are lit.", None),
    ],
)
def test_names_between_a_title_and_the_abstract(below: str, expected: str | None) -> None:
    head = f"Lamps of the Quay: A\nSurvey\n\n{below}\n\nText.\n"
    value = find_value("author", head, Stored("Lamps of the Quay: A Survey", "", ""))
    assert (value and value.text) == expected


def test_thousands_of_names_or_blank_lines_below_a_title_take_no_time() -> None:
    for filler in ("Ann ", "\n", " \n", "Ann\n", "1,"):
        started = time.monotonic()
        find_value("author", "Lamps\n" + filler * 10_000 + "\n\nAbstract", Stored("Lamps", "", ""))
        assert time.monotonic() - started < 1, filler


def test_a_version_is_no_other_one_with_the_same_digits() -> None:
    names = {"title": "Version 3.2.0 of lamps", "author": "", "head": "", "media_type": ""}
    for version, expected in (("3.2.0", True), ("3.3.0", False), ("2.3.0", False)):
        asked = metadata_question(f"When was version {version} released?")
        assert asked is not None and is_about(asked, **names) is expected
        assert names_title(asked, names["title"]) is expected


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("Ann Lee\n\nEditor\n\nTom Day\n\nEditor\n\nKai Seth\n", "Tom Day\n\nEditor\n\nKai Seth"),
        ("Lamps, by Ann Lee\n\nEdited by Tom Day\n", "Tom Day"),
        ("Author: Ann Lee\nEditors: Tom Day, Kai Seth\n", "Tom Day, Kai Seth"),
        ("Author: Ann Lee\nThe editor was ill.\n", None),
    ],
)
def test_who_edited_something_is_not_who_wrote_it(head: str, expected: str | None) -> None:
    value = find_value("editor", head, Stored("", "Ann Lee", ""))
    assert (value and value.text) == expected
    asked = metadata_question("Who edited the book?")
    assert asked is not None and asked.fields == ("editor",)


def test_thousands_of_editors_or_blank_lines_take_no_time() -> None:
    for filler in ("Editor\n", "Editor\n\nAnn Lee\n", "\n", " \n", "Edited by "):
        started = time.monotonic()
        find_value("editor", filler * 10_000, Stored("", "", ""))
        assert time.monotonic() - started < 1, filler


@pytest.mark.parametrize(
    ("question", "subject", "expected"),
    [
        ("Who replied?", "Re: [PATCH] lamps", True),
        ("Who wrote the reply?", "Re: [PATCH] lamps", True),
        ("Who wrote the patch?", "Re: [PATCH] lamps", False),
        ("Who wrote the patch?", "[PATCH] lamps", True),
        ("Who replied?", "[PATCH] lamps", False),
    ],
)
def test_a_reply_is_no_patch_that_it_quotes(question: str, subject: str, expected: bool) -> None:
    asked = metadata_question(question)
    head, kind = f"From: Ann Lee\nSubject: {subject}\n\nNo.", "message/rfc822"
    assert asked is not None
    assert is_about(asked, title=subject, author="Ann Lee", head=head, media_type=kind) is expected
    assert not is_about(asked, title="A", author="", head="A story", media_type="text/plain")


def test_questions_about_other_things() -> None:
    for question in (
        "Who are you?",
        "How was this written?",
        "When was it?",
        "Why was the letter sent?",
        "Which page is longest?",
        "When does the ferry leave?",
    ):
        assert metadata_question(question) is None, question


@pytest.mark.parametrize(
    ("line", "author", "date"),
    [
        ("Ann Lee, 2022", "Ann Lee", "2022"),
        ("*Ann B. Lee, 5 May 2022*", "Ann B. Lee", "5 May 2022"),
        ("Technology Office, 2022", None, None),
        ("In Upper Town, 2022 was a wet year.", None, None),
    ],
)
def test_a_line_of_a_name_and_a_date(line: str, author: str | None, date: str | None) -> None:
    head = f"{line}\n\n# The numbers of Babylon\n\nThey had sixty.\n"
    stored = Stored("The numbers of Babylon", "", "")
    values = [find_value(field, head, stored) for field in ("author", "date")]
    assert [value and value.text for value in values] == [author, date]
    assert all(v is None or head[v.start : v.end] == v.text for v in values)


@pytest.mark.parametrize("blank", ["\n", "  ", " \n", "#", "*", " *\n"])
def test_thousands_of_blank_lines_or_marks_above_a_field_do_not_hang(blank: str) -> None:
    head = f"{blank * (HEAD // len(blank) - 30)}\n @author Ann Lee\n"
    value = find_value("author", head, Stored("", "", ""))
    assert value is not None and head[value.start : value.end] == "Ann Lee"


@pytest.mark.thorough
def test_mails_of_a_thread_have_their_subject_and_who_began_in_common(tmp_path: Path) -> None:
    first = f"From ada Mon Mar  3 09:12:00 2025\n{MAIL}\n"
    reply = (
        "From tom Mon Mar  3 10:00:00 2025\nFrom: Tom Lind <tom@pier.example>\n"
        "To: Ada Quist <ada@harbour.example>\nSubject: Re: Crane inspection\n moved\n"
        "Date: Mon, 3 Mar 2025 10:00:00 +0100\n\nI shall be there.\n"
    )
    questions = ("What is the subject of the mails?", "Who started the thread?")
    for texts, expected in (
        ((first, reply), ["Crane inspection moved", "Ada Quist <ada@harbour.example>"]),
        ((first, reply.replace("Crane inspection", "Lamps")), [None, None]),
    ):
        with library(tmp_path / f"library{expected[0]}") as store:
            read_text(store, tmp_path, name=f"{expected[0]}.mbox", text="\n".join(texts))
            for question, value in zip(questions, expected, strict=True):
                draft = proposed(store, question)
                assert (draft and draft.text) == value
            assert proposed(store, "Who wrote the mails?") is None
            assert proposed(store, "When was the thread sent?") is None
