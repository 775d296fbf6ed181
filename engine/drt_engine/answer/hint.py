"""One sentence beside an answer: why nothing was found, or what to ask or run instead.

Some questions are not about what a document says: what it is about as a whole, what drt is, or
one in another language.
"""

from __future__ import annotations

import re

from drt_engine.answer.candidates import Candidate
from drt_engine.retrieval.library import SearchOptions
from drt_engine.store.view import LibraryView
from drt_engine.text.words import STOP_WORDS, content_words, word_set, words

_THIS = r"(?:it|this|that|(?:this|the|that) (?:document|text|file|paper|book|report|article|page))"
_SUMMARY = re.compile(
    rf"(?i)\W*(?:(?:please |can you |could you )*(?:summari[sz]e|sum up) {_THIS}"
    rf"|(?:please )?give me (?:a|an) (?:short |brief )?(?:summary|overview)(?: of {_THIS})?"
    rf"|what(?:'s|’s| is| does) {_THIS} (?:all )?(?:about|say|contain|cover)"
    rf"|(?:a )?(?:summary|overview|tl;?dr)(?: of {_THIS})?)(?: please)?\W*"
)
_SELF = re.compile(
    r"(?i)\W*(?:(?:hi|hello|hey)\W+)?(?:who|what) (?:are you|can you do|is drt|does drt do)\W*"
    r"|\W*(?:hi|hello|hey|help)\W*"
)
# "Summarise the handbook": what is named may be no document, which only a library can tell.
_SUMMARY_OF = re.compile(
    r"(?i)\W*(?:(?:please |can you |could you )*(?:summari[sz]e|sum up)"
    r"|(?:please )?give me (?:a|an) (?:short |brief )?(?:summary|overview) of"
    r"|(?:a )?(?:summary|overview|tl;?dr) of)"
    r" (?:the )?(?:(?:document|file) )?(?P<name>\S.{0,200}?)(?: please)?[?!.\s]*"
    r"|\W*what(?:'s|’s| is) (?:the )?(?:(?:document|file) )?(?P<subject>\S.{0,200}?) about[?\s]*"
)
SUMMARY_HINT = (
    "For what a document is about, run drt summarize with its name, or name it in a conversation:"
    ' "Summarize NAME".'
)
SELF_HINT = (
    "drt answers questions about your documents with quotes from them; ask what a document says."
)
LANGUAGE_HINT = "The question seems to be in another language; drt understands English alone."
DOCUMENT_LANGUAGE_HINT = (
    "The document seems to be in another language here; drt understands English alone."
)
COUNT_HINT = (
    "The rows of this table could not be counted, or listed, for this question; name a column and"
    " one of its values as the table has them."
)
_OF_ROWS = re.compile(
    r"(?i)\W*(?:how many|(?:what is )?the number of|number of|count|list|(?:which|what) \w+s are)\b"
)
# Function words that no English question has, of the languages that people are likeliest to try.
_FOREIGN = word_set(
    """
    der das ist wie wer wo wann warum welche welcher welches für nicht und mit von zu dem ein eine
    est qui quel quelle quels où quand pourquoi comment dans du et pour avec que une
    el qué cuál cuándo dónde cómo por para quién il gli è che chi quando dove perché della
    het een wat waar wanneer waarom hoe uma é quem onde qual
    """
)
_LEAST_FOREIGN = 2  # such words
_ASKING = word_set("many much often long old far big")  # "how many": no document needs them


def hint(
    view: LibraryView,
    question: str,
    candidate: Candidate,
    search: SearchOptions,
    *,
    threshold: float | None,
) -> str:
    """Return the sentence, empty where there is nothing to say.

    ``threshold`` is the confidence that was asked for, ``None`` where the calibrated one decided.
    """
    if is_about_drt(question):
        return SELF_HINT
    if requested_summary(question) == "":
        return SUMMARY_HINT
    if candidate.found:
        return ""
    if _is_foreign(question):
        return LANGUAGE_HINT
    if candidate.citations and _is_foreign_text(candidate.citations[0].context):
        return DOCUMENT_LANGUAGE_HINT
    if _OF_ROWS.match(question) and any(" | " in c.sentence for c in candidate.citations):
        return COUNT_HINT
    if candidate.likely:
        return ""
    absence = _absence(view, question, search)
    if threshold is None:
        return absence
    confidence = f"{candidate.confidence:.2f}"
    return f"The confidence {confidence} is below the threshold {threshold:.2f}. {absence}"


def is_about_drt(question: str) -> bool:
    """Return whether a question is about the program and not about a document."""
    return _SELF.fullmatch(question) is not None


def requested_summary(question: str) -> str | None:
    """Return what a question asks a summary of: a name, or "" for what is talked about.

    ``None`` where it asks for something else. The name may be that of no document.
    """
    if _SUMMARY.fullmatch(question):
        return ""
    named = _SUMMARY_OF.fullmatch(question)
    return None if named is None else (named["name"] or named["subject"]).strip("\"'“”,;:")


def _is_foreign(question: str) -> bool:
    foreign = sum(word in _FOREIGN for word in words(question))
    return _has_other_letters(question) or foreign >= _LEAST_FOREIGN


def _is_foreign_text(text: str) -> bool:
    """Return whether a sentence of a document has more foreign function words than English ones."""
    text_words = words(text)
    foreign = sum(word in _FOREIGN for word in text_words)
    english = sum(word in STOP_WORDS for word in text_words)
    return _has_other_letters(text) or foreign >= max(_LEAST_FOREIGN, english + 1)


def _has_other_letters(text: str) -> bool:
    """Return whether most letters of a text are not Latin."""
    letters = [character for character in text if character.isalpha()]
    latin = sum(character < "\u0250" for character in letters)
    return bool(letters) and latin < len(letters) / 2


def _absence(view: LibraryView, question: str, search: SearchOptions) -> str:
    """Return which words of the question no document has, or what else to try."""
    question_words = [word for word in content_words(question) if word not in _ASKING]
    absent = [
        word
        for word in dict.fromkeys(question_words)
        if not view.holds_words(word, documents=search.document_ids)
    ]
    restricted = search.document_ids is not None or search.filters.any
    where = "the documents that were asked" if restricted else "the library"
    advice = "ask more documents" if restricted else "read more documents"
    if absent:
        listed = ", ".join(f'"{word}"' for word in absent)
        return f"Nowhere in {where}: {listed}; try other words, or {advice}."
    return f"All words of the question are in {where}, but no passage answers it; try other words."
