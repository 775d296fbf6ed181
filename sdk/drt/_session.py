"""A conversation over a library that can be continued another day.

Knows the transcript only through the engine's session state; threads take turns at the
assistant's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Unpack

from . import _convert, _engine
from ._errors import SessionError, SessionNotSavedError, engine_errors
from ._session_summary import requested_summary
from ._stream import AnswerStream
from ._types import Answer, AskOptions, FilterOptions, Turn

if TYPE_CHECKING:
    from drt_engine.answer.session import SessionState

    from ._assistant import Assistant
    from ._writer.results import WriterOptions, WrittenAnswer
    from ._writer.write import Writing


class Session:
    """A conversation, made by ``Assistant.session``; a named one is saved after every turn.

    If that fails, ``SessionNotSavedError`` has the answer, and the conversation can continue. With
    ``autosave=False`` only ``save`` stores it.
    """

    def __init__(
        self, assistant: Assistant, state: SessionState, *, name: str | None, autosave: bool = True
    ) -> None:
        # SLF001: it works with what its assistant has open, under the same lock.
        self._assistant = assistant
        self._questions = assistant._questions  # noqa: SLF001
        self._state = state
        self._name = name
        self._autosaves = autosave

    def __repr__(self) -> str:
        return f"Session({self._name!r}, turns={len(self._state.turns)})"

    @property
    def name(self) -> str | None:
        """The name it is stored under; None for a conversation that is not stored."""
        return self._name

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The questions and answers so far."""
        return _convert.turns(self._state.turns)

    def ask(self, question: str, **options: Unpack[AskOptions]) -> Answer:
        """Ask like ``Assistant.ask``, with the earlier turns as context.

        A request for a summary ("Summarize it", "What is handbook.md about?") gets one as an answer
        of the mode "summary", whose citations are its sentences. "It" is what was asked or quoted
        last; where that is no document, it is a question like others.
        """
        answer = self._summary(question, options)
        if answer is None:
            answer = self._questions.answer(question, options, session=self._state)
        self._autosave(answer)
        return answer

    def stream(self, question: str, **options: Unpack[AskOptions]) -> AnswerStream:
        """Ask like ``ask``, piece by piece; at the end the stream's ``answer`` is complete."""
        summary = self._summary(question, options)
        if summary is not None:
            pieces = iter((summary.text, summary))
            return AnswerStream(
                pieces, question=question, model=summary.model, finished=self._autosave
            )
        return self._questions.stream(
            question, options, session=self._state, finished=self._autosave
        )

    def write(
        self, answer: Answer, writer: WriterOptions, **filters: Unpack[FilterOptions]
    ) -> Writing:
        """Let a writer answer as ``drt.write`` does; a follow-up with words of what was asked.

        ``answer`` is the last one. Once the last sentence was read, its turn keeps what was written
        beside drt's own answer, and is saved as after ``ask``.
        """
        turns = self._state.turns
        is_last = bool(turns) and turns[-1]["question"] == answer.question
        number = len(turns)

        def record(result: WrittenAnswer) -> None:
            self._record(number, result, writing.documents)

        writing = self._writing(answer, writer, filters, finished=record if is_last else None)
        return writing

    def _writing(
        self,
        answer: Answer,
        writer: WriterOptions,
        filters: FilterOptions,
        *,
        finished: Callable[[WrittenAnswer], None] | None,
    ) -> Writing:
        from ._writing import start_writing

        with self._assistant._opened.working() as (runtime, _):  # noqa: SLF001  the SDK's own
            question = _engine.in_context(runtime, answer.question, self._state.turns[:-1])
        return start_writing(
            self._assistant, answer, writer, filters, question=question, finished=finished
        )

    def _record(self, number: int, result: WrittenAnswer, documents: Sequence[str]) -> None:
        """Keep what was written in turn ``number`` from sentences of ``documents``."""
        self._state.record_writing(number, _convert.stored_writing(result.writing, documents))
        self._autosave(result.answer)

    def undo(self) -> Turn:
        """Take the last question and its answer back, and return them; stored at once, as ``ask``.

        The conversation goes on as if it had not been asked. Raises ``SessionError`` for a question
        that was asked before the conversation was opened here, or 5 questions ago.
        """
        with engine_errors():
            (turn,) = _convert.turns([self._state.undo()])
        if self._name is not None and self._autosaves:
            self.save()
        return turn

    def save(self) -> None:
        """Store the conversation in the library; raises ``SessionError`` if it has no name."""
        if self._name is None:
            raise SessionError("this conversation has no name; rename() gives it one and saves it.")
        self._assistant._save_session(self._state)  # noqa: SLF001

    def rename(self, name: str) -> None:
        """Give the conversation another name, or its first one, and store it."""
        if self._name is not None:
            self._assistant.library.rename_session(self._name, name)
        self._state.name = name
        self._name = name
        self.save()

    def _summary(self, question: str, options: AskOptions) -> Answer | None:
        """Return the summary that is asked for, recorded as a turn, or None."""
        self._questions.expect(question, options)
        answer = requested_summary(self._assistant, question, options, self.turns)
        if answer is not None:
            self._state.record_summary(question, answer.text, answer.citations)
            self._questions.note(answer)
        return answer

    def _autosave(self, answer: Answer) -> None:
        if self._name is None or not self._autosaves:
            return
        try:
            self.save()
        except Exception as error:  # whatever it is, the answer was made and must not be lost
            reason = str(error) or type(error).__name__
            raise SessionNotSavedError(
                f"the question was answered, but the conversation was not saved: {reason}", answer
            ) from error
