"""Features of a sentence from which its score is made. Knows text and counts; no model.

All are between about -1 and 2, so that their weights compare.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from drt_engine.summary.sentences import wording
from drt_engine.summary.sentences.prose import PlacedSentence
from drt_engine.summary.sentences.weights import WORD_WEIGHTS
from drt_engine.summary.sentences.word_worth import word_features, word_worths, worth_features
from drt_engine.text.words import STOP_WORDS, content_words, word_set, words

_KEYWORDS = 12
_SHORT_TEXT = 25  # sentences; what is shorter is an abstract, a mail or a notice
_BOOK, _BOOK_OPENING = 500, 0.04  # sentences, and the part of them that introduces a book
_OPENING = 5  # sentences after which the opening counts half
_LARGEST_COUNT, _LARGEST_DEGREE = 40, 3.0
_PLAIN = """
    first early log_number length length_squared short names digits commas brackets quotes question
    speaker item opens_paragraph opens_section dangling refers self
    short_text_place short_text_end short_text_start long_text_place long_text_end long_text_start
    short_text_opening long_text_opening book_opening
    frequency log_frequency degree keywords keyword_share title heading unique
    worth worth_sum worth_best content
"""
# Function words whose share tells a general sentence from one of details.
_FUNCTION_WORDS = {
    "function_the": word_set("the"),
    "function_of": word_set("of"),
    "function_a": word_set("a an"),
    "function_in": word_set("in on at by for with from"),
    "function_and": word_set("and or"),
    "function_has": word_set("are have has been were"),
}
_WITH_DIGIT = re.compile(r"(?<![^\s\d])[^\s\d]*\d\S*")
FEATURES = (
    *_PLAIN.split(),
    *_FUNCTION_WORDS,
    *(f"cue_{name}" for name in wording.CUES),
    *(f"section_{name}" for name in wording.SECTIONS),
    *(f"section_{name}_opens" for name in wording.SECTIONS),
)


@dataclass(frozen=True)
class DocumentWords:
    """What is counted over all sentences of a document before one of them is scored."""

    counts: Mapping[str, int]
    largest_count: int
    keywords: frozenset[str]
    title: frozenset[str]
    sentences: int
    mean_degree: float = 1.0

    @classmethod
    def of(cls, sentences: Sequence[frozenset[str]], title: str) -> DocumentWords:
        """Return the counts of the content words of ``sentences``."""
        counts = Counter(word for words in sentences for word in words)
        common = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_KEYWORDS]
        document = cls(
            counts=counts,
            largest_count=common[0][1] if common else 1,
            keywords=frozenset(word for word, count in common if count > 1),
            title=frozenset(content_words(title)),
            sentences=len(sentences),
        )
        total = sum(map(document.degree, sentences))
        return replace(document, mean_degree=total / len(sentences) if total else 1.0)

    def degree(self, words: frozenset[str]) -> float:
        """Return how many words a sentence has in common with all others, by its length."""
        return sum(self.counts.get(word, 1) - 1 for word in words) / math.log(2 + len(words))


@dataclass(frozen=True, slots=True)
class Described:
    """A sentence with its content words and its features by name; absent features are 0."""

    sentence: PlacedSentence
    words: frozenset[str]
    features: Mapping[str, float]


def described_sentences(sentences: Sequence[PlacedSentence], title: str) -> list[Described]:
    """Return the sentences of one document, in order, with their features."""
    tokens = [words(sentence.text) for sentence in sentences]
    content = [(unique := frozenset(found)) - STOP_WORDS or unique for found in tokens]
    document = DocumentWords.of(content, title)
    features = [
        _features(sentence, tokens[number], content[number], number=number, document=document)
        for number, sentence in enumerate(sentences)
    ]
    sections = [sentence.section for sentence in sentences]
    worths = word_worths(word_features(tokens, sections, features, title), WORD_WEIGHTS)
    for found, values in zip(tokens, features, strict=True):
        values |= worth_features(found, worths) | _function_words(found)
    return list(map(Described, sentences, content, features))


def _features(
    sentence: PlacedSentence,
    all_words: Sequence[str],
    content: frozenset[str],
    *,
    number: int,
    document: DocumentWords,
) -> dict[str, float]:
    text = sentence.text
    tokens = text.split()
    place = number / max(1, document.sentences - 1)
    features = {
        "first": float(number == 0),
        "early": 1 / (1 + number),
        "log_number": math.log1p(number) / 5,
        "length": min(len(tokens), 60) / 20,
        "length_squared": (min(len(tokens), 60) / 20) ** 2 / 4,
        "short": float(len(tokens) < 9),
        "names": min(wording.count_names(tokens), 6) / 3,
        "digits": min(len(_WITH_DIGIT.findall(text)), 5) / 5,
        "commas": min(text.count(","), 5) / 5,
        "brackets": float("(" in text),
        "quotes": float(text[:1] in "\"'“‘"),
        "question": float(text.rstrip("\"'”’)").endswith("?")),
        "speaker": float(":" in " ".join(tokens[:3])),
        "item": float(sentence.is_item),
        "opens_paragraph": float(sentence.previous is None),
        "opens_section": float(sentence.opens_section),
        "dangling": float(wording.is_dangling(text)),
        "refers": float(wording.refers_back(text)),
        # Far behind, "this book" is another one.
        "self": float((number < 50 or place < 0.2) and wording.is_about_itself(text)),
        "book_opening": max(0.0, 1 - place / _BOOK_OPENING) * (document.sentences > _BOOK),
    }
    scale = "short_text" if document.sentences <= _SHORT_TEXT else "long_text"
    features[f"{scale}_place"] = place
    features[f"{scale}_end"] = float(place > 0.85)
    features[f"{scale}_start"] = float(place < 0.15)
    features[f"{scale}_opening"] = 1 / (1 + number / _OPENING)
    features |= {f"cue_{name}": 1.0 for name in wording.cues(text, frozenset(all_words))}
    kind = wording.section_kind(sentence.section) if sentence.section else None
    if kind is not None:
        features[f"section_{kind}"] = 1.0
        features[f"section_{kind}_opens"] = float(sentence.opens_section)
    features |= _word_features(content, document, sentence.section)
    return features


def _word_features(
    words: frozenset[str], document: DocumentWords, section: str
) -> dict[str, float]:
    size, keywords = max(1, len(words)), document.keywords
    heading = frozenset(content_words(section)) if section else frozenset()
    return {
        # The mean of the words' relative frequencies, and of their logarithms.
        "frequency": sum(document.counts.get(word, 0) for word in words)
        / size
        / document.largest_count,
        "log_frequency": math.fsum(
            math.log1p(min(document.counts.get(word, 0), _LARGEST_COUNT)) for word in words
        )
        / size
        / 3,
        "degree": min(document.degree(words) / document.mean_degree, _LARGEST_DEGREE),
        "keywords": len(words & keywords) / max(1, len(keywords)),
        "keyword_share": len(words & keywords) / size,
        "title": len(words & document.title) / max(1, len(document.title)),
        "heading": len(words & heading) / max(1, len(heading)),
        "unique": sum(document.counts.get(word, 0) <= 1 for word in words) / size,
    }


def _function_words(tokens: Sequence[str]) -> dict[str, float]:
    """Return ten times the shares of function words in a sentence, 2 at most."""
    size = max(1, len(tokens))
    return {
        name: min(10 * sum(map(tokens.count, group)) / size, 2.0)
        for name, group in _FUNCTION_WORDS.items()
    }
