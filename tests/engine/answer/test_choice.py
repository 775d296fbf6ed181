"""Which of the reader's spans is likeliest, by the question's words around it."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from drt_engine.answer.choice import ranking
from drt_engine.answer.quote import Quotes, QuoteSpan

NEAR = "The lamp of the harbour was lit in spring. "
FAR = "Bread is sold on Mondays. " * 40
TEXT = NEAR + FAR


@dataclass
class OneText:
    """The part of a library, of its documents and of a document that one text has."""

    content: str
    id: str = "d"

    @property
    def characters(self) -> int:
        return len(self.content)

    def row(self, document_id: str) -> OneText:
        return self

    def text(self, document_id: str, start: int, end: int) -> str:
        return self.content[start:end]


def span(start: int, probability: float) -> QuoteSpan:
    passage: Any = SimpleNamespace(row=SimpleNamespace(id=start))
    return QuoteSpan("d", start, start + 5, probability, passage)


def order(question: str, *spans: QuoteSpan) -> list[int]:
    text: Any = OneText(TEXT)
    passages: Any = [SimpleNamespace(text=NEAR), SimpleNamespace(text=FAR[:400])]
    judgement = SimpleNamespace(passages=passages)
    asked: Any = SimpleNamespace(text=question, documents=text, judgement=judgement)
    return ranking(asked, text, spans)


def test_words_of_the_question_decide_between_unsure_spans() -> None:
    far, near = span(len(TEXT) - 30, 0.02), span(4, 0.01)
    assert order("When was the harbour's lamp lit?", far, near) == [1, 0]
    assert order("When does it happen?", far, near) == [0, 1]


def test_they_do_not_outweigh_a_sure_one() -> None:
    far, near = span(len(TEXT) - 30, 0.9), span(4, 1e-6)
    assert order("When was the harbour's lamp lit?", far, near) == [0, 1]


def test_a_span_has_the_votes_that_it_won() -> None:
    first, second, third = span(0, 0.5), span(20, 0.2), span(40, 0.01)
    quotes = Quotes((first, second), 0.0, 0.0, 0.6, 0.3, (third,))
    assert quotes.votes_of(first) == (0.6, 0.3)
    assert quotes.votes_of(second) == (0.3, 0.6)
    share, best = quotes.votes_of(third)
    assert best == 0.6 and 0 < share < 0.1
