"""What the words of a sentence tell about its place in a summary. Knows strings only.

Cue words of summaries go back to Edmundson, "New Methods in Automatic Extracting" (1969).
"""

from __future__ import annotations

import re
from functools import lru_cache

from drt_engine.text.words import word_set

_LEADING_MARKS = "\"'“‘«([*_` "
_ENDED = re.compile(r"[.!?…。！？][\"'”’»)\]*_`」』]*(?:\[\d{1,3}\])*\Z")
_ITEM_MARK = re.compile(
    r"(?:[-*+•–‣▪●◦\uf0b7]|\(?(?:\d{1,3}|[A-Za-z]|[ivxlc]{1,5})[.)])[ \t]+(?:\[[ xX]\][ \t]+)?"
)
# What opens a comment or a docstring, and the number of a clause: "7.1 All notebooks ...".
_OPENING_MARK = re.compile(
    r"(?:\"\"\"|'''|/\*+!?|//+)\s*|\d{1,3}(?:\.\d{1,3}){1,4}\.?\s+(?=[\"“]?[A-Z][a-z]*[\s\"”])"
)
_OTHER = re.compile(r"[^\w\s]|[\d_]")  # neither letters nor spaces
_CODE = re.compile(
    r"[{};]\s|\w\(\)|\w\[\w*\]|[=!<>]=|[-=]>|\$\(|\\\w+\{|</?\w+>|\b\w+\(\w+, |^\s*[#>%@]|^\.\. "
    r"|\w_\w+_\w|\\[a-z]+"
)
_CODE_SIGN = re.compile(r"[{}()\[\];=<>$\\#%@_]|^\.\. ")  # what any sign of code has
# One of these is enough: the ends of statements and comments.
_STATEMENT = re.compile(r"\);|\*/|/\*|\{\s*$|\}\s*$|^(?:def|class|import|return) \S+$")
_FIELD = re.compile(
    r"(?:subject|from|to|cc|date|title|authors?|status|version|created|type|tags?|keywords|category"
    r"|language|release date|discussions-to|requires|replaces|layout|permalink|copyright)\s*:",
    re.IGNORECASE,
)
_LEAD_IN = re.compile(r"\b(?:as follows|the following)\W*\Z", re.IGNORECASE)
_BRACKETED = re.compile(r"\[(?:\d+\]|[A-Z][\w ']{0,30}:)")


def _phrases(text: str) -> str:
    """Return the alternation of the phrases that commas separate; each is an expression."""
    return "|".join(" ".join(phrase.split()) for phrase in text.split(","))


# What begins like this goes on with the sentence before.
_CONNECTIVES = _phrases(
    r"""
    however, but, and, or, nor, so, thus, therefore, hence, also, too, moreover, furthermore,
    additionally, besides, then, instead, otherwise, consequently, accordingly, similarly, likewise,
    nevertheless, nonetheless, still, yet, finally, lastly, second(?:ly)?, third(?:ly)?, next,
    afterwards, meanwhile, indeed, rather, again, conversely, specifically, namely, alternatively,
    subsequently, regardless, in addition, in other words, in contrast, by contrast, in particular,
    in turn, in fact, as such, as a (?:result|consequence),
    for (?:example|instance|this|that|these), on the (?:other|contrary),
    more (?:specifically|importantly|precisely), to (?:this|that) end, to do (?:so|this),
    if (?:so|not|this|that|it|they), at (?:this|that),
    in (?:this|that|these|those|such) (?:case|way|context|situation|scenario|example|regard)s?,
    (?:because of|due to|after|with) (?:this|that|these), even (?:so|then), not only, one such,
    (?:both|all|none|most|some|many|each|either) of (?:them|these|those)
    """
)
_PRONOUNS = _phrases(
    """
    he, she, they, his, her, hers, him, their, theirs, them, its, that, these, those, such, it,
    here, both, another, others?, either, neither, the (?:former|latter|same|above)
    """
)
_DANGLING = re.compile(rf"(?:{_CONNECTIVES}|{_PRONOUNS})\b", re.IGNORECASE)
# "It is often said that ..." needs nothing before it.
_EXPLETIVE = re.compile(r"it (?:is|was|has been)\b[^.]{0,40}\b(?:that|to)\b", re.IGNORECASE)
_DOCUMENTS = _phrases(
    """
    paper, article, document, work, study, report, guide, handbook, manual, book, proposal,
    standard, specification, policy, agreement, contract, notebook, tutorial, essay, survey, thesis,
    module, library, package, recipe, rfc, pep, [a-z]?eip, erc, bip, cip, sip, kep, enhancement,
    faq, project, program, introduction, collection, framework, tool, software, licen[cs]e, site,
    website, app, application, service, product, repository, api
    """
)
_SELF = re.compile(
    rf"\W*(?:in |the \w+ of )?(?:this|the present|our) (?:\w+[ -]){{0,2}}(?:{_DOCUMENTS})\b"
    r"|\W*here,? (?:we|i)\b",
    re.IGNORECASE,
)
_THIS = re.compile(r"this\b", re.IGNORECASE)
_THIS_DOCUMENT = re.compile(rf"this (?:\w+[ -]){{0,2}}(?:{_DOCUMENTS})\b", re.IGNORECASE)


