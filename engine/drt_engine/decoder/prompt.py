"""Text of a prompt as tokens: one layout for training, evaluation and asking."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import tokenizers

NOT_SAID = "The document does not say."


class Task(StrEnum):
    """What the decoder is asked to do with a question; a word of the prompt says which."""

    QUOTE = "Quote"
    WRITE = "Answer"
    SUMMARISE = "Summarise"


def prompt_ids(tokenizer: tokenizers.Tokenizer, text: str, task: Task) -> list[int]:
    """Return the tokens of a prompt, up to where the answer begins.

    The control tokens are added by id: the question's own text cannot imitate them.
    """
    start, end = (tokenizer.token_to_id(t) for t in ("<|im_start|>", "<|im_end|>"))
    return [
        start,
        *encode(tokenizer, "user\n"),
        *encode(tokenizer, f"{task.value}: {text.strip()}"),
        end,
        *encode(tokenizer, "\n"),
        start,
        *encode(tokenizer, "assistant\n"),
    ]


def encode(tokenizer: tokenizers.Tokenizer, text: str) -> list[int]:
    """Return the ids of a text without control tokens."""
    ids: Sequence[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return list(ids)
