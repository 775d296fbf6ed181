"""Man pages: no word is lost, no roff is left, options are above what they do."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt_engine.documents.base import Source
from drt_engine.documents.man.escapes import arguments, plain
from drt_engine.documents.registry import find_format
from tests.engine.documents.helpers import joined, read
from tests.tables import each_row

HEAD = '.TH "PEEL" "1" "2024-03-05" "fruit-utils 4\\&.2" "User Commands"\n'


def man(tmp_path: Path, body: str) -> str:
    text = joined(read(tmp_path / "peel.1", HEAD + body)[1])
    head = "Title: peel(1)\nDate: 2024-03-05\nVersion: fruit-utils 4.2\nManual: User Commands\n\n"
    assert text.startswith(head)
    return text.removeprefix(head)


def test_the_head_of_a_page(tmp_path: Path) -> None:
    content = f'\'\\" t\n.\\"    Author: Ann Lee\n.\\" A licence.\n{HEAD}.SH NAME\npeel \\- peels\n'
    document, blocks = read(tmp_path / "peel.1", content)
    assert (document.title, document.author, document.date) == ("peel(1)", "Ann Lee", "2024-03-05")
    assert document.media_type == "text/troff"
    assert [(b.section, b.line) for b in blocks][-1] == ("NAME", 6)
    assert joined(blocks).endswith("Author: Ann Lee\n\nNAME\n\npeel - peels\n")
    assert document.skipped == ("3 lines (comments, layout or macros)",)


@each_row(
    ("body", "expected"),
    [
        ("Peels\n.B two\nof\n.IR them ,\nat once\\&.\n", "Peels two of them, at once.\n"),
        ('.TP\n.BR \\-a ", " \\-\\-all\nPeel\nall.\n', "-a, --all\nPeel all.\n"),
        (
            ".PP\n\\fB\\-q\\fR\n.RS 4\nSay nothing\\&.\n.sp\nAt all.\n.RE\n.PP\nEnd.\n",
            "-q\nSay nothing.\n\nAt all.\n\nEnd.\n",
        ),
        (".IP \\(bu 2\nOne.\n.IP \\(bu 2\nTwo.\n", "- One.\n\n- Two.\n"),
        ('.IP 1. 4\nOne.\n.IP "\\fIfile\\fR" 4\nTwo.\n', "1. One.\n\nfile\nTwo.\n"),
        (
            ".ie n \\{\\\n\\h'-04'\\(bu\\h'+03'\\c\n.\\}\n.el \\{\\\n.IP \\(bu 2.3\n.\\}\nText.\n",
            "\u2022Text.\n",
        ),
        (".if t .ds x y\n.if \\nF \\{\\\nlost\n.if n \\{ lost\n.\\}\n.\\}\nText.\n", "Text.\n"),
        (".de Vb\n.ft CW\nlost\n..\n.Vb 4\nkept\n", "kept\n"),
        (".ss 12 0\none\n.br\ntwo\n.ex\n.de XX\nlost\n..\n", "one\ntwo\n"),
        (".EX\npeel  \\-a\n  apple\n.EE\nText.\n", "peel  -a\n  apple\n\nText.\n"),
        ("See\n.UR https://a.example\nhere\n.UE .\n", "See here <https://a.example>.\n"),
        (
            ".TS\nallbox tab(:);\nlB lB\nl l.\n"
            "Name:Use\nT{\nApple\nred\nT}:eat\n_\nNut:crack\n.TE\n",
            "Name | Use\nApple red | eat\nNut | crack\n\n",
        ),
        (".if t \\{ lost \\}\nkept\n", "kept\n"),
        (".ie n \\{.B kept\\}\n.el \\{ lost \\}\nText.\n", "kept Text.\n"),
        (".ie n \\{\\\n.if t lost\nkept\n.\\}\n.el \\{\\\nlost\n.\\}\nText.\n", "kept Text.\n"),
        (".ig QQ\nlost\n.QQQ\n.QQ\n.de YY\nlost\n. .\nText.\n", "Text.\n"),
        (".nf\na\n.SH B\nc\nd\n", "a\nB\n\nc d\n"),
        (".nf\n.TP\na\n.fi\nb\nc\n", "a\n\nb c\n"),
        (".SY peel\n.OP \\-a file\n.YS\nSee\n.MR cut 1 .\n", "peel [-a file]\n\nSee cut(1).\n"),
        (".TS\nl l.\na\tT{\nb\nc\n.TE\nText.\n", "a | b c\n\nText.\n"),
        ("a \\*(Aqb\\*(Aq \\[u2014] \\(lqc\\(rq\n", "a 'b' \u2014 \u201cc\u201d\n"),
    ],
)
def test_macros(tmp_path: Path, body: str, expected: str) -> None:
    assert man(tmp_path, body) == expected


def test_what_is_not_read_is_named(tmp_path: Path) -> None:
    body = ".SH A\n.so man1/other.1\n.EQ\nx over y\n.EN\nText.\n"
    document, blocks = read(tmp_path / "peel.1", HEAD + body)
    assert joined(blocks).endswith("A\n\nText.\n")
    assert document.skipped == (
        "included file man1/other.1 (other files are not read)",
        "equation (roff is not run)",
        "4 lines (comments, layout or macros)",
    )


def test_sections_and_lines(tmp_path: Path) -> None:
    body = '.SH\nOPTIONS\n.SS "Of all"\nFirst\nword.\n.PP\nSecond.\n'
    _, blocks = read(tmp_path / "peel.1", HEAD + body)
    (second,) = (block for block in blocks if "Second" in block.text)
    assert second.section == "OPTIONS > Of all"
    line = second.line_at(second.text.index("Second"))
    assert line == 8
    (first,) = (block for block in blocks if "First" in block.text)
    assert (HEAD + body)[first.origin_at(first.text.index("First")) or 0 :].startswith(
        "First\nword"
    )


def test_places_of_what_is_on_several_lines(tmp_path: Path) -> None:
    body = "one\\c\ntwo\n.TS\nl l.\nT{\nfirst\nT}\tlast\n.TE\n"
    _, blocks = read(tmp_path / "peel.1", HEAD + body)
    text = HEAD + body
    (paragraph,) = (block for block in blocks if "onetwo" in block.text)
    assert text[paragraph.origin_at(paragraph.text.index("onetwo")) or 0 :].startswith("one\\c")
    (row,) = (block for block in blocks if "first | last" in block.text)
    assert text[row.origin_at(row.text.index("first | last")) or 0 :].startswith("T{\nfirst")
    assert row.line_at(row.text.index("first")) == 6


@each_row(
    ("content", "name"),
    [
        ('.TH "CREATE TABLE" "7" "2024"\n.SH NAME\nx\n', "man"),
        (".TH Tk n 8.6\n.SH NAME\nx\n", "man"),
        ('.\\" comment\n.TH PEEL 1\n.SH NAME\nx\n', "man"),
        ("Mar 5 12:00 host daemon: .TH is no title\n", "text"),
        (".Dd March 5, 2024\n.Dt PEEL 1\n", "man"),
        (".Dt is a macro of mdoc\n", "text"),
    ],
)
def test_the_content_tells_a_page_from_a_rotated_log(
    tmp_path: Path, content: str, name: str
) -> None:
    path = tmp_path / "syslog.1"
    path.write_text(content)
    found = find_format(Source.from_path(path))
    assert found is not None and found.name == name


def test_escapes_and_arguments() -> None:
    assert plain('\\fB\\-\\-x\\fP\\s-1y\\s0 \\e \\.z\\" gone') == "--xy \\ .z"
    assert plain("\\[:o]\\(co\\N'39'") == "\u00f6\u00a9'"
    assert plain("\\[char65]\\C'rs'\\[u0041_0301]\\[u110000]a\\tb") == "A\\\u00c1a\tb"
    assert arguments('one "two ""three""" fo\\ ur') == ["one", 'two "three"', "fo\\ ur"]


@pytest.mark.thorough
@each_row("body", [".if n " * 600, "\\[" * 100_000, ".ie n \\{\\\n" * 20_000, "a\\c\n" * 20_000])
def test_hostile_lines_are_read_without_depth_or_squares(tmp_path: Path, body: str) -> None:
    blocks = read(tmp_path / "peel.1", f"{HEAD}.SH NAME\npeel - peels\n{body}\n")[1]
    assert "peel - peels" in joined(blocks)


def test_surrogates_and_controls_print_nothing() -> None:
    assert plain("a\\[uD800]b\\[u0007]c\\[u2019]d") == "abc\u2019d"