def _word_patterns(phrases: dict[str, str], flags: int = 0) -> dict[str, re.Pattern[str]]:
    """Return expressions that match one of some phrases as whole words."""
    return {name: re.compile(rf"\b(?:{_phrases(text)})\b", flags) for name, text in phrases.items()}


# Of sentences in lower case, which are searched in a third of the time.
_CUES: dict[str, re.Pattern[str]] = _word_patterns(
    {
        "proposes": r"(?:propos|introduc|present|describ|defin|specif|outlin|establish)"
        r"(?:e|es|ed|ing|ies|s)?",
        "we_do": r"we (?:\w+ )?(?:propose|present|introduce|show|develop|study|investigate"
        r"|demonstrate|describe|provide|explore|examine|address|analy[sz]e|prove|find|design"
        r"|consider|argue|derive|use)",
        "finds": r"shows?, showed, demonstrat\w+, found, find, results?, suggest\w*, reveal\w*,"
        r"outperform\w*, achiev\w+, improv\w+",
        "concludes": r"in (?:summary|conclusion|short|brief), overall,"
        r"we conclude, to (?:summari[sz]e|conclude), in this (?:paper|article|work|chapter|study)",
        "aims": "goals?, aims?, purpose, objectives?, intended, intends?, seeks?, allows?,"
        "enables?, provides?, designed, motivation, in order to",
        "problem": r"problems?, challeng\w+, difficult\w*, issues?, currently, lacks?, existing,"
        r"limit\w+",
        "example": r"for (?:example|instance), e\.g, such as, consider, suppose, imagine,"
        r"let(?: us|['’]s)",
        "points": r"figs?, figure, table, see, above, below, following, section \d, appendix,"
        r"listing, example, listed, mentioned, aforementioned",
    }
) | {
    "defines": re.compile(r"^[^.]{0,60}?\b(?:is|are|was|were) (?:an?|the|one)\b"),
    "url": re.compile(r"https?://|www\.|\]\("),
    "ticks": re.compile("`"),
    # Bold type, formulas, footnotes and keys of references are shown as they are written.
    "markup": re.compile(r"\*\*|\$[^$\s]+\$|\\[a-z]+|\[(?:\w{0,30}\d|[^\w\s])\]"),
    "speech": re.compile(r"[,.!?—][\"”] \w|[“\"][^“”\"]*[!?][”\"]"),
}
# Where single words are the cues.
_CUE_WORDS = {
    "we": word_set("we our us"),
    "needs": word_set("must shall should need needs needed require required requires"),
    "i": word_set("i me my mine"),
    "you": word_set("you your"),
    "hedges": word_set("may might could would perhaps possibly probably likely seem seems"),
    "negates": word_set("not no never cannot without neither"),
}
CUES = (*_CUES, *_CUE_WORDS)
# Near the beginning, something that was named before: "In that system ...".
_REFERS = re.compile(
    r"\W*(?:\w\S*\s+){1,4}(?:(?:this|these|those)\b"
    rf"(?! (?:\w+ )?(?:{_DOCUMENTS})\b)|(?:the|an?) (?:above|latter|former|same)\b)"
    r"|\W*(?:\w\S*\s+){0,4}(?:of|in|on|to|for|from|by|with|at|under|after|before|about|into) that\b"
    r"|\W*(?:\w\S*\s+){0,12}such an?\b(?! way)",
    re.IGNORECASE,
)
_NOTICE = re.compile(
    r"\ball rights reserved\b|\bpermission (?:is|to|notice)\b|\bas[ -]is\b['\"”’]"
    r"|\bwarrant(?:y|ies) of\b|\bwithout (?:any )?(?:express )?warrant|express or implied"
    r"|\bProject Gutenberg\b|\bcopyright (?:©|\(c\)|\d{4})|\bredistributions? (?:of|in|is|and)\b"
    r"|\blicensed under\b|\bmade available under\b|\bcreative commons\b"
    r"|\bredistribute (?:it|them|this)\b|\bfree software[:;,] you\b|\bthere is no warranty\b"
    r"|\bregistered trademarks?\b|\btrademarks? (?:of|and|or)\b|\bdistributed under\b"
    r"|\bthe key ?words\b.{0,40}\bMUST\b|\bISBN\b|\bpublic domain\b"
    r"|\bno event (?:shall|will)\b|\bproduced by\b.{0,80}https?:",
    re.IGNORECASE | re.DOTALL,
)
# Each notice has one of these; looking for them first takes a hundredth of the time.
_NOTICE_SIGNS = (
    "rights reserved",
    "permission",
    "as is",
    "as-is",
    "warrant",
    "or implied",
    "gutenberg",
    "copyright",
    "redistribut",
    "licensed",
    "available under",
    "creative",
    "free software",
    "trademark",
    "distributed under",
    "key words",
    "keywords",
    "isbn",
    "public domain",
    "no event",
    "produced by",
)
_BACK_MATTER = re.compile(
    "(?:"
    + _phrases(
        r"""
        references?, bibliography, acknowledge?ments?, licen[cs](?:e|es|ing), copyright\b.*,
        (?:a )?notes? on (?:copyright|licen[cs]\w+), legal notice, colophon, about the authors?,
        authors?, contributors?, credits, further reading, see also, external links, dedication,
        table of contents, contents, index, notes, footnotes, trademarks?, disclaimer, change ?log,
        revision history, document history, implementation history, present, attendees,
        participants, links, funding, author contributions, competing interests,
        supporting information, ethics statement, data availability
        """
    )
    + r")\W*\Z",
    re.IGNORECASE,
)
SECTIONS: dict[str, re.Pattern[str]] = _word_patterns(
    {
        "abstract": "abstract, summary, executive summary, overview, tl;?dr, synopsis, in brief,"
        "key (?:points|takeaways)",
        "introduction": r"introduc\w+, preface, foreword, background, about, purpose, scope,"
        "what is, getting started, welcome",
        "motivation": "motivation, rationale, problem, goals?, objectives?, why, the problem",
        "conclusion": r"conclusions?, concluding, closing, discussion,"
        r"final (?:words|remarks), outlook",
        "proposal": r"propos\w+, detailed design, specification, design, guide-level, solution,"
        "simple summary",
        "aside": r"security, backwards? compat\w*, test\w*, drawbacks?, alternatives?, unresolved,"
        r"open (?:issues|questions), risks?, prior art, related work, appendi\w+, examples?,"
        r"implementation, methods?, materials, graduation, upgrade, version skew,"
        r"source compat\w*, effect on, impact, reference impl\w*, future",
    },
    re.IGNORECASE,
)
_NAME_WORDS = word_set("the this these a an in on at of for and or but")


