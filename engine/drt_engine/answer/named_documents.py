"""Which documents of a library a question names: "in the zlib header", "airline-safety.csv: ...".

A question about a document itself ("When was it sent?") may name none, or a kind of which there are
several. Knows rows of documents and words; knows nothing of what was retrieved.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import PurePath
from typing import NamedTuple

from drt_engine.answer.metadata.attachments import asks_for_attachments, attachment_names
from drt_engine.answer.metadata.question import MetadataQuestion, is_about, metadata_question
from drt_engine.answer.metadata.values import HEAD
from drt_engine.answer.parts import question_parts
from drt_engine.answer.tables.column_names import asks_for_columns
from drt_engine.answer.tables.wording import stem
from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView
from drt_engine.text.words import STOP_WORDS, content_words, word_set, words

MOST_DOCUMENTS = 1_000  # of a library that are compared with a question
_MOST_HEADS = 200  # whose beginnings are read
_LONGEST_MAIL = 500_000  # characters that are searched for attachments
_MOST_NAMED = 5  # documents; a name that more have is none
_SHORTEST_NAME = 3  # letters of the only word of a name
_LONGEST_NAME = 16  # words
_MOST_PHRASES = 16  # of a question that are compared with names
# Words of a title, and their share, that are a name without the others: two of "Kudzu in the United
# States" are none.
_FEWEST_OF_TITLE, _SHARE_OF_TITLE = 3, 0.7
_FEWEST_WORDS = 2  # of a question that is left without the name

# A name is said after one of these, or begins the question and ends with a colon.
_CONTEXT = re.compile(
    r"(?i)(?:\b(?P<within>in|from|within|inside|according to|per)\s+|\b(?P<of>of)\s+"
    r"|\b(?P<saying>does|do|did)\s+|\A\W*)(?:(?:the|this|that|our|my|your|their)\s+)?[\"'“‘(\[]*"
    r"(?=\w)"
)
# "What does ls -S do?" is of the page called ls.
_COMMAND = re.compile(
    r"(?i)(?:what|how) (?:does|do|is|are) (?:the )?[\"'`\u201c\u2018]*(?P<name>[a-z][\w.+-]*)"
    r"(?: [a-z]+)? [\"'`\u201c\u2018]*--?[\w?]"
)
_PAGE = re.compile(r"(?i)(?P<name>.+?)(?:\.\d\w{0,4}(?:\.(?:gz|bz2|xz|zst))?|\(\d\w{0,4}\).*)")
_TOKEN = re.compile(r"[^\W_]+")
_BORDER = re.compile(r"[?!:;,()]|\.\s")
_SAYING = word_set(
    "say says mention mentions tell tells define describe state recommend require give list call"
    " explain suggest specify report conclude"
)
_FILE_NAME = re.compile(r"[^\s/\\]+\.\w{1,8}\Z")
# What documents are called, by what they are; a name has to go with it.
_ANY_KIND = word_set(
    """
    document doc file text paper guide handbook manual spec specification standard report article
    policy tutorial faq essay recipe readme documentation
    """
)
_TITLE_KINDS = word_set("notes minutes news changelog licence license")  # where a title has them
_KINDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("message/", word_set("mail email message letter e")),
    ("application/mbox", word_set("mail email mails emails e")),
    ("application/x-ipynb", word_set("notebook")),
    ("text/csv", word_set("table csv data dataset sheet spreadsheet list")),
    ("spreadsheet", word_set("table data dataset sheet spreadsheet workbook")),
    ("text/x-source", word_set("code source module script program header")),
    ("application/epub", word_set("book ebook novel story textbook volume anthology")),
    ("application/pdf", word_set("pdf book")),
    ("text/html", word_set("page website site book")),
    ("text/plain", word_set("list table book story")),
    ("text/troff", word_set("page")),
)
_TABLES = re.compile(r"csv|sheet|jsonl")
_SENT = re.compile(r"(?i)\b(?:sent|senders?|recipients?|addressees?)\b")  # as mails are
_MAILS = word_set("mail email message reply")  # what a file's name says of one, others are, too
_IN_MAILS = word_set("patch note letter answer")
_OF_VERSIONS = word_set("version v edition revision copy draft final text page file document")
# Words that are said of code, but of some kinds only: the word, the media type, the file's suffix.
_NARROW_KINDS = (
    ("notebook", "ipynb", r"\Z"),
    ("header", "source", r"\.h(?:h|pp|xx)?\Z"),
    ("script", "source", r"\Z"),
    ("module", "source", r"\Z"),
    ("code", "source", r"\Z"),
)


class DocumentsMeant(NamedTuple):
    """What a question says of the documents that it is about.

    ``document_ids`` are those that it names or may mean (``None``: any), ``question`` is the rest.
    ``unclear`` are the documents that a question about a document itself may mean, where they are
    several.
    """

    document_ids: tuple[str, ...] | None
    question: str
    unclear: tuple[DocumentRow, ...] = ()


def documents_meant(view: LibraryView, question: str) -> DocumentsMeant:
    """Return which documents of a library a question means, as far as it tells.

    A library of one document, or of more than ``MOST_DOCUMENTS``, is asked as a whole.
    """
    nothing = DocumentsMeant(None, question)
    if not 1 < view.count_documents() <= MOST_DOCUMENTS:  # before any row is read
        return nothing
    rows = view.documents()
    if len(rows) == 1:  # which several libraries have
        return nothing
    named = _named(rows, question)
    if named is not None:
        return named
    questions = (question, *(part.question for part in question_parts(question)))
    for each in questions:
        fitting = _fitting(view, rows, each)
        if fitting is not None and len(fitting) == 1:
            return DocumentsMeant((fitting[0].id,), question)
        if fitting:
            ids = tuple(row.id for row in fitting) if len(fitting) <= _MOST_NAMED else None
            return DocumentsMeant(ids if len(fitting) < len(rows) else None, question, fitting)
    return nothing


@dataclass(frozen=True)
class _Names:
    """What a document may be called."""

    row: DocumentRow

    @cached_property
    def files(self) -> list[str]:
        """Names of its file, and of the archive that it is a member of, in lower case."""
        parts = re.split(r"[/\\]|!", self.row.source.lower())
        names = [parts[-1], *(p for p in parts if p.endswith(".zip"))]
        return [name for name in names if _FILE_NAME.match(name)]

    @cached_property
    def titles(self) -> list[frozenset[str]]:
        """The words of the title and those of the file's name, each as a name."""
        file_stem = PurePath(self.row.source).stem
        titles = (self.row.title, file_stem)
        return [frozenset(stem(w) for w in content_words(t.replace("_", " "))) for t in titles]

    @cached_property
    def initials(self) -> frozenset[str]:
        """What the title is abbreviated to, as the file's name is."""
        parts = [word for word in words(self.row.title) if word not in STOP_WORDS]
        initials = "".join(word[0] for word in parts if not word.isdigit())
        file_words = words(PurePath(self.row.source).stem)
        return frozenset({initials} if len(initials) >= _SHORTEST_NAME else ()) & frozenset(
            file_words
        )

    @cached_property
    def words(self) -> frozenset[str]:
        """Words that may be part of a name, stemmed, the author's among them."""
        author = re.sub(r"<[^>]*>", " ", self.row.author)
        authors = frozenset(stem(word) for word in content_words(author)) if author else frozenset()
        return frozenset().union(*self.titles) | authors

    @cached_property
    def kinds(self) -> frozenset[str]:
        """Words for what it is, as they are written."""
        found = [kinds for media, kinds in _KINDS if media in self.row.media_type]
        return _ANY_KIND.union(*found)


