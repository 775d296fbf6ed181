"""HTML: title, main text, sections, entities, and markup broken in every way."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drt_engine.documents import Source, open_document
from drt_engine.documents.base import words
from drt_engine.documents.formats import format_named
from drt_engine.documents.sandbox.process import Limits, read_isolated
from drt_engine.errors import EmptyDocument
from tests.engine.documents.helpers import joined, read, section_at
from tests.sampling import sampled
from tests.tables import each_row

PAGE = """<!DOCTYPE html>
<html><head><title> Rules &amp;
 Tables </title><style>p { color: red }</style></head>
<body><header>Site name</header><nav><ul><li>Menu</li></ul></nav>
<main>
<header>By the <b>captain</b></header>
<h1>Rules<a class="headerlink" href="#rules">¶</a></h1>
<p>Hello,
   <em>world</em>.<p>Second<br>line.
<script>if (a < b) { document.write("</p>") }</script>
<h2>Lists</h2>
<ul><li>one<li>two <ul><li>inner</ul><li><p>three</p><p>still three</p></ul>
<ol start="3"><li>c</li><li>d</li></ol>
<h2>Tables</h2>
<table><caption>Stores</caption><tr><th>Item<th>Kilos<tr><td><p>Flour</p><td></td><td>40</table>
<pre>
  x = 1
    y
</pre>
<form>Name <input value="secret"><button>Send</button></form>
</main><aside>Related</aside><footer>Imprint</footer></body></html>
"""

TEXT = """By the captain

Rules

Hello, world.

Second
line.

Lists

- one
- two
  - inner
- three
  still three
3. c
4. d

Tables

Stores

Item | Kilos
Flour |  | 40

  x = 1
    y

