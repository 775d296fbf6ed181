"""Text of a prompt as tokens: one layout for training, evaluation and asking."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import tokenizers

from drt_engine.errors import WeightsError

START, END = "<|im_start|>", "<|im_end|>"  # of a turn
_NEVER_WRITTEN = (START, "<|endoftext|>")
NOT_SAID = "The document does not say."
_LONGEST_QUOTE = 40  # tokens


class Task(StrEnum):
    """What the decoder is asked to do with a question; a word of the prompt says which."""

    QUOTE = "Quote"
    WRITE = "Answer"
    SUMMARISE = "Summary"  # of one sentence, in place of a question


def prompt_ids(
    tokenizer: tokenizers.Tokenizer, text: str, task: Task, *, quote: str = ""
) -> list[int]:
    """Return the tokens of a prompt, up to where the answer begins.

    A ``quote`` is what the answer is to be about; its first tokens are enough. The control tokens
    are added by id: the question's own text cannot imitate them.
    """
    quoted = encode(tokenizer, f"\nQuote: {' '.join(quote.split())}")[:_LONGEST_QUOTE]
    start, end = control_id(tokenizer, START), control_id(tokenizer, END)
    return [
        start,
        *encode(tokenizer, "user\n"),
        *encode(tokenizer, f"{task.value}: {text.strip()}"),
        *(quoted if quote else ()),
        end,
        *encode(tokenizer, "\n"),
        start,
        *encode(tokenizer, "assistant\n"),
    ]


def never_written(tokenizer: tokenizers.Tokenizer) -> list[int]:
    """Return the ids of control tokens that no text has, but for the one that closes it."""
    ids = (tokenizer.token_to_id(token) for token in _NEVER_WRITTEN)
    return [number for number in ids if number is not None]


def control_id(tokenizer: tokenizers.Tokenizer, token: str) -> int:
    """Return the id of a control token; ``WeightsError`` where the vocabulary lacks it."""
    number: int | None = tokenizer.token_to_id(token)
    if number is None:
        raise WeightsError(f"the tokenizer lacks {token}, expected one of a chat model")
    return number


def encode(tokenizer: tokenizers.Tokenizer, text: str) -> list[int]:
    """Return the ids of a text without control tokens."""
    ids: Sequence[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return list(ids)