class _Phrase(NamedTuple):
    """Words of a question that a name may begin: what they come after, and their places."""

    context: str
    start: int  # of what they come after
    tokens: tuple[re.Match[str], ...]


class _Match(NamedTuple):
    """The words of a document that a phrase has, and how many of its tokens the name is."""

    names: frozenset[str]
    length: int


def _named(rows: Sequence[DocumentRow], question: str) -> DocumentsMeant | None:
    """Return the documents whose name a question has, and the rest of the question."""
    by_file = _named_by_file(rows, question) or _named_by_command(rows, question)
    if by_file is not None:
        return by_file
    phrases = list(islice(_phrases(question), _MOST_PHRASES))
    if not phrases:
        return None
    names = [_Names(row) for row in rows]
    counts = Counter(word for each in names for word in each.words)
    best: list[tuple[float, _Phrase, _Match, DocumentRow]] = []
    for phrase in phrases:
        for each in names:
            match = _match(phrase, each)
            if match is None:
                continue
            score = sum(math.log1p(len(rows) / counts[word]) for word in match.names)
            if best and score > best[0][0] + 1e-6:
                best = []
            if not best or score > best[0][0] - 1e-6:
                best.append((score, phrase, match, each.row))
    ids = tuple(dict.fromkeys(row.id for *_, row in best))
    if not 0 < len(ids) <= _MOST_NAMED or len(ids) == len(rows):
        return None
    _, phrase, match, _ = max(best, key=lambda one: one[2].length)
    end = phrase.tokens[match.length - 1].end()
    return DocumentsMeant(ids, _rest(question, phrase, end))


