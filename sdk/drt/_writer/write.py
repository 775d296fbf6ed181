"""One answer written: sentences are given to the writer, and each that it writes is verified."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from .._errors import NotFoundError
from .._types import Answer, FilterOptions, WritingState, WrittenSentence
from .check import verified, written_sentences
from .evidence import cited, numbered_sources
from .prompt import prompt_messages
from .results import NO_ANSWER, WriterError, WriterOptions, WrittenAnswer

if TYPE_CHECKING:
    from .._assistant import Assistant


class Writing:
    """Iterates over verified sentences, once; ``result`` is None until the last one was read.

    A writer that fails raises nothing: the result's state is "failed", and its answer is drt's own.
    """

    def __init__(
        self,
        assistant: Assistant,
        answer: Answer,
        options: WriterOptions,
        filters: FilterOptions,
        *,
        question: str,
        finished: Callable[[WrittenAnswer], None] | None = None,
    ) -> None:
        self._assistant = assistant
        self._answer = answer
        self._options = options
        self._began = time.perf_counter()
        self._question = question
        self._sources = numbered_sources(
            assistant, answer, filters, question=question, limit=options.sentences
        )
        self._sentences: list[WrittenSentence] = []
        self._dropped = 0
        self._finished = finished
        self._steps = self._write()
        self.result: WrittenAnswer | None = None

    @property
    def sent(self) -> str:
        """What is sent, and to where, in a sentence."""
        return (
            f"Sending the question and {len(self._sources)} sentences of the library to the writer"
            f" {self._options.model or '-'} at {self._options.host}."
        )

    @property
    def documents(self) -> tuple[str, ...]:
        """The documents of which sentences are sent."""
        return tuple(sorted({source.document for source in self._sources.values()}))

    def __iter__(self) -> Iterator[WrittenSentence]:
        return self

    def __next__(self) -> WrittenSentence:
        return next(self._steps)

    def _write(self) -> Iterator[WrittenSentence]:
        if self._options.plugin:
            from .plugin import texts
        else:
            from .endpoint import texts  # which needs the extra

        problem = ""
        messages = prompt_messages(self._question, self._sources)
        try:
            for text in written_sentences(texts(self._options, messages)):
                sentence = verified(text, self._sources)
                if text.strip(" .").upper() == NO_ANSWER:
                    continue
                if not sentence.supported and self._options.strict:
                    self._dropped += 1
                    continue
                self._sentences.append(sentence)
                yield sentence
        except WriterError as error:
            problem = f"the writer at {self._options.host} failed: {error}."
        self.result = self._written_answer(problem)
        if self._finished is not None:
            self._finished(self.result)

    def _written_answer(self, problem: str) -> WrittenAnswer:
        numbers = {
            number
            for sentence in self._sentences
            for number in sentence.sources
            if number in self._sources
        }
        try:
            sources = {
                number: cited(self._assistant, self._sources[number]) for number in sorted(numbers)
            }
        except NotFoundError:
            sources = {}
            problem = problem or "a document was removed while the writer wrote; ask again."
        return WrittenAnswer(
            answer=self._answer,
            state="failed" if problem else self._state(),
            sentences=tuple(self._sentences),
            sources=sources,
            host=self._options.host,
            model=self._options.model,
            seconds=time.perf_counter() - self._began,
            problem=problem,
        )

    def _state(self) -> WritingState:
        supported = sum(sentence.supported for sentence in self._sentences)
        if not self._sentences and not self._dropped:
            return "no answer"
        if not supported:
            return "unsupported"
        return "written" if supported == len(self._sentences) + self._dropped else "partly"


Writing.__module__ = "drt"  # where users import it from
