"""Tells questions about a document itself, and what of it they ask: "Who wrote this guide?".

Strict, since most questions with these words are about something in the text: every word has to be
one of asking, one for a document, or one of the document's own title. Knows words alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from drt_engine.text.words import STOP_WORDS, word_set, words

Field = Literal["title", "author", "editor", "date", "version", "publisher", "subject", "recipient"]

_WRITTEN = r"(?:written|authored|composed|compiled|drafted|prepared)"
_WROTE = r"(?:wrote|writes|written|authored|composed|compiled|drafted|prepared|sent|made|created)"
_THING = r"(?:it|this|that|the \w+|this \w+)"
_ISSUED = r"(?:published|publishes|issued|issues|released|releases|puts out|put out)"
# Of the first of several mails
_STARTED = r"\bwho (?:started|began|opened) (?:the|this) (?:thread|discussion|conversation)\b"
_FIELDS: tuple[tuple[Field, re.Pattern[str]], ...] = (
    (
        "author",
        re.compile(
            rf"\bwho (?:all )?(?:has |have |had )?{_WROTE}\b|\bauthors?\b|\bsenders?\b"
            rf"|\bby whom\b|\bwho (?:was|is|were|are) {_THING} (?:{_WRITTEN} by|from)\b"
            rf"|\bwho (?:is|was) {_THING} from\b|\bfrom whom\b"
            r"|\bwho (?:replied|answered|responded)\b"
            rf"|{_STARTED}"
        ),
    ),
    (
        "editor",
        re.compile(r"\bwho (?:all )?(?:has |have |had )?edited\b|\beditors?\b|\bedited by\b"),
    ),
    (
        "publisher",
        re.compile(rf"\bwho (?:has )?{_ISSUED}\b|\bpublishers?\b|\bissuer\b|\b{_ISSUED} by\b"),
    ),
    (
        "date",
        re.compile(
            r"\bwhen\b|\bdates?\b|\bdated\b|\b(?:what|which) (?:year|day|month|date)\b"
            r"|\byear of publication\b|\bpublication year\b"
        ),
    ),
    ("version", re.compile(r"\b(?:what|which) (?:version|revision|edition|release)\b|\bversion\b")),
    (
        "title",
        re.compile(r"\btitled?\b|\bentitled\b|\bwhat (?:is|was) \w+(?: \w+)? (?:called|named)\b"),
    ),
    ("subject", re.compile(r"\bsubject\b")),
    (
        "recipient",
        re.compile(
            r"\bto whom\b|\brecipients?\b|\baddressees?\b|\baddressed to\b"
            rf"|\bwho (?:got|received)\b|\bwhom? (?:was|is|were) {_THING} (?:sent|written) to\b"
        ),
    ),
)
# What a date is asked of; "when" alone asks for anything.
_DATED = re.compile(
    rf"\b(?:{_WRITTEN}|{_ISSUED}|sent|posted|wrote|publish|release|send|write|made|created"
    r"|creation|given|delivered|dated?|dates|updated?|modified|revised|meet|met|meeting|held|publication|uploaded|year)\b"
)
_OF_DOCUMENTS = re.compile(
    rf"\b(?:{_WRITTEN}|{_ISSUED}|sent|posted|updated|modified|revised|dated|created|creation|publication)\b"
)
_UPDATED = re.compile(r"\b(?:last|latest|recently|updated?|modified|revised|revision)\b")
# Words for a document, by the documents that they are said of.
_ANY = word_set("document doc file text pdf docx page pages it this that version copy")
_MAIL = word_set("message mail email e reply letter note answer patch")
_MAILS = word_set("mails messages emails thread discussion conversation")
_REPLIED = word_set("replied answered responded")  # of a mail that is an answer
_BOOK = word_set("book ebook novel volume textbook story anthology collection")
_CODE = word_set("header script module program code source library notebook package software")
_TITLED = word_set(
    """
    guide handbook manual specification spec standard report paper article policy tutorial faq
    recipe post notebook readme minutes meeting essay thesis dissertation press statement whitepaper
    agreement contract proposal memorandum newsletter presentation slides study review
    vignette documentation book survey proposal announcement chapter blog catalogue brochure draft
    memo rfc dictionary encyclopedia encyclopaedia glossary diary memoir biography
    """
)
# Said of what stories and reports tell of, too: only a title, or the first lines, make them the
# document.
_TOLD = word_set(
    """
    letter message speech address talk lecture sermon song play poem checklist worksheet
    questionnaire factsheet bulletin charter
    """
)
# Words of asking that name nothing.
_FILLERS = word_set(
    """
    wrote write writes written authored author authors composed compiled drafted prepared edited
    editor sent send sends sender senders created made create published publish publishes
    publisher publishers issued issues issue issuer released releases release date dates dated
    day year month version revision edition number title titled entitled called named name names
    started began opened subject line recipient recipients addressee addressed address received got
    get gets updated
    update modified revised last latest recently publication publishing posted posting uploaded
    meet met meeting held place take took given gave delivered creation describe described full
    exact current please tell give show people person persons original put
    """
)
# Words that alone ask for a document's own: "publication date", but not "release date".
_OWN = word_set("publication author authors publisher title subject sender recipient recipients")
_CHAPTER = re.compile(r"(?im)^[^\w\n]{0,20}chapter [ivxlc\d]+\b|\bebook\b")
_MANUAL = re.compile(r"\bman(?:ual)? ?page\b")
_REPLY = re.compile(r"(?im)^subject:[ \t]*re:")
_SUBJECT = re.compile(r"(?im)^subject:[ \t]*(?:(?:re|fwd?|aw):[ \t]*)*([^\n]*)")
_MEMO = re.compile(r"(?im)^(?:request for comments:|internet[- ]draft)")
_MEMO_WORDS = word_set("rfc draft memo specification standard")
_NUMBER = re.compile(r"(?<!\d)\d+(?:\.\d+)+")
_CONTENTS = re.compile(r"\b(?:why|how|mean|means|contain|contains|say|says|about)\b")


@dataclass(frozen=True)
class MetadataQuestion:
    """The fields that a question asks for, in its order, and the words that name the document.

    ``nouns`` are words for a document ("guide"), ``names`` all others, ``numbers`` those with
    points; ``is_demonstrative`` tells that it says "this" or "it", ``is_bare`` that it has words of
    asking alone ("publication date"), ``is_of_meeting`` that it asks when people met.
    ``updated`` asks for the date of the last change.
    """

    fields: tuple[Field, ...]
    nouns: frozenset[str]
    names: frozenset[str]
    numbers: frozenset[str]
    is_demonstrative: bool
    is_bare: bool
    is_of_meeting: bool
    updated: bool

    @property
    def is_named_alone(self) -> bool:
        """Whether only a title tells the document, which may be the name of what it is about."""
        return not (self.nouns or self.is_demonstrative or self.is_bare or self.is_of_meeting)


def metadata_question(question: str) -> MetadataQuestion | None:
    """Return what a question asks of a document itself; None where it is about something else."""
    text = " ".join(question.lower().replace("\u2019", "'").split())
    text = _MANUAL.sub("page", text)
    if _CONTENTS.search(text):
        return None
    positions = [(m.start(), field) for field, pattern in _FIELDS if (m := pattern.search(text))]
    fields = tuple(field for _, field in sorted(positions))
    if not fields or (fields == ("date",) and not _DATED.search(text)):
        return None
    question_words = frozenset(words(text))
    nouns = question_words & (_ANY | _MAIL | _MAILS | _REPLIED | _BOOK | _CODE | _TITLED | _TOLD)
    pronoun_alone = not nouns - {"it", "this", "that"} and bool(nouns)
    if pronoun_alone and fields == ("date",) and not _OF_DOCUMENTS.search(text):
        return None  # "When was it?"
    if nouns & _MAILS and fields != ("subject",) and not re.search(_STARTED, text):
        return None  # each has its own
    # "this version of the standard" asks for no version
    if "date" in fields or "author" in fields:
        asks_version = re.search(r"\b(?:what|which) (?:version|edition|revision)\b", text)
        fields = tuple(f for f in fields if f != "version" or asks_version or "date of" in text)
    names = question_words - STOP_WORDS - nouns - _FILLERS - {"s"}
    return MetadataQuestion(
        fields=fields,
        nouns=nouns - {"it", "this", "that"},
        names=names,
        numbers=frozenset(_NUMBER.findall(text)),
        is_demonstrative=bool(question_words & {"it", "this"}) or "document" in nouns,
        is_bare=not nouns and not names and bool(question_words & _OWN),
        is_of_meeting=bool(question_words & {"meet", "met", "meeting", "held"}),
        updated=bool(_UPDATED.search(text)),
    )


def is_about(
    question: MetadataQuestion, *, title: str, author: str, head: str, media_type: str
) -> bool:
    """Return whether a question names this document, by its title or by what kind it is.

    ``title`` includes the file's name, ``head`` is the beginning of the text.
    """
    title_words = frozenset(words(title))
    if not _are_among(question.names, title_words | frozenset(words(author))):
        return False
    if not question.numbers <= set(_NUMBER.findall(title)):
        return False  # "3.3.0" is not "3.2.0", though it has the same digits
    if "patch" in question.nouns and media_type.startswith("message/") and _REPLY.search(head):
        return False  # which an answer quotes, and somebody else wrote
    kinds = _ANY | _kind_words(media_type, head) | (_TOLD & _first_words(head))
    head_words, is_named = frozenset(words(head)), len(question.names & title_words) > 1
    for noun in question.nouns - kinds - title_words:
        if noun not in _TITLED | _TOLD:
            return False
        if not (is_named or question.is_demonstrative or (noun in _TITLED and noun in head_words)):
            return False
    if question.is_of_meeting and title_words & {"meeting", "minutes"}:
        return True
    # Without a noun, a title of one word may be the name of anything, but for a manual's program.
    is_program = is_manual(media_type) and question.fields == ("author",)
    is_named = is_named or (is_program and bool(question.names & title_words))
    return bool(question.nouns) or question.is_demonstrative or question.is_bare or is_named


def is_manual(media_type: str) -> bool:
    """Return whether a document is the manual page of a program."""
    return media_type == "text/troff"


def names_title(question: MetadataQuestion, title: str) -> bool:
    """Return whether a question has words of a title, and no names that are not in it."""
    title_words = frozenset(words(title))
    named = bool((question.names | question.nouns) & title_words)
    named = named and question.numbers <= set(_NUMBER.findall(title))
    return named and _are_among(question.names, title_words)


def _first_words(head: str) -> frozenset[str]:
    """Return the words of the first two lines of a text."""
    lines = [line for line in head[:1000].split("\n") if line.strip()]
    return frozenset(words(" ".join(lines[:2])))


def _kind_words(media_type: str, head: str) -> frozenset[str]:
    if media_type == "application/mbox":
        subjects = {" ".join(subject.lower().split()) for subject in _SUBJECT.findall(head)}
        return _MAILS if len(subjects) == 1 else frozenset()
    if media_type.startswith("message/"):
        return _MAIL | _REPLIED if _REPLY.search(head) else _MAIL
    if _MEMO.search(head):
        return _MEMO_WORDS
    if "epub" in media_type or _CHAPTER.search(head):
        return _BOOK
    if "ipynb" in media_type or "source" in media_type:
        return _CODE
    return frozenset()


def _are_among(names: Iterable[str], title_words: frozenset[str]) -> bool:
    stems = {word[:5] for word in title_words}
    return all(name in title_words or (len(name) > 4 and name[:5] in stems) for name in names)
