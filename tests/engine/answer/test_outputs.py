"""Outputs of cells and prompts, where a question names the code."""

from __future__ import annotations

import time

import pytest

from drt_engine.answer.lists.outputs import asks_output, named_output

NOTEBOOK = """\
```python
tide(3)
```

```
4.2
```

Prose.

```python
x = tide(9)
print(x)
```

```
7.0
```

```python
store(x)
```
"""
MANUAL = """\
    >>> tide("low")
    0.3
    >>> tide(3)
    4.2

    $ tides --now
    high
"""


@pytest.mark.parametrize(
    ("question", "text", "expected"),
    [
        ("What does tide(3) return?", NOTEBOOK, "4.2"),
        ("What is the result of `print(x)`?", NOTEBOOK, "7.0"),
        ("What does tide(3) return?", NOTEBOOK.replace("tide(3)", "tide(3)  # at 3"), "4.2"),
        ("What does tide(3) return?", NOTEBOOK.replace("tide(3)", "tide('a # 3')"), None),
        ("What does the first cell print?", NOTEBOOK, "4.2"),
        ("What does the last cell print?", NOTEBOOK, None),  # nothing
        ("What does the ninth cell print?", NOTEBOOK, None),
        ("What does tide(4) return?", NOTEBOOK, None),
        ("What does tide('low') return?", MANUAL, "    0.3"),
        ("What is the output of `tides --now`?", MANUAL, "    high"),
        ("Why does tide(3) return 4.2?", NOTEBOOK, None),
        ("What does the function return?", NOTEBOOK, None),
        ("What is tide(3)?", NOTEBOOK, None),
        ("", NOTEBOOK, None),
    ],
)
def test_outputs_of_code_that_is_named(question: str, text: str, expected: str | None) -> None:
    span = named_output(question, text)
    assert (span and text[slice(*span)]) == expected
    assert asks_output(question) or span is None


def test_code_with_two_outputs_has_none() -> None:
    assert named_output("What does f(1) give?", ">>> f(1)\n2\n\n>>> f(1)\n3\n") is None


def test_long_lines_of_code_take_no_time() -> None:
    started = time.monotonic()
    for filler in (" ", " # a", "#", "f(1) # "):
        named_output("What does f(1) give?", f">>> f(1) {filler * 100_000}'\n2\n")
    assert time.monotonic() - started < 5