Name
"""


def html(tmp_path: Path, content: str) -> str:
    return joined(read(tmp_path / "a.html", content)[1])


def test_main_text_title_and_sections(tmp_path: Path) -> None:
    document, blocks = read(tmp_path / "page.html", PAGE)
    assert (document.title, document.media_type) == ("Rules & Tables", "text/html")
    assert joined(blocks) == TEXT
    assert [block.section for block in blocks] == [
        None,
        "Rules",
        "Rules > Lists",
        "Rules > Tables",
    ]
    assert section_at(blocks, "Flour") == "Rules > Tables"


@each_row(
    ("markup", "text"),
    [
        ("<p>a</p><nav>n</nav><header>h</header><footer>f</footer><aside>s</aside>", "a\n"),
        (
            "<article><header>h</header>long text here</article><div>by</div>",
            "h\n\nlong text here\n",
        ),
        ("<p>A long text of a page.</p><article>hm</article>", "A long text of a page.\n\nhm\n"),
        ("<main> </main><p>outside</p>", "outside\n"),
        ("<main>…</main><p>" + "outside" * 20 + "</p>", "…\n\n" + "outside" * 20 + "\n"),
        ("<div role=main>in</div><p>out</p>", "in\n"),
        ("<div role=navigation>menu</div><p>text</p>", "text\n"),
        ("<p>x<span hidden>no <b>no</b></span>y<span aria-hidden=true>no</span></p>", "xy\n"),
        ("<nav><p>all in an unclosed nav", "all in an unclosed nav\n"),
        ("<div><nav>menu</div><p>text", "text\n"),
        ("<title>never closed<p>text", "text\n"),
        ("<select><option>a<option>b</select>text<textarea>t</textarea>", "text\n"),
        ("<div><main>in</div></div> still in</main> out", "in\n\nstill in\n"),
        ("<h1>Unclosed<p>text<p>more", "Unclosed\n\ntext\n\nmore\n"),
        (
            "<table><tr><td>" + "w " * 150 + "<p>next<p>last</table>",
            "w " * 149 + "w\n\nnext\n\nlast\n",
        ),
        (
            "<table><tr><td><h2>H</h2>text<table><tr><td>1<td>2</table></table>",
            "H\n\ntext\n\n1 | 2\n",
        ),
        (
            "<table><tr><th rowspan=2>N<th colspan=2>Summer<tr><th>Gold<th>Silver"
            "<tr><td rowspan=3>R<td>1<td>2<tr><td>3<td>4<tr><td colspan=2>none</table>",
            "N | Summer | Summer\nN | Gold | Silver\nR | 1 | 2\nR | 3 | 4\nR | none | \n",
        ),
        (
            "<table><tr><td colspan=3>A line across<tr><td>1<td>2<td>3</table>",
            "A line across\n1 | 2 | 3\n",
        ),
        ("<table><tr><td colspan=x rowspan=-1>1<td colspan=0>2<tr><td>3</table>", "1 | 2\n3\n"),
        (
            "<table><tr><td rowspan=9>a<td>b</table><table><tr><td>c<td>d</table>",
            "a | b\nc | d\n",
        ),
        (
            f"<table><tr><td rowspan=2>{'long ' * 20}<td>b<tr><td>c</table>",
            f"{'long ' * 20}| b\nc\n",
        ),
        ("<ul><li></li></ul>no item", "no item\n"),
        ("a<br><br><br>b<br/>c", "a\n\nb\nc\n"),
        ("<p>x<wbr>y<img src=a alt=b>z", "xyz\n"),
        ("<dl><dt>term<dd>meaning</dl>", "term\n\nmeaning\n"),
        ("plain text, no markup at all", "plain text, no markup at all\n"),
    ],
)
def test_layout(tmp_path: Path, markup: str, text: str) -> None:
    assert html(tmp_path, markup) == text


@each_row(
    ("markup", "text"),
    [
        ("&lt;p&gt; &amp;lt; &quot;", '<p> &lt; "'),
        ("caf&eacute; &copy 2020 &#8212; &#x1F600;", "café © 2020 — \U0001f600"),
        ("AT&T &unknown; a & b", "AT&T &unknown; a & b"),
        ("&#0; &#xD800; &#1114112;", "\ufffd \ufffd \ufffd"),
        ("1 < 2 and a <b", "1 < 2 and a <b"),
    ],
)
def test_entities(tmp_path: Path, markup: str, text: str) -> None:
    assert html(tmp_path, f"<p>{markup}") == text + "\n"


@each_row(
    ("markup", "text"),
    [
        ("<p><img alt=M>erle sang. <img alt=B>ut", "Merle sang. ut\n"),
        ("<p> <span class=cap><img src=t.png alt='“T' /></span>here it is", "“There it is\n"),
        ("<p><img alt=A> mile away", "A mile away\n"),
        ("<p><img alt=O>’Brien", "O’Brien\n"),
        ("<p><img alt=i>nformation", "nformation\n"),  # a sign, since it is a small letter
        ("<p><img alt=X> marks", "marks\n"),
        ("<p><img alt=M><p>erle", "erle\n"),
        ("<p><img alt=Mer>le", "le\n"),
    ],
)
def test_initials_drawn_as_pictures(tmp_path: Path, markup: str, text: str) -> None:
    assert html(tmp_path, markup) == text


@each_row(
    ("markup", "text"),
    [
        ("<p>In 1887.<sup><a href='#n1'>1</a></sup> It", "In 1887.[1] It\n"),
        ("<p>In 1887.<a href='n.xhtml#n1'><sup> 12 </sup></a> It", "In 1887.[12] It\n"),
        ("<p>here<a epub:type='noteref' href='#n'>*</a>", "here[*]\n"),
        ("<p>here<sup><a href='#n'>[3]</a></sup>", "here[3]\n"),
        ("<p>10<sup>-3</sup> m<sup>2</sup>", "10\u207b\u00b3 m\u00b2\n"),
        ("<p>the 21<sup>st</sup> of May", "the 21st of May\n"),
        ("<p>see <a href='#s'>2</a>", "see 2\n"),
        ("<p>a<sup><a href='#n'>the note</a></sup>", "athe note\n"),
        ("<p>a<sup><a href='#n'>1<p>2 oars", "a[1]\n\n2 oars\n"),
    ],
)
def test_powers_and_marks_of_footnotes_join_no_number(
    tmp_path: Path, markup: str, text: str
) -> None:
    assert html(tmp_path, markup) == text


def test_what_is_passed_over_is_counted_and_named(tmp_path: Path) -> None:
    markup = (
        "<style>p { }</style><nav>three menu words</nav><main><p>Text.<button>Send it</button>"
        "<select><option>one<option>two</select><svg><text>drawn</text></svg>"
        "<p hidden>never shown</p><template>not yet</template><img alt='A ship at sea'><img alt=''>"
        "<script>code()</script><p>More.</main><footer>two words</footer><!-- never closed"
    )
    document, blocks = read(tmp_path / "a.html", markup)
    assert joined(blocks) == "Text.\n\nMore.\n"
    assert document.skipped == (
        "5 words around the main part (menus, headers, footers and the like)",
        "4 words in buttons or fields (controls of the page, not its text)",
        "word in pictures or players (the page shows other things in their place)",
        "4 hidden words (the page does not show them)",
        "description of a picture (not part of the text)",
        "end of a page (a comment, tag or script without an end)",
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    "unit", sampled(["<a ", "<a/", "<a b=c ", "<title x", "</a ", "<b> </b>"], {0, 3})
)
def test_markup_takes_time_by_its_length_alone(tmp_path: Path, unit: str) -> None:
    # Where each is looked for anew, half of this takes seconds, and all of it a minute.
    (tmp_path / "a.html").write_text("<p>kept</p>" + unit * 20_000)
    source = Source.from_path(tmp_path / "a.html")
    document = read_isolated(format_named("html"), source, Limits(cpu_seconds=5))
    assert joined(list(document.blocks)).startswith("kept\n")


def test_lists_in_lists_grow_by_what_they_say(tmp_path: Path) -> None:
    text = html(tmp_path, "<ul><li>x" * 500)
    assert text.count("x") == 500 and len(text) < 500 * 40


def test_cells_over_many_rows_and_columns_repeat_little(tmp_path: Path) -> None:
    cell = f"<th colspan=9999 rowspan=9999>{'a' * 50}"
    text = html(tmp_path, f"<table><tr>{cell}<th>b" + "<tr><td>c" * 100 + "</table>")
    assert len(text) < 101 * 60 * 41


def test_entities_across_read_borders(tmp_path: Path) -> None:
    for lead in range(65_528, 65_537):
        assert html(tmp_path, "<p>" + "x" * (lead - 3) + "&eacute;y").endswith("xéy\n")


def test_title_falls_back_to_first_heading_then_file_name(tmp_path: Path) -> None:
    assert read(tmp_path / "a.html", "<p>a<h1>The <i>one</i></h1>")[0].title == "The one"
    assert read(tmp_path / "a.html", "<svg><title>logo</title></svg><p>a")[0].title == "a.html"


def test_recognised_without_a_suffix(tmp_path: Path) -> None:
    for start in ("<!doctype html>", "\ufeff <HTML>", '<?xml version="1.0"?>\n<!-- x --><html>'):
        assert read(tmp_path / "page", start + "<p>a")[0].media_type == "text/html"


def test_declared_encodings(tmp_path: Path) -> None:
    russian = "Все счастливые семьи похожи друг на друга"
    meta = '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251"><p>'
    assert joined(read(tmp_path / "a.html", (meta + russian).encode("cp1251"))[1]) == russian + "\n"
    wrong = "<meta charset=iso-8859-1><p>naïve “quote”"
    assert html(tmp_path, wrong) == "naïve “quote”\n"  # it is UTF-8, whatever it says
    assert joined(read(tmp_path / "a.html", wrong.encode("cp1252"))[1]) == "naïve “quote”\n"
    assert html(tmp_path, "<meta charset=rot13><p>abc") == "abc\n"


@each_row("markup", ["<p> </p>", "<script>x</script>", "<!-- no -->", "<p>&nbsp;"])
def test_pages_without_words(tmp_path: Path, markup: str) -> None:
    with pytest.raises(EmptyDocument):
        html(tmp_path, markup)


def test_long_paragraphs_keep_every_word(tmp_path: Path) -> None:
    words = " ".join(f"w{i}" for i in range(30_000))
    assert html(tmp_path, f"<p>{words}<p>end") == f"{words}\n\nend\n"
    assert html(tmp_path, f"<ul><li>{words}<li>end</ul>") == f"- {words}\n- end\n"
    code = words.replace(" w5", "\n  w5")
    assert html(tmp_path, f"<pre>{code}</pre>end") == f"{code}\n\nend\n"


FRAGMENTS = st.sampled_from(
    sorted(
        words(
            "<p> <div> </div> <main> </main> <h1> </h2> <ul> <li> </ul> <table> <tr> <td> <td "
            "</table> <pre> <!-- --> <![CDATA[ ]]> <![if <! <? <!DOCTYPE </ < > & &amp &#x; ' \" = "
            "<script> </script> <title> </title> <nav> </nav> <select> </p> <br/> <a href=' wörd"
        )
    )
) | st.text(max_size=5)


@pytest.mark.thorough
@settings(deadline=None, max_examples=60)  # a busy machine is no failure
@given(st.lists(FRAGMENTS, max_size=30))
def test_broken_markup_never_raises(
    tmp_path_factory: pytest.TempPathFactory, fragments: list[str]
) -> None:
    content = "<p>kept</p>" + " ".join(fragments).replace("\0", "")
    text = joined(read(tmp_path_factory.getbasetemp() / "any.html", "x" * 200 + content)[1])
    assert text.strip()


@pytest.mark.thorough
@pytest.mark.parametrize("text", sampled(["<p>", "<ul><li>", "<pre>"], {0}, thorough={2}))
def test_memory_is_bounded_for_endless_paragraphs(tmp_path: Path, text: str) -> None:
    size, peak = measure(tmp_path, "<p>kept</p>" + text + "word " * 400_000)
    assert size > 1_990_000
    assert peak < 1_800_000


@pytest.mark.thorough
@pytest.mark.parametrize(
    "start",
    sampled(
        ["<!-- ", "<img src='", "<script>", "<![CDATA[", "</div ", "<b x='"],
        {0},
        thorough={1, 2},
    ),
)
def test_memory_is_bounded_for_constructs_without_an_end(tmp_path: Path, start: str) -> None:
    size, peak = measure(tmp_path, "<p>kept</p>" + start + "word " * 400_000)
    assert size == len("kept\n")
    assert peak < 1_800_000


@pytest.mark.thorough
def test_a_tag_of_endless_attributes(tmp_path: Path) -> None:
    sizes = [measure(tmp_path, "<p>kept</p><img " + "word " * n) for n in (30_000, 60_000)]
    assert [size for size, _ in sizes] == [5, 5]
    assert sizes[1][1] < 1.2 * sizes[0][1]


@each_row(
    "long",
    [
        f"<img src='{'x' * 300_000}'>",
        f'<img {"a=1 " * 2000} alt="it\'s > that" src="{"x> " * 100_000}" b=\'c\'>',
        f"<!-- {'<p>no ' * 50_000} -->",
        f"<script>{'<p>no ' * 50_000}</script>",
        f"<!DOCTYPE {'x ' * 100_000}>",
    ],
    ids=["image", "attributes", "comment", "script", "declaration"],
)
def test_long_constructs_hide_nothing_after_them(tmp_path: Path, long: str) -> None:
    assert html(tmp_path, f'<p>before</p>{long}<p class="x">after</p>') == "before\n\nafter\n"
    assert html(tmp_path, f"<p>before</p>{long}<p>after a <b") == "before\n\nafter a <b\n"


def measure(tmp_path: Path, content: str) -> tuple[int, int]:
    """The length of the text and the peak of memory while reading."""
    path = tmp_path / "a.html"
    path.write_text(content)
    tracemalloc.start()
    try:
        document = open_document(Source.from_path(path))
        size = sum(len(block.text) for block in document.blocks)
        return size, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
