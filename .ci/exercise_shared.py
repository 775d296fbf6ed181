"""What the parts of the exercise share: a question with its answer, a tiny training run."""

from __future__ import annotations

QUESTION = "How much notice must a member give after the ship has sailed?"
ANSWER = "sixty days"
CONFIG = """
[model]
preset = "drt-tiny"
[start]
tokenizer = "{tokenizer}"
[optim]
steps = 6
lr = 3e-3
[stream]
share = 1.0
corpus = ["corpus.jsonl"]
chunks = 8
batch = 2
[run]
out = "tiny"
log_every = 1
"""

STUDY = """
title = "Tiny"
out = "study"

[train.model]
preset = "drt-tiny"
[train.optim]
steps = 4
[train.passkey]
share = 1.0
symbols = 48
chunks = [5]
batch = 2
[train.run]
bf16 = false

[[runs]]
name = "tiny"

[[evaluations]]
task = "passkey"
metric = "exact"
options = { lengths = "64", cases = 2 }
"""


def expect(condition: object, message: str) -> None:
    """End the script with a sentence where something is not as promised."""
    if not condition:
        raise SystemExit(f"exercise: {message}")


def corpus_row(text: str) -> dict[str, str]:
    """Return a document as training and evaluation read it."""
    return {"id": "0", "source": "A", "license": "x", "title": "", "text": text}
