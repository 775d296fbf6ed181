"""How much of a document answers: words, sentence or list, over a text that is a library."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from drt_engine.answer.grain import (
    LONGEST_LIST,
    answer_type,
    expected_type,
    grown_span,
)
from drt_engine.answer.sentences import passage_around, sentence_around
from tests.tables import each_row

TEXT = """The harbour is old. Boats wait outside the wall, since the quay is narrow.

A visitor brings these things: their number does not matter, say the rules of

- a lamp,
- two blankets
  of wool, and

- a rope.

Light the stove so:

1. Open the flue.
2. Lay the wood.
"""


@dataclass
class TextOnly:
    """The part of a library and of its document that a text alone has."""

    content: str
    id: str = "d"
    title: str = ""
    media_type: str = "text/plain"

    @property
    def characters(self) -> int:
        return len(self.content)

    def text(self, document_id: str, start: int, end: int) -> str:
        return self.content[start:end]

    def places(self, document_id: str) -> list[tuple[int, int | None, str | None]]:
        return [(0, None, None)]

    def blocks(self, document_id: str, start: int, end: int) -> list[tuple[int, str]]:
        return []


def grown(quote: str, expected: str, text: str = TEXT) -> str:
    at = text.index(quote)
    document: Any = TextOnly(text)
    start, end, _ = grown_span(document, document, (at, at + len(quote)), expected)
    return text[start:end]


@each_row("expected", ["why", "definition", "yesno", "compare", "list", "how"])
def test_a_span_grows_to_its_sentence(expected: str) -> None:
    sentence = "Boats wait outside the wall, since the quay is narrow."
    assert grown("the quay is narrow", expected) == sentence


def test_a_list_has_all_its_items_and_its_lead_in() -> None:
    items = TEXT[TEXT.index("- a lamp") : TEXT.index("\n\nLight")]
    assert grown("two blankets", "list") == items  # the line before ends in no colon
    steps = TEXT[TEXT.index("Light") :].rstrip()
    assert grown("Lay the wood", "how") == grown("Light the stove", "list") == steps
    # A manner takes steps, but no mere list.
    assert grown("a rope", "how") == "a rope."
    assert grown("1. alone", "list", "1. alone\n\nAfter it.") == "1. alone"


NESTED = """Duties are these:

1. Keep the light. Its parts are
   - the lamp
   - the glass
2. Keep the log.
"""


def test_of_nested_lists_the_innermost_answers() -> None:
    inner = NESTED[NESTED.index("   - the lamp") : NESTED.index("2. Keep")].rstrip()
    assert grown("the glass", "list", NESTED) == inner
    assert grown("the glass\n2. Keep", "list", NESTED) == NESTED.rstrip()
    assert grown("Keep the log", "list", NESTED) == NESTED.rstrip()


def test_long_items_of_a_list_within_prose_stay_alone() -> None:
    clause = "The keeper, whoever he is, {} within a day of the order, in writing, to the board. "
    outer = "".join(f"{n}. {clause.format('answers') * 9}\n" for n in range(1, 9))
    text = outer + "9. Also\n" + "".join(f"   ({x}) {clause.format(x)}\n" for x in "abc")
    assert grown("whoever he is, b", "list", text).count("whoever") == 1


def test_of_a_long_list_the_first_items_are_shown_and_the_rest_is_counted() -> None:
    items = [f"- item {number} of the endless list\n  - its part\n\n" for number in range(200)]
    text = "These are needed:\n\n" + "".join(items)
    document: Any = TextOnly(text)
    start = text.index("item 7 of")
    grown_list = grown_span(document, document, (start, start + 6), "list")
    shown = text[grown_list.start : grown_list.end]
    assert LONGEST_LIST - 50 < len(shown) <= LONGEST_LIST and shown.startswith("These")
    assert shown.endswith("its part") and shown.count("- item") + grown_list.more_items == 200
    # What is not among the first ones stays alone, and so does a list that nobody asked for.
    assert grown("item 100 of", "list", text) == "item 100 of the endless list"
    assert grown("These", "when", text) == "These are needed:"
    log = "".join(f"- it was mended, {'after long thought, ' * 4}in {n}\n" for n in range(99))
    assert grown("in 7", "list", log).count("mended") == 1  # a log of changes is none
    names = "".join(f"- harbour {n} of the northern coast\n" for n in range(99))
    assert grown("harbour 7", "list", names) == names.strip()


@each_row(
    "text",
    [
        "(i) a lamp\n(ii) a rope\n(iii) wool\n",
        "o  a lamp\no  a rope\n",
        "\u00b7 a lamp\n\n    which burns oil\n\n\u00b7 a rope\n",
    ],
)
def test_items_of_many_kinds_are_a_list(text: str) -> None:
    assert grown("a rope", "list", text) == text.rstrip("\n")


@each_row(
    ("text", "quote", "sentence"),
    [
        ("- The quay is narrow.\n- It is old.\n", "narrow", "The quay is narrow."),
        (
            '"""Remove the white space of every line."""\n',
            "white",
            'Remove the white space of every line."""',
        ),
        ("4.2 The quay is narrow.\n", "narrow", "4.2 The quay is narrow."),
        (
            "-5 degrees were measured on the quay.\n",
            "quay",
            "-5 degrees were measured on the quay.",
        ),
    ],
)
def test_a_sentence_begins_behind_its_bullet(text: str, quote: str, sentence: str) -> None:
    assert grown(quote, "why", text) == sentence


