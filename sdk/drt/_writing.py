"""The door to writers: a language model of your choice writes, drt finds and verifies.

Imports the package of the extra ``writer`` on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Unpack

from ._errors import ConfigError

if TYPE_CHECKING:
    from ._assistant import Assistant
    from ._types import Answer, FilterOptions
    from ._writer.results import WriterOptions, WrittenAnswer
    from ._writer.write import Writing


def write(
    assistant: Assistant,
    answer: Answer,
    writer: WriterOptions,
    *,
    question: str | None = None,
    **filters: Unpack[FilterOptions],
) -> Writing:
    """Let a writer answer the question of ``answer`` from retrieved sentences.

    Iterate over the result for its sentences, each verified against those that it names; then its
    ``result`` is the ``WrittenAnswer``. The filters should be those that were asked with: no other
    part of the library is sent. Nothing is sent before the first sentence is requested.
    ``question`` is sent and searched for in the place of the answer's: ``Session.write`` adds what
    was asked before. Raises ``ConfigError`` where the extra ``writer`` is not installed.
    """
    return start_writing(assistant, answer, writer, filters, question=question or answer.question)


def start_writing(
    assistant: Assistant,
    answer: Answer,
    writer: WriterOptions,
    filters: FilterOptions,
    *,
    question: str,
    finished: Callable[[WrittenAnswer], None] | None = None,
) -> Writing:
    """Do as ``write``; ``finished`` is called with the result after the last sentence."""
    if not writer.plugin:
        try:
            from ._writer import endpoint  # noqa: F401  whether its package is there
        except ImportError as error:
            raise ConfigError(
                f"the package {error.name} is not installed; "
                'pip install "drt-assistant[writer]" installs it.'
            ) from error
    from ._writer.write import Writing

    return Writing(assistant, answer, writer, filters, question=question, finished=finished)
