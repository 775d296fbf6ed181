"""What options do, and nothing for other questions."""

from __future__ import annotations

import pytest

from drt_engine.answer.lists.option_lists import key_doing, option_above, option_text

MANUAL = """\
-a, --all
Trim everything. Errors are ignored.

More of it.

-l, --length length
The number of bytes.

-n  do nothing
--size=N, -s N\tsizes
  -q or --quiet: say nothing

Use -a with -l.

-x
first

-x
second
"""


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What does -a do?", "Trim everything. Errors are ignored."),
        ("What does peel --all do?", "Trim everything. Errors are ignored."),
        ("What is the --length option?", "The number of bytes."),
        ("what does the -n flag mean", "do nothing"),
        ("What does -s do?", "sizes"),
        ("What does --quiet do?", "say nothing"),
        ("What does -x do?", None),  # two of them
        ("What does -z do?", None),
        ("What do -a and -l do?", None),
        ("What does -a do with SSDs?", None),
        ("Which option is like -a?", None),
        ("What does it do?", None),
    ],
)
def test_options(question: str, expected: str | None) -> None:
    place = option_text(question, MANUAL, {"peel"})
    assert (place and MANUAL[slice(*place[1])]) == expected
    assert place is None or MANUAL[place[0]] == "-"


@pytest.mark.parametrize(
    ("question", "before", "expected"),
    [
        ("Which option trims everything?", "Trim", "-a, --all"),
        ("Which flag says more?", "More of it", "-a, --all"),
        ("what option sets the length", "length length", "-l, --length length"),
        ("Which option is for nothing?", "do nothing", "-n"),
        ("Which program trims everything?", "Trim", None),
        ("Which option is it?", "-a, --all", "-a, --all"),
    ],
)
def test_the_option_above_an_answer(question: str, before: str, expected: str | None) -> None:
    end = MANUAL.index(before) + len(before)
    span = option_above(question, MANUAL[:end])
    assert (span and MANUAL[slice(*span)]) == expected


def test_a_long_line_of_options_takes_no_time() -> None:
    assert option_text("What does -a do?", "-a " + "-b, " * 20_000 + "!") is None


@pytest.mark.parametrize("line", ["-a|" * 1000 + "!", "-a=b" * 1000 + "!", "-a, " * 1000 + "!"])
def test_a_long_row_of_options_does_not_hang(line: str) -> None:
    assert option_text("What does -a do?", line) is None


KEYS = """\
Keys are below.

!
Break the current pane out of the window.

#
List all paste buffers.

=
Choose which paste buffer of a list of all to take.

%
Split the current pane into two, left and right.

C-b d\tDetach the client from its session.

--split
Split the current pane into two, left and right.
"""


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which key splits the current pane left and right?", "%"),
        ("What is the key to list all paste buffers?", "#"),
        ("Which key combination detaches the client from its session?", "C-b d"),
        ("Which key splits the pane top and bottom?", None),
        ("Which key splits it?", None),
        ("Which option splits the current pane left and right?", None),
    ],
)
def test_the_key_that_does_something(question: str, expected: str | None) -> None:
    place = key_doing(question, KEYS)
    assert (place and KEYS[slice(*place[1])]) == expected


@pytest.mark.parametrize("text", ["\n" * 200_000, "\n\na\nA" * 30_000, "\n\n" + "a  " * 100_000])
def test_hostile_descriptions_take_no_time(text: str) -> None:
    assert key_doing("Which key splits the current pane?", text) is None
