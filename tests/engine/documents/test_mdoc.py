"""Man pages of BSD systems: macros that mark words print as readers of a terminal see them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.documents.helpers import joined, read
from tests.tables import each_row

HEAD = (
    '.\\" A licence.\n.Dd $Mdocdate: March 5 2024 $\n.Dt PEEL 1\n.Os "FruitBSD 4"\n'
    ".Sh NAME\n.Nm peel\n.Nd peels\n"
)


def mdoc(tmp_path: Path, body: str) -> str:
    text = joined(read(tmp_path / "peel.1", HEAD + body)[1])
    head = "Date: March 5 2024\nTitle: peel(1)\nVersion: FruitBSD 4\n\nNAME\n\npeel - peels\n\n"
    assert text.startswith(head)
    return text.removeprefix(head)


def test_the_head_of_a_page(tmp_path: Path) -> None:
    body = ".Sh OPTIONS\n.Ss Of all\nFirst.\n"
    document, blocks = read(tmp_path / "peel.1", HEAD + body)
    assert (document.title, document.date) == ("peel(1)", "2024-03-05")
    assert document.media_type == "text/troff"
    assert [(b.section, b.line) for b in blocks][-1] == ("OPTIONS > Of all", 10)
    assert document.skipped == ("line (comments, layout or macros)",)


@each_row(
    ("body", "expected"),
    [
        (
            ".Sh SYNOPSIS\n.Nm\n.Op Fl ab\n.Op Fl o Ar file Ns | Ns Fl\n.Ar fruit ...\n"
            ".Nm\n.Fl h\n",
            "SYNOPSIS\n\npeel [-ab] [-o file|-] fruit ...\npeel -h\n",
        ),
        (
            '.Sh SYNOPSIS\n.In peel.h\n.Ft int\n.Fn peel "char *fruit" "int n"\n',
            "SYNOPSIS\n\n#include <peel.h>\nint\npeel(char *fruit, int n)\n",
        ),
        ("See\n.Xr apple 7 ,\n.Pq or Xr nut 7 .\n", "See apple(7), (or nut(7)).\n"),
        ("Use\n.Oo Fl -all Oc\nor\n.Do a Dc .\n", "Use [--all] or \u201ca\u201d.\n"),
        ("With\n.Fl Fl all ,\n.Fl\nor\n.Ar .\n", "With --all, - or file ....\n"),
        (".Pf ( Ar x )\n.No a Ns Ap s\n.Sm off\n.Li b c\n.Sm on\nd\n", "(x) a's bc d\n"),
        ('.Em "Op en" Ar Op\n', "Op en file ... []\n"),
        (
            ".Bl -tag -width x\n.It Fl a , Fl Fl all\nPeel\nall.\n"
            ".It Xo\n.Fl s\n.Ar n\n.Xc\nStop.\n.El\n",
            "-a, --all\nPeel all.\n\n-s n\nStop.\n\n",
        ),
        (
            ".Bl -enum -compact\n.It\nOne.\n.It\nTwo:\n"
            ".Bl -bullet\n.It\nIn.\n.El\n.It\nThree.\n.El\n",
            "1. One.\n\n2. Two:\n\n- In.\n\n3. Three.\n\n",
        ),
        (
            ".Bl -column a b\n.It Em Name Ta Em Use\n.It apple\teat\n.El\n",
            "Name | Use\napple | eat\n\n",
        ),
        (
            "So:\n.Bd -literal -offset indent\npeel  x\n.Cm all Ns :\n.Ed\n.Dl $ peel -a\nEnd.\n",
            "So:\npeel  x\nall:\n\n$ peel -a\nEnd.\n",
        ),
        (
            '.Ex -std\n.Rs\n.%A A. Lee\n.%T "On fruit"\n.Re\n',
            "The peel utility exits 0 on success, and >0 if an error occurs. A. Lee, On fruit.\n",
        ),
        (".An -nosplit\n.An Ann Lee Aq Mt a@b.example\n", "Ann Lee <a@b.example>\n"),
        (".Lk https://a.example here\non\n.Fx 14 .\n", "here <https://a.example> on FreeBSD 14.\n"),
        ('.Bk -words\n.Sy x\n.Ek\n.if n .Em y\n.\\" gone\n\\*(Lt \\*[Ge]\n', "x y < \u2265\n"),
    ],
)
def test_macros(tmp_path: Path, body: str, expected: str) -> None:
    assert mdoc(tmp_path, body) == expected


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "body",
    [
        ".Op " * 50_000,
        "." + "Oo " * 50_000,
        ".Fn " + "a " * 50_000,
        ".El\n" * 999,
        ".Bl\n" * 50_000,
    ],
)
def test_hostile_lines_are_read_without_depth_or_squares(tmp_path: Path, body: str) -> None:
    assert joined(read(tmp_path / "peel.1", f"{HEAD}{body}\n.Sh END\n")[1]).endswith("END\n\n")
