"""Text of documents, titles and questions stays text, wherever it is shown."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from drt import Answer, Citation, Trace, TraceDocument, TraceEntry, TraceGroup, TraceToken
from drt import _types as types
from drt_cli._output import print_answer
from drt_cli._text import csv_cell, markdown, one_line, printable
from drt_cli.commands.chat import _as_csv, _as_markdown
from tests.cli.conftest import Drt
from tests.cli.hostile import PAYLOADS
from tests.tables import each_row

SEEN = {
    *("html", "head", "meta", "title", "script", "body", "main", "section", "footer", "div"),
    *("h1", "h2", "h3", "p", "span", "br", "b", "i", "a", "mark", "details", "summary"),
    *("dl", "dt", "dd", "ol", "li", "svg", "path"),
}


def test_there_are_two_hundred() -> None:
    assert len(PAYLOADS) >= 200 and len(set(PAYLOADS)) == len(PAYLOADS)


def harmless(text: str) -> bool:
    return not any(
        (unicodedata.category(c) == "Cc" and c not in "\t\n")
        or c in "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
        for c in text
    )


def citation(text: str) -> Citation:
    return Citation(
        document=text or "x",
        title=text,
        source=text,
        start=0,
        end=len(text),
        quote=text,
        page=None,
        section=text,
        probability=0.5,
        context=f"before {text} after",
    )


def answer(text: str) -> Answer:
    return Answer(text, True, 0.5, "free", (citation(text),), 1, 0.1, text)


def trace(*texts: str) -> Trace:
    """A trace that has each text in every place, the first one as its question."""
    candidates = tuple(
        types.TraceCandidate(n, text, text, 0, text, 1.0, True) for n, text in enumerate(texts)
    )
    entries = tuple(
        TraceEntry(n, text, text, 0, text, 1.0, 0.5, "both", None, text, 0.5, 0.5, 0.5, 0.5)
        for n, text in enumerate(texts)
    )
    group = TraceGroup(0, 0, entries, candidates, candidates)
    mass = (tuple(0.1 for _ in texts),)
    tokens = tuple(
        TraceToken(text, part, 0, mass) for part in ("question", "answer") for text in texts
    )
    documents = tuple(TraceDocument(text, text, text, 9, (0.0, 1.0)) for text in texts)
    return Trace(texts[0], (group,), tokens, documents, answer(texts[0]))


@pytest.mark.parametrize("number", range(0, len(PAYLOADS), 20))
def test_a_terminal(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    for payload in PAYLOADS[number : number + 20]:
        assert harmless(printable(payload)) and harmless(one_line(payload))
        assert "\n" not in one_line(payload)
        print_answer(answer(payload))
        assert harmless(capsys.readouterr().out)


class Page(HTMLParser):
    """The elements and attributes of a page, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: dict[str, set[str]] = {}
        self.scripts = 0
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.scripts += tag == "script"
        for name, value in attrs:
            self.attributes.setdefault(name, set()).add(value or "")

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def page(*payloads: str) -> Page:
    parser = Page()
    text = trace(*payloads).as_html()
    parser.feed(re.sub("<style>.*?</style>", "", text, count=1, flags=re.S))
    parser.close()
    return parser


def test_a_page() -> None:
    plain = page(*(f"plain {number}" for number in range(8)))
    for number in range(0, len(PAYLOADS) - 7, 8):
        payloads = PAYLOADS[number : number + 8]
        found = page(*payloads)
        assert found.tags == plain.tags <= SEEN, payloads
        assert found.scripts == 1 and found.attributes.keys() == plain.attributes.keys(), payloads
        for name in ("href", "id", "class", "http-equiv", "content"):
            assert found.attributes.get(name) == plain.attributes.get(name), (payloads, name)
        assert all(re.fullmatch(r"[-\w:;.%(), ]+", one) for one in found.attributes["style"])
        assert harmless("".join(found.text).replace("\ufffd", ""))
    marked = "".join(page("<b>&amp;</b>").text)
    assert marked.count("<b>&amp;</b>") > 5  # what it was is what is read


def test_a_page_may_load_nothing_and_run_only_its_own_script() -> None:
    text = trace("plain").as_html()
    assert "default-src 'none'" in text and re.search(r"script-src 'sha256-[\w+/=]{44}'", text)
    plain = page("plain")
    assert not {"src", "srcset", "action", "data"} & plain.attributes.keys()
    assert plain.attributes["href"] == {"#c1"}
    assert "http:" not in text and "https:" not in text and "@import" not in text


def test_the_pages_script_is_the_one_it_allows() -> None:
    import base64
    import hashlib

    text = trace("plain").as_html()
    script = text.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in text


def test_a_table() -> None:
    for payload in PAYLOADS:
        cell = csv_cell(payload)
        assert harmless(cell) and cell.lstrip()[:1] not in tuple("=+-@|%"), payload
        said: list[Any] = [(payload, answer(payload), None)]
        rows = list(csv.reader(io.StringIO(_as_csv(said), newline="")))
        assert len(rows) == 2 and {len(row) for row in rows} == {7}
        assert not any(value.lstrip()[:1] in tuple("=+-@|%") for value in rows[1])


def test_markdown() -> None:
    for payload in PAYLOADS:
        line = markdown(payload)
        assert harmless(line) and "\n" not in line
        assert not re.search(r"(?<!\\)[`*_\[\]()<>#|]", line.replace("\\\\", "")), payload
        assert not re.match(r"[-+=#>]|\d+[.)]", line)
        text = _as_markdown([(payload, answer(payload), None)])
        assert text.count("\n## ") + text.startswith("## ") == 1


@each_row(
    ("text", "written"),
    [
        ("Part 10. The end, 43f8db2c:24-35", "Part 10. The end, 43f8db2c:24-35"),
        ("10. The end", r"10\. The end"),
        ("- an item", r"\- an item"),
        ("a_b <i> [x](y) #1", r"a\_b \<i\> \[x\]\(y\) \#1"),
    ],
)
def test_markdown_stays_readable(text: str, written: str) -> None:
    assert markdown(text) == written


def test_the_commands(drt: Drt, tmp_path: Path) -> None:
    """A document made of such texts, through every command that shows it."""
    file = tmp_path / "a.txt"
    texts = [payload for payload in PAYLOADS if "\0" not in payload]  # with a NUL it is no text
    file.write_text("; ".join(texts) + " the period. The end.", "utf-8")
    commands: list[tuple[object, ...]] = [
        ("ask", "Which period?", file),
        ("ask", "Which period?", "--explain"),
        ("ask", "Which period?", "--stream", "--mode", "free"),
        ("show", "1"),
        ("summarize", file),
        ("trace", "Which period?"),
        ("library", "list"),
    ]
    for words in commands:
        result = drt(*words)
        assert result.code == 0 and harmless(result.out) and harmless(result.err), words
    talked = drt("chat", stdin="Which period?\n/show 1\n/sources\n")
    assert harmless(talked.out)
