"""The door to writers: a language model of your choice writes, drt finds and verifies.

Imports the package of the extra ``writer`` on first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ._errors import ConfigError

if TYPE_CHECKING:
    from ._assistant import Assistant
    from ._types import Answer, DocumentInfo
    from ._writer.results import WriterOptions
    from ._writer.write import Writing


def write(
    assistant: Assistant,
    answer: Answer,
    writer: WriterOptions,
    *,
    documents: str | DocumentInfo | Sequence[str | DocumentInfo] | None = None,
) -> Writing:
    """Let a writer answer the question of ``answer`` from retrieved sentences.

    Iterate over the result for its sentences, each verified against those that it names; then its
    ``result`` is the ``WrittenAnswer``. ``documents`` should be those that were asked. Nothing is
    sent before the first sentence is requested. Raises ``ConfigError`` where the extra ``writer``
    is not installed.
    """
    try:
        from ._writer import endpoint  # noqa: F401  whether its package is there
    except ImportError as error:
        raise ConfigError(
            f"the package {error.name} is not installed; "
            'pip install "drt-assistant[writer]" installs it.'
        ) from error
    from ._writer.write import Writing

    named = None if documents is None else _listed(documents)
    return Writing(assistant, answer, writer, named)


def _listed(
    documents: str | DocumentInfo | Sequence[str | DocumentInfo],
) -> list[str | DocumentInfo]:
    from ._types import DocumentInfo

    return [documents] if isinstance(documents, str | DocumentInfo) else list(documents)