ROWS = "".join(
    f"version: {n} | codename: Release of the {n}th harbour | released: 20{n}-07-06 | end: 2022\n"
    for n in range(10, 20)
)


def test_a_row_of_a_table_is_shown_alone() -> None:
    document: Any = TextOnly(f"The releases, by their age:\n{ROWS}They are all of them.\n")
    start = document.content.index("2013")
    row = ROWS.split("\n")[3]
    assert sentence_around(document, document, start, start + 10) == row
    assert grown("2013", "why", document.content) == row
    passage = passage_around(document, document, start, start + 10)
    assert passage.startswith("version: 11") and passage.endswith("end: 2022")


def test_a_short_paragraph_is_shown_with_what_is_around_it() -> None:
    far = " ".join(["The lighthouse stands on the far side of the bay."] * 9)
    document: Any = TextOnly(f"{far}\n\nFees\n\nOil costs nine crowns.\n\nWood is free.\n\n{far}")
    start = document.content.index("nine")
    passage = passage_around(document, document, start, start + 4)
    inner = "bay.\n\nFees\n\nOil costs nine crowns.\n\nWood is free.\n\nThe lighthouse"
    assert inner in passage and passage.startswith("The lighthouse") and len(passage) <= 604
    start = document.content.index("far side")  # a paragraph that is long enough stays alone
    assert "Fees" not in passage_around(document, document, start, start + 3)


def test_a_long_sentence_is_cut_between_words() -> None:
    document: Any = TextOnly(f"{'harbour ' * 100}quay{' lighthouse' * 100}.")
    start = document.content.index("quay")
    words = sentence_around(document, document, start, start + 4).split()
    assert set(words) == {"harbour", "quay", "lighthouse"}
    passage = passage_around(document, document, start, start + 4)
    assert set(passage.split()) == {"harbour", "quay", "lighthouse"}


def test_what_is_endless_stays_as_it_is() -> None:
    assert grown("end", "why", "word " * 400 + "end " + "word " * 400) == "end"


def test_the_likeliest_type() -> None:
    assert answer_type({"who": 0.2, "list": 0.7}) == "list" and answer_type({}) == ""


def test_a_sentence_that_ends_in_a_colon_goes_on_with_its_list() -> None:
    lead = "Wood is dear. Once it may be lit, though not often, if all\nof this holds:\n\n"
    text = f"{lead}* It is cold.\n* It is dry.\n\nEnd.\n"
    whole = text[text.index("Once") : text.index("\n\nEnd")]
    assert grown("not often", "when", text) == whole
    assert grown("Wood", "when", text) == "Wood is dear."
    assert grown("this holds:\n\n* It is cold", "what", text) == whole  # and some of the list
    document: Any = TextOnly(text)
    place = (text.index("not often"), text.index("not often") + 9)
    start, end, _ = grown_span(document, document, place, "when", with_list=False)
    assert text[start:end] == text[text.index("Once") : text.index("\n\n* It is cold")]