def is_whole(text: str) -> bool:
    """Return whether a sentence begins as sentences begin and has its full stop.

    Header fields, notes in brackets, headings in capitals and what leads in a list are none.
    """
    head = text.lstrip(_LEADING_MARKS)[:1]
    if not head.isalnum() or head.islower() or _ENDED.search(text) is None:
        return False
    is_other = _FIELD.match(text) or _BRACKETED.match(text) or _LEAD_IN.search(text)
    return not (is_other or text.isupper())


def is_code(text: str) -> bool:
    """Return whether a text has the signs of program code or markup, or few letters."""
    if "|" in text or len(_OTHER.findall(text)) > 0.22 * len(text) or _STATEMENT.search(text):
        return True
    return _CODE_SIGN.search(text) is not None and len(_CODE.findall(text)) > 1


def item_mark_length(text: str) -> int:
    """Return how many characters the bullet or number takes that an item begins with, or 0."""
    match = _ITEM_MARK.match(text)
    return match.end() if match else 0


def opening_mark_length(text: str) -> int:
    """Return how many characters open the comment or number the clause that a text is, or 0."""
    match = _OPENING_MARK.match(text)
    return match.end() if match else 0


def is_dangling(text: str) -> bool:
    """Return whether a sentence begins with a word that refers to the one before it."""
    bare = text.lstrip(_LEADING_MARKS)
    if _THIS.match(bare):
        return _THIS_DOCUMENT.match(bare) is None
    return _DANGLING.match(bare) is not None and _EXPLETIVE.match(bare) is None


def refers_back(text: str) -> bool:
    """Return whether a sentence soon names what was named before it ("In that system ...")."""
    return _REFERS.match(text) is not None


def cues(text: str, words: frozenset[str]) -> list[str]:
    """Return the names of the cues that a sentence has; ``words`` are all its words."""
    lowered = text.lower()
    names = [name for name, pattern in _CUES.items() if pattern.search(lowered)]
    return names + [name for name, group in _CUE_WORDS.items() if not words.isdisjoint(group)]


def is_about_itself(text: str) -> bool:
    """Return whether a sentence begins with its own document ("This guide ...")."""
    return _SELF.match(text) is not None


def is_notice(text: str) -> bool:
    """Return whether a sentence is of a licence, a copyright notice or a publisher's notice."""
    lowered = text.lower()
    return any(sign in lowered for sign in _NOTICE_SIGNS) and _NOTICE.search(text) is not None


@lru_cache(256)
def is_back_matter(section: str) -> bool:
    """Return whether a heading is one of references, thanks, licence or the like."""
    return _BACK_MATTER.match(_bare_name(section)) is not None


@lru_cache(256)
def section_kind(section: str) -> str | None:
    """Return which of ``SECTIONS`` the heading of a section is, None for any other."""
    bare = _bare_name(section)
    return next((name for name, pattern in SECTIONS.items() if pattern.match(bare)), None)


def count_names(words: list[str]) -> int:
    """Return how many words after the first begin with a capital, as names do."""
    return sum(w[:1].isupper() and w.lower() not in _NAME_WORDS for w in words[1:])


def _bare_name(section: str) -> str:
    return re.sub(r"\A(?:[\d.]+|[IVX]+\.|[A-Z]\.|#+|chapter \d+\.?)\s*", "", section.strip(" *_:"))