def _named_by_file(rows: Sequence[DocumentRow], question: str) -> DocumentsMeant | None:
    """Return the documents whose file's name, suffix included, is in a question."""
    lowered = question.lower()
    ids: list[str] = []
    span = (0, 0)
    for row in rows:
        for name in _Names(row).files:
            at = lowered.find(name)
            end = at + len(name)
            if at < 0 or re.match(r"\w|[.-]\w", lowered[end : end + 2]):
                continue
            if at and re.match(r"[\w.-]", lowered[at - 1]):
                continue
            ids.append(row.id)
            span = (at, end)
    if not ids or len(ids) == len(rows):
        return None
    before = list(_CONTEXT.finditer(lowered, 0, span[1]))
    context = next((c for c in reversed(before) if c.end() == span[0]), None)
    rest = question
    if context is not None:
        phrase = _Phrase(_context_of(context), context.start(), ())
        rest = _rest(question, phrase, span[1])
    return DocumentsMeant(tuple(dict.fromkeys(ids)), rest)


def _named_by_command(rows: Sequence[DocumentRow], question: str) -> DocumentsMeant | None:
    """Return the manual pages called what a question about an option names: "ls -S"."""
    command = _COMMAND.match(" ".join(question.split()))
    if command is None:
        return None
    name = command["name"].lower()
    ids = tuple(row.id for row in rows if name in _page_names(row))
    if not 0 < len(ids) <= _MOST_NAMED or len(ids) == len(rows):
        return None
    return DocumentsMeant(ids, question)


def _page_names(row: DocumentRow) -> set[str]:
    """Return what the manual page that a document is, is called; nothing for other documents."""
    texts = (row.title, re.split(r"[/\\]|!", row.source)[-1])
    pages = (_PAGE.fullmatch(text.strip()) for text in texts)
    return {page["name"].lower() for page in pages if page}


def _context_of(match: re.Match[str]) -> str:
    return match.lastgroup or "begin"


def _phrases(question: str) -> Iterator[_Phrase]:
    """Yield the words after each context."""
    for context in _CONTEXT.finditer(question):
        tokens: list[re.Match[str]] = []
        for token in _TOKEN.finditer(question, context.end()):
            gap = question[tokens[-1].end() : token.start()] if tokens else ""
            if len(tokens) == _LONGEST_NAME or _BORDER.search(gap):
                break
            tokens.append(token)
        yield _Phrase(_context_of(context), context.start(), tuple(tokens))


def _match(phrase: _Phrase, names: _Names) -> _Match | None:
    """Return how a phrase names a document, if it does."""
    found: set[str] = set()
    has_kind, count = False, 0
    for number, token in enumerate(phrase.tokens):
        word = token[0].lower()
        root = stem(word)
        if root in names.words and word not in STOP_WORDS:
            found.add(root)
            count = number + 1
        elif word in names.kinds:
            has_kind, count = True, number + 1
        elif word not in STOP_WORDS:
            break
    if not found or not _ends(phrase, count):
        return None
    kinds = {stem(word) for word in names.kinds | _TITLE_KINDS}
    if any(
        token[0].isupper() and token[0].lower() in names.initials for token in phrase.tokens[:count]
    ):
        return _Match(frozenset(found), count)
    own = {word for word in found - kinds if len(word) >= _SHORTEST_NAME and not word.isdigit()}
    has_kind = has_kind or bool(found & kinds)
    is_title = any(_is_title(found & title, title) for title in names.titles)
    if not own or not (has_kind or (is_title and phrase.context != "of")):
        return None
    return _Match(frozenset(found), count)


