"""The commands and environments of LaTeX that are read, by what becomes of them in the text."""

from __future__ import annotations

import re
import unicodedata

from drt_engine.documents.base import words

LEVELS = {
    "part": 1, "chapter": 2, "section": 3, "subsection": 4, "subsubsection": 5, "paragraph": 6,
    "subparagraph": 7,
}  # fmt: skip
UNWRAPPED = words(
    "emph textbf textit texttt textsc textsf textrm textsl textup textmd textnormal underline "
    "uline mbox hbox text mathrm enquote so caption title author date thanks centerline "
    "textsuperscript textsubscript acro term keyword url path code ce gls Gls GLS glspl Glspl "
    "glsentrytext glsfirst acrshort acrlong acrfull ac Ac acs acl acf acp acsp aclp subfloat "
    "makecell shortstack ul hl hyperref"
)
REFERENCES = words(
    "cite citep citet citeauthor citeyear citealp citealt autocite parencite textcite footcite "
    "ref eqref pageref autoref cref Cref nameref"
)
DROPPED = words(
    "label index vspace hspace includegraphics bibliography bibliographystyle usepackage "
    "documentclass pagestyle thispagestyle setlength addtolength newcommand renewcommand "
    "providecommand input include setcounter addcontentsline graphicspath hypersetup "
    "newtheorem theoremstyle pagenumbering color textcolor linespread glsresetall nocite "
    "DeclareMathOperator DeclareRobustCommand tableofcontents subfile addbibresource newlength "
    "newcounter addtocounter stepcounter refstepcounter numberwithin crefname Crefname rule "
    "fontsize selectlanguage pagecolor captionsetup lstset sisetup geometry usetikzlibrary tikzset "
    "pgfplotsset phantom hphantom vphantom hypertarget hyperlink tikz itemsep "
    "markboth markright definecolor multicolumn multirow resizebox scalebox parbox subref cline "
    "cmidrule rowcolor cellcolor columncolor tabcolsep arraystretch"
)
OTHER_FILES = words("input include subfile bibliography addbibresource")
MORE_ARGUMENTS = {
    "newcommand": 1, "renewcommand": 1, "providecommand": 1, "setlength": 1, "addtolength": 1,
    "setcounter": 1, "addcontentsline": 2, "newtheorem": 1, "DeclareMathOperator": 1,
    "DeclareRobustCommand": 1, "addtocounter": 1, "numberwithin": 1, "crefname": 2, "Crefname": 2,
    "rule": 1, "fontsize": 1, "multicolumn": 1, "multirow": 1, "resizebox": 1, "markboth": 1,
    "definecolor": 2,
}  # fmt: skip
SILENT = words(
    "maketitle centering raggedright noindent indent newpage clearpage cleardoublepage bigskip "
    "medskip smallskip small footnotesize scriptsize tiny normalsize large Large LARGE huge Huge "
    "bfseries itshape rmfamily sffamily ttfamily scshape em bf it rm sf tt sc par hfill vfill "
    "appendix frontmatter mainmatter backmatter hline toprule midrule bottomrule protect sloppy "
    "left right displaystyle textstyle linebreak pagebreak newline quad qquad item null "
    "raggedleft columnbreak smallbreak medbreak bigbreak allowbreak nobreak unskip ignorespaces "
    "xspace selectfont singlespacing onehalfspacing doublespacing allowdisplaybreaks relax "
    "tightlist hrulefill hrule"
)
SIGNS = {
    "ldots": "…", "dots": "…", "textellipsis": "…", "LaTeX": "LaTeX", "TeX": "TeX", "ss": "ß",
    "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "o": "ø", "O": "Ø", "aa": "å", "AA": "Å",
    "l": "ł", "L": "Ł", "i": "ı", "j": "ȷ", "S": "§", "P": "¶", "copyright": "©", "pounds": "£",
    "euro": "€", "texteuro": "€", "textdegree": "°", "degree": "°", "textbackslash": "\\",
    "textasciitilde": "~", "textendash": "–", "textemdash": "—", "textquotesingle": "'",
    "quad": " ", "qquad": " ", "newline": " ", "dag": "†", "ddag": "‡", "textregistered": "®",
    "texttrademark": "™", "textbar": "|", "slash": "/",
}  # fmt: skip
_ACCENTS = {
    "`": "\u0300", "'": "\u0301", "^": "\u0302", "~": "\u0303", '"': "\u0308", "=": "\u0304",
    ".": "\u0307", "c": "\u0327", "v": "\u030c", "u": "\u0306", "H": "\u030b", "k": "\u0328",
    "r": "\u030a", "d": "\u0323", "b": "\u0331",
}  # fmt: skip
DRAWINGS = words("tikzpicture pgfpicture pspicture picture tikzcd circuitikz forest")
LISTS = words("itemize enumerate description")
VERBATIM = words("verbatim Verbatim lstlisting minted alltt")
MATH = words("equation align gather multline eqnarray displaymath math split cases array flalign")
KEPT_ENVIRONMENTS = MATH | words("theorem lemma proof definition corollary proposition example")
ACCENT = re.compile(
    r"\\([`'^~\"=.])\s*(?:\{\\?([A-Za-z])\}|\\?([A-Za-z]))|"
    r"\\([cvuHkrdb])(?:\{\\?([A-Za-z])\}|\s+\\?([A-Za-z])(?![A-Za-z]))"
)
WITH_ARGUMENTS = words(
    "tabular tabularx longtable minipage multicols thebibliography wrapfigure adjustbox columns "
    "column figure table Verbatim lstlisting minted"
)
TYPOGRAPHY = {"---": "—", "--": "–", "``": "“", "''": "”", "&": "|"}


def accented(match: re.Match[str]) -> str:
    """Return the letter that a match of ``ACCENT`` writes: é for ``\\'e`` or ``\\'{e}``."""
    mark = match[1] or match[4]
    letter = match[2] or match[3] or match[5] or match[6]
    return unicodedata.normalize("NFC", letter + _ACCENTS[mark])


QUANTITIES = {"unit": 1, "si": 1, "num": 1, "ang": 1, "SI": 2, "qty": 2}  # with arguments
BUILT_IN = (
    LEVELS.keys() | UNWRAPPED | REFERENCES | DROPPED | SILENT | SIGNS.keys() | QUANTITIES.keys()
    | words("begin end footnote footnotetext href item bibitem")
)  # fmt: skip
