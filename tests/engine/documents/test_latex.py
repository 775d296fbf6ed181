"""LaTeX: no word is lost, macros of the file are expanded, references are readable."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from drt_engine.documents.base import source_span
from drt_engine.documents.latex import converter
from drt_engine.documents.latex.units import unit_text
from tests.engine.documents.helpers import joined, read
from tests.sampling import sampled
from tests.tables import each_row

HEAD = "\\documentclass{article}\n"


def latex(tmp_path: Path, body: str, preamble: str = "") -> str:
    content = f"{HEAD}{preamble}\\begin{{document}}\n{body}\n\\end{{document}}\n"
    return joined(read(tmp_path / "a.tex", content)[1])


def test_words_before_the_end_on_its_line(tmp_path: Path) -> None:
    content = HEAD + "\\begin{document}\nFirst.\nLast words.\\end{document} gone\nalso gone\n"
    document, blocks = read(tmp_path / "a.tex", content)
    assert joined(blocks) == "First.\nLast words.\n"
    assert document.skipped == (
        "2 lines (preamble, comments or layout)",
        "line after the end of the document (TeX does not read it)",
    )


def test_a_paper_on_one_line(tmp_path: Path) -> None:
    content = (
        "\\documentclass{article}\\title{One line}% \\begin{document}\n"
        "\\author{A}\\begin{document}Words first. \\section{A part} Text. Last.\\end{document}"
    )
    document, blocks = read(tmp_path / "a.tex", content)
    assert document.title == "One line"
    assert joined(blocks) == "Words first. A part Text. Last."
    assert blocks[-1].section == "A part"


@each_row("end", ["\n\n", "\n\\end{document}\n", "\n"])
def test_an_unclosed_heading_swallows_nothing(tmp_path: Path, end: str) -> None:
    content = f"{HEAD}\\begin{{document}}\n\\section{{Never closed\nText one.\nText two.{end}"
    text = "".join(joined(read(tmp_path / "a.tex", content + "After.\n")[1]).split("After."))
    assert " ".join(text.split()) == "Never closed Text one. Text two."
    blocks = read(tmp_path / "a.tex")[1]
    assert blocks[0].section == "Never closed" and blocks[0].line == 3


def test_an_unclosed_argument_swallows_nothing(tmp_path: Path) -> None:
    text = latex(tmp_path, "Before \\label{open and\nmore words.\n\nAfter it.")
    assert " ".join(text.split()) == "Before open and more words. After it."


def test_code_beside_its_marks(tmp_path: Path) -> None:
    text = latex(
        tmp_path,
        "\\begin{verbatim}one\\end{verbatim} two\n\\begin{lstlisting}[language=C]\n"
        "three\\end{lstlisting} four\n\\begin{minted}{python} five\nsix\n\\end{minted}",
    )
    assert text.split() == ["one", "two", "three", "four", "five", "six"]


PREAMBLE = r"""
\newcommand{\proj}{Falcon}
\newcommand\who[1]{Dr. #1}
\newcommand{\pair}[2][x]{(#1, #2)}
\renewcommand*{\long}{a \textbf{bold
  word} of \proj}  % comment }
\def\old{ancient}
\def\both#1#2{#2 before #1}
\newcommand{\drt}{DRT\xspace}
\newcommand{\grow}{\growa\growa}
\newcommand{\growa}{\grow\grow}
"""


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("body", "text"),
    [
        (r"Welcome to \proj.", "Welcome to Falcon."),
        (r"\who{Jane \proj{}} left", "Dr. Jane Falcon left"),
        (r"\pair{b} and \pair[a]{b}", "(x, b) and (a, b)"),
        (r"\long!", "a bold word of Falcon!"),
        (r"\old{} and \both{a}{b}", "ancient and b before a"),
        (r"\drt is and \drt, too", "DRT is and DRT, too"),
        (r"\who", r"\who"),  # its argument is elsewhere
        (r"\emph{\proj}", "Falcon"),
        (r"$\proj$", r"$\proj$"),  # formulas stay as they are written
        (r"\unknown{\proj}", "Falcon"),
        (r"As \unknown{\proj}{b}", r"As \unknown{Falcon}{b}"),
    ],
)
def test_macros_of_the_file(tmp_path: Path, body: str, text: str) -> None:
    assert latex(tmp_path, body, PREAMBLE) == text + "\n"


def test_macros_in_titles_and_headings(tmp_path: Path) -> None:
    content = (
        f"{HEAD}\\title{{The \\proj{{}} guide}}{PREAMBLE}\\begin{{document}}\n"
        "\\section{Using \\proj}\nText."
    )
    document, blocks = read(tmp_path / "a.tex", content)
    assert document.title == "The Falcon guide"
    assert blocks[-1].section == "Using Falcon"


@pytest.mark.thorough
def test_macros_that_grow_without_end_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(converter, "_EXPANDED_CHARACTERS", 1 << 17)
    text = latex(tmp_path, r"\grow " * 2000 + "The end.", PREAMBLE)
    assert 12_000 < len(text) < 375_000 and text.endswith("The end.\n")


def test_a_quote_with_macros_leads_to_its_line(tmp_path: Path) -> None:
    content = f"{HEAD}{PREAMBLE}\\begin{{document}}\nFirst.\nBy \\who{{Jane}} of \\proj.\nLast.\n"
    blocks = read(tmp_path / "a.tex", content)[1]
    (block,) = [block for block in blocks if "Dr. Jane of Falcon" in block.text]
    start = block.text.index("Dr. Jane")
    span = source_span(block.origin, start, start + len("Dr. Jane of Falcon"))
    assert span is not None
    assert content[span[0] : span[1]] == "By \\who{Jane} of \\proj."
    assert block.line_at(start) == content[: content.index("By \\who")].count("\n") + 1


@each_row(
    ("body", "text"),
    [
        (r"\citep[for example,][]{key}", "[for example, key]"),
        (r"\citep[see][p. 3]{one,two}", "[see one,two, p. 3]"),
        (r"\cite[\S 3]{key}", "[key, §3]"),
        (r"\ref{a} and~\eqref{b}", "[a] and [b]"),
        (r"\vspace*{1cm}\rule{1cm}{2pt}\fontsize{9}{11}\selectfont Word", "Word"),
        (r"\bibitem{key} A. Author", "[key] A. Author"),
        (r"\begin{theorem}[Main result] It holds.", "Theorem (Main result) It holds."),
    ],
)
def test_references_and_layout(tmp_path: Path, body: str, text: str) -> None:
    assert latex(tmp_path, body) == text + "\n"


def test_other_files_are_named(tmp_path: Path) -> None:
    content = HEAD + "\\begin{document}\nText. \\input{chapter1}\n\\include{chapter2}\n"
    document, _ = read(tmp_path / "a.tex", content)
    assert document.skipped[:2] == (
        "file chapter1 (other files are not read unless they are named)",
        "file chapter2 (other files are not read unless they are named)",
    )


@each_row(
    ("head", "author", "date"),
    [
        (
            "\\author{Ann Lee \\and Bo Chu\\thanks{Paid by X}}\\date{5 March 2024}",
            "Ann Lee, Bo Chu",
            "2024-03-05",
        ),
        (
            "\\author[1]{Ann Lee}\n\\author[1, 2]{Bo Chu$^{*}$}\n\\affil[1]{Quay}",
            "Ann Lee, Bo Chu",
            "",
        ),
        (
            '\\author{Ann Lee\\inst{1}, Bo Chu Jr.\\inst{2} and\n Cy {M\\"o}ll\\\\ 12 Pier}',
            "Ann Lee, Bo Chu Jr., Cy M\u00f6ll",
            "",
        ),
        (
            "\\author{\n  Ann Lee \\\\\n  University of Tides \\\\\n  \\texttt{ann@t.example}\n"
            "  \\And\n  Bo Chu\\\\Elsewhere\n}\\date{\\today}",
            "Ann Lee, Bo Chu",
            "",
        ),
        ("% \\author{No One}\n\\author{}", "", ""),
        ("\\author{Never closed", "", ""),
    ],
)
def test_authors_and_date(tmp_path: Path, head: str, author: str, date: str) -> None:
    content = f"\\documentclass{{article}}\n{head}\n\\begin{{document}}\nText.\n\\end{{document}}\n"
    document, _ = read(tmp_path / "a.tex", content)
    assert (document.author, document.date) == (author, date)


@pytest.mark.thorough
def test_hostile_heads_are_read_in_time(tmp_path: Path) -> None:
    for head in ("\\author{" * 9_000, "\\author{\\thanks{" * 4_000, "\\author{" + "a, " * 20_000):
        content = f"\\documentclass{{article}}\n{head}\n\n\\begin{{document}}\nText.\n"
        assert "Text." in joined(read(tmp_path / "a.tex", content)[1])


@each_row(
    ("body", "text"),
    [
        ("The \\gls{lamp} and \\Glspl{bell}.", "The lamp and bell."),
        (
            "We use \\OpenSea and \\SeaTWO{}, \\MyLamp\\ too.",
            "We use OpenSea and SeaTWO, MyLamp too.",
        ),
        ("Keep \\OpenSea{x} and \\lamps.", "Keep \\OpenSea{x} and \\lamps."),
        ("\\ce{H_2O} of \\SI{4.2}{\\kilo\\gram\\per\\cubic\\metre}", "H_2O of 4.2 kg/m³"),
        ("\\qty[mode=text]{20}{\\celsius}, \\num{12}, \\ang{45}", "20 °C, 12, 45°"),
        ("\\unit{\\metre\\squared} and \\si{kg.m}", "m² and kg m"),
        ("at 70\\unit{\\degree}F", "at 70°F"),
        ("\\SI{4} lamps", "\\SI{4} lamps"),  # no unit
        ("\\multicolumn{2}{|c|}{Beds} & \\multirow{2}{*}{Huts}", "Beds | Huts"),
        ("\\subfloat[][]{Lamp} \\subref{fig:a} Bell", "Lamp  Bell"),
    ],
)
def test_names_quantities_and_tables(tmp_path: Path, body: str, text: str) -> None:
    assert latex(tmp_path, body).strip() == text


@each_row(
    ("source", "text"),
    [
        ("\\per\\second", "1/s"),
        ("\\square\\metre\\per\\hour", "m²/h"),
        ("\\gram\\per\\centi\\metre\\cubed", "g/cm³"),
        ("\\kilo\\watt\\hour", "kW h"),
        ("\\furlong", "furlong"),
        ("kg", "kg"),
        ("", ""),
    ],
)
def test_units(source: str, text: str) -> None:
    assert unit_text(source) == text


def test_an_empty_label_is_no_label(tmp_path: Path) -> None:
    text = "\\begin{itemize}\n\\item[] Ann\n\\item[$x$] Tom\n\\item[B] Eve\n\\end{itemize}\n"
    assert "- Ann\n" in joined(read(tmp_path / "a.tex", text)[1])


@each_row(
    ("body", "text"),
    [
        # What goes around words leaves the words; what has keys, or is for an index, is no text.
        (r"The \define{old \emph{quay}} of stone.", "The old quay of stone."),
        (r"A quay\indexsee{pier}{quay}\indexdef{sea} of stone.", "A quay of stone."),
        (r"See \Vref{fig:a}, \citeyearpar{Lee1901}.", "See [fig:a], [Lee1901]."),
        (r"From \crefrange{sec:a}{sec:b} on.", "From [sec:a][sec:b] on."),
        (r"In \hyperref[sec:c]{the next section}.", "In the next section."),
        (r"A, \eg{} tin, \ie that of \choice{}.", "A, e.g. tin, i.e. that of choice."),
        (r"\markboth{\textsc{A quay}}{}Text", "Text"),
        (r"\gap{2cm}Text \\[3pt] more\addlinespace[2pt]", "Text   more"),
        # Unclear: as it is written.
        (r"Keep \pair{a}{b} and \keyed{fig:one} and \single{x} and \lone words.",
         r"Keep \pair{a}{b} and \keyed{fig:one} and \single{x} and \lone words."),
        (r"$\define{x}$", r"$\define{x}$"),
    ],
)  # fmt: skip
def test_commands_that_nothing_defines(tmp_path: Path, body: str, text: str) -> None:
    assert latex(tmp_path, body).strip() == text


def test_layout_that_nothing_defines_is_no_text(tmp_path: Path) -> None:
    body = "\\nowidow\n\n\\fileid{a}{b}{c}\nText.\n\n\\OPTwidow\n\nMore of\n\\OpenSea\nand so on."
    assert latex(tmp_path, body).split() == ["Text.", "More", "of", "OpenSea", "and", "so", "on."]
    assert latex(tmp_path, "\\[\n\\alpha\n\\]").split() == ["\\[", "\\alpha", "\\]"]


def test_headings_and_environments_that_nothing_defines(tmp_path: Path) -> None:
    text = (
        "\\mysection{The quay}\nOld.\n\\begin{defn}[Pier]\nA wall.\n\\end{defn}\n"
        "\\setsection{x y}\n"
    )
    _, blocks = read(tmp_path / "a.tex", f"{HEAD}\\begin{{document}}\n{text}")
    assert blocks[-1].section == "The quay"
    assert "(Pier)\nA wall.\n" in "".join(block.text for block in blocks)
    listed = (
        "\\begin{enumerate}[label=a]\n\\item One\n\\end{enumerate}\n\\begin{plot}[width=3]\nB.\n"
    )
    assert latex(tmp_path, listed).split() == ["1.", "One", "B."]


@pytest.mark.thorough
@pytest.mark.parametrize("count", sampled([5_000, 20_000], {0}, thorough={1}))
def test_commands_without_end_take_no_time(tmp_path: Path, count: int) -> None:
    for text in ("\\a{" * count, "\\a[" * count, "\\ab{c}" * count, "\\refref" * count + "{a}"):
        began = time.process_time()
        latex(tmp_path, text + " end")
        assert time.process_time() - began < count / 1_000