def _is_title(found: set[str], title: frozenset[str]) -> bool:
    """Return whether some words of a title are all of it, or most of a long one."""
    if len(found) == len(title):
        return len(title) > 1
    return len(found) >= _FEWEST_OF_TITLE and len(found) >= _SHARE_OF_TITLE * len(title)


def _ends(phrase: _Phrase, count: int) -> bool:
    """Return whether a name may end after ``count`` words: "the zlib header", not "...file size".

    At the beginning of a question it ends with a colon.
    """
    text = phrase.tokens[0].string
    end = phrase.tokens[count - 1].end()
    following = phrase.tokens[count] if count < len(phrase.tokens) else None
    if phrase.context == "begin":
        return re.match(r"[\"'”’)\]]*\s*:\s", text[end:]) is not None
    if phrase.context == "saying":
        return following is not None and following[0].lower() in _SAYING
    return following is None or following[0].lower() in STOP_WORDS | _SAYING


def _rest(question: str, phrase: _Phrase, end: int) -> str:
    """Return a question without a name at one of its ends, "In the zoo FAQ, what ...?"."""
    if phrase.context not in ("within", "begin"):
        return question
    before, after = question[: phrase.start], question[end:]
    if re.fullmatch(r"[\"'”’)\]\s.?!]*", after):
        mark = "?" if "?" in after else ""
        rest = re.sub(r"[\s,(\[]+\Z", "", before) + mark
    elif not before.strip() and (match := re.match(r"[\"'”’)\]]*\s*[,:]\s*", after)):
        rest = after[match.end() :]
    else:
        return question
    return rest if len(words(rest)) >= _FEWEST_WORDS else question


def _fitting(
    view: LibraryView, rows: Sequence[DocumentRow], question: str
) -> tuple[DocumentRow, ...] | None:
    """Return the documents that a question about a document itself may mean; None for others."""
    if asks_for_columns(question):
        return tuple(row for row in rows if _TABLES.search(row.media_type))
    mails = [row for row in rows if row.media_type.startswith("message/")][:_MOST_HEADS]
    if asks_for_attachments(question):
        return tuple(row for row in mails if attachment_names(_text(view, row, _LONGEST_MAIL)))
    asked = metadata_question(question)
    if asked is None or asked.names or not (asked.nouns or asked.is_demonstrative or asked.is_bare):
        return None
    if asked.nouns & _IN_MAILS:  # which some mails are, and not all that a mail is called
        return None
    if _SENT.search(question) and mails:
        rows = mails
    titled = tuple(row for row in rows if (asked.nouns - _MAILS) & _last_words(row))
    if titled:
        return titled
    for noun, media_type, suffix in _NARROW_KINDS:
        if noun in asked.nouns:
            rows = [r for r in rows if media_type in r.media_type and re.search(suffix, r.source)]
    if len(rows) > _MOST_HEADS:
        return tuple(rows)
    return tuple(row for row in rows if _is_about(view, asked, row))


def _last_words(row: DocumentRow) -> frozenset[str]:
    """Return the last words of a title and of a file's name, which say what a document is."""
    texts = (row.title, PurePath(row.source).stem.replace("_", " "))
    contents = [[w for w in words(t) if w not in _OF_VERSIONS and not w.isdigit()] for t in texts]
    return frozenset(content[-1] for content in contents if content)


def _is_about(view: LibraryView, asked: MetadataQuestion, row: DocumentRow) -> bool:
    return is_about(
        asked,
        title=_title_and_file(row),
        author=row.author,
        head=_text(view, row, HEAD),
        media_type=row.media_type,
    )


def _text(view: LibraryView, row: DocumentRow, longest: int) -> str:
    """Return the beginning of a document."""
    return view.text(row.id, 0, min(row.characters, longest))


def _title_and_file(row: DocumentRow) -> str:
    return f"{row.title} {PurePath(row.source).name}"