@each_row(
    ("question", "expected"),
    [
        ("Which values can the switch take?", "list"),
        ("What are the two drawbacks?", "list"),
        ("In which two plays did she act?", "list"),
        ("Which nested types are there?", "list"),
        ("Which status is it?", "what"),
        ("Which bus does he take?", "what"),
        ("What happens to the rest?", "what"),
        ("What is this?", "what"),
    ],
)
def test_a_question_for_several_things_wants_a_list(question: str, expected: str) -> None:
    assert expected_type({"what": 0.9, "list": 0.1}, question) == expected
    assert expected_type({"why": 1.0}, question) == "why"


@dataclass
class WithSection(TextOnly):
    """A text whose second section has a name."""

    def places(self, document_id: str) -> list[tuple[int, int | None, str | None]]:
        return [(0, None, None), (self.content.index("5. BOATS"), None, "5. BOATS")]


def test_a_span_that_reaches_into_a_heading_ends_before_it() -> None:
    text = "Ask by mail, please. Write to\nharbour@quay.example.\n\n5. BOATS\n\nThere are nine.\n"
    document: Any = WithSection(text)
    span = (text.index("harbour"), text.index(" BOATS"))
    start, end, _ = grown_span(document, document, span, "where")
    assert text[start:end] == "Write to\nharbour@quay.example."
    span = (text.index("BOATS"), text.index("BOATS") + 5)
    start, end, _ = grown_span(document, document, span, "what")
    assert text[start:end] == "5. BOATS"


@dataclass
class WithChapter(TextOnly):
    """A text whose second section is a chapter."""

    def places(self, document_id: str) -> list[tuple[int, int | None, str | None]]:
        return [(0, None, None), (self.content.index("CHAPTER 5"), None, "CHAPTER 5 - BOATS")]


def test_a_list_ends_before_the_heading_right_below_it() -> None:
    items = "Bring these things:\na. a lamp;\nb. two blankets\nof wool."
    text = f"It is cold. {items}\nCHAPTER 5 - BOATS\n\nThere are nine.\n"
    document: Any = WithChapter(text)
    at = text.index("a lamp")
    start, end, _ = grown_span(document, document, (at, at + 6), "list")
    assert text[start:end] == items


@each_row(
    ("question", "expected"),
    [
        ("How fast is it?", "number"),
        ("How much oil is needed?", "number"),
        ("How is the number of lamps set?", "how"),
        ("How do I light it?", "how"),
    ],
)
def test_an_amount_wants_no_steps(question: str, expected: str) -> None:
    assert expected_type({"how": 0.9, "what": 0.1}, question) == expected


@each_row(
    ("text", "quote", "sentence"),
    [
        ("- Drop Python 3.6. :pr:`15`\n", ":pr:`15`", "Drop Python 3.6. :pr:`15`"),
        ("It stays. (#12, gh-34)\n", "#12", "It stays. (#12, gh-34)"),
        ("It stays.\n\n:pr:`15`\n", ":pr:`15`", ":pr:`15`"),
        ("It stays. See :pr:`15`.\n", ":pr:`15`", "See :pr:`15`."),
        ("It stays. :pr:`15`\n", "stays", "It stays."),
    ],
)
def test_what_only_refers_belongs_to_the_sentence_before(
    text: str, quote: str, sentence: str
) -> None:
    assert grown(quote, "what", text) == sentence


def test_many_references_take_no_time() -> None:
    text = "It stays. " + ":pr:`1`, [1]_ (#1) " * 2_000 + "x"
    started = time.monotonic()
    sentence_around(TextOnly(text), TextOnly(text), 12, 14)  # type: ignore[arg-type]  a stand-in
    assert time.monotonic() - started < 1
