"""Messages that Outlook saved (.msg) are read as e-mails."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt_engine.documents import OpenDocument, Source, open_document
from drt_engine.documents.formats import format_named
from drt_engine.errors import DocumentError, UnreadableDocument
from tests.engine.documents import outlook_files as outlook
from tests.tables import each_row

pytest.importorskip("oxmsg")
SENT = (11_644_473_600 + 1_700_000_000) * 10_000_000  # 14 November 2023
TEXTS = {
    outlook.SUBJECT: "The boiler in house 4",
    outlook.BODY: "The boiler was replaced on Monday.\r\n\r\nIt cost 1,250 crowns.",
    outlook.SENDER: "Ann Lee",
    outlook.SENDER_ADDRESS: "ann@example.org",
}
PEOPLE = (("Bo Ek", "bo@example.org"), ("", "cy@example.org"))


def opened(tmp_path: Path, content: bytes) -> OpenDocument:
    (tmp_path / "a.msg").write_bytes(content)
    return open_document(Source.from_path(tmp_path / "a.msg"))


def test_a_message_is_read_with_its_headers_and_attachments(tmp_path: Path) -> None:
    files = {"meter.csv": b"day,liters\n1,40\n", "photo.jpg": b"\xff\xd8\xff" * 50}
    document = opened(tmp_path, outlook.message(TEXTS, people=PEOPLE, attachments=files, sent=SENT))
    assert document.title == "The boiler in house 4"
    assert (document.author, document.date) == ("Ann Lee <ann@example.org>", "2023-11-14")
    blocks = list(document.blocks)
    text = "".join(block.text for block in blocks)
    assert "To: Bo Ek <bo@example.org>, cy@example.org\n" in text
    assert "The boiler was replaced on Monday.\n\nIt cost 1,250 crowns.\n" in text
    assert "Attachment meter.csv:\n\nday,liters\n1,40\n" in text
    assert "Attachment photo.jpg (not read)" in text
    assert document.skipped == ("attachment photo.jpg (not read; save and read separately)",)
    assert {block.section for block in blocks} == {"The boiler in house 4"}
    assert all(block.line is None for block in blocks)


@pytest.mark.thorough
def test_a_date_that_is_not_known_is_left_out(tmp_path: Path) -> None:
    document = opened(tmp_path, outlook.message(TEXTS))
    assert document.date == "" and "1601" not in "".join(block.text for block in document.blocks)


def test_html_is_read_where_there_is_no_other_text(tmp_path: Path) -> None:
    html = "<html><body><p>The boiler was <b>replaced</b>.</p></body></html>"
    texts = {outlook.SUBJECT: "House 4", 0x1013: html}
    text = "".join(block.text for block in opened(tmp_path, outlook.message(texts)).blocks)
    assert "The boiler was replaced." in text


@pytest.mark.thorough
@each_row("end", [600, 1200, -600, -200])
def test_a_message_that_was_cut_is_a_sentence(tmp_path: Path, end: int) -> None:
    content = outlook.message(TEXTS, people=PEOPLE, sent=SENT)[:end]
    try:
        document = opened(tmp_path, content)
        assert "boiler" in "".join(block.text for block in document.blocks)
    except DocumentError as error:
        assert "get or export it again" in str(error) or "give a document with" in str(error)
        assert "failed with" not in str(error)


@pytest.mark.thorough
def test_what_has_the_suffix_alone_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UnreadableDocument, match="not a whole Outlook message"):
        opened(tmp_path, b"Subject: the boiler\n\nIt was replaced.\n")


def test_a_message_is_known_by_its_bytes() -> None:
    reader = format_named("msg").load()
    assert reader.recognises(outlook.message(TEXTS)[:8192])
    assert not reader.recognises(outlook.compound_file({"WordDocument": b"text"}))
