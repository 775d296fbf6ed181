"""An answer on its way: text pieces first, the whole answer at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from . import _convert
from ._types import Answer

if TYPE_CHECKING:
    from drt_engine.answer.result import AnswerResult


class AnswerStream:
    """Iterates over pieces of text, once; ``answer`` is None until the last piece was read."""

    def __init__(
        self,
        pieces: Iterator[str | AnswerResult | Answer],
        *,
        question: str,
        model: str,
        complete: Callable[[Answer], Answer] | None = None,
        finished: Callable[[Answer], None] | None = None,
    ) -> None:
        self._pieces = pieces
        self._question = question
        self._model = model
        self._complete = complete
        self._finished = finished
        self._began = time.perf_counter()
        self.answer: Answer | None = None

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        for piece in self._pieces:
            if isinstance(piece, str):
                return piece
            seconds = time.perf_counter() - self._began
            self.answer = (
                piece
                if isinstance(piece, Answer)
                else _convert.answer(
                    piece, question=self._question, seconds=seconds, model=self._model
                )
            )
            if self._complete is not None:
                self.answer = self._complete(self.answer)
            if self._finished is not None:
                self._finished(self.answer)
        raise StopIteration
