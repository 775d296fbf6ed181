"""One question of ``drt ask``: its answer is made, printed, remembered and saved."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ._changed import note_changed
from ._conversation import save_conversation
from ._errors import report
from ._options import Settings
from ._output import (
    counted,
    note_unread,
    print_answer,
    print_evidence,
    print_json,
    print_line,
    print_place,
    print_scan,
    say,
)
from ._state import remember
from ._status import StatusLine, waiting
from ._text import one_line, printable
from ._writing import FILTERS, print_writing

if TYPE_CHECKING:
    from drt import (
        AllAnswers,
        Answer,
        AnswerStream,
        Assistant,
        Library,
        ReadingStep,
        Session,
        Trace,
        WriterOptions,
    )
    from drt._export import ExportFormat


@dataclass(frozen=True)
class AnswerForm:
    """What is made of each question, and in which form it is printed."""

    stream: bool
    every_place: bool
    explain: bool
    as_markdown: bool
    export: ExportFormat | None
    as_json: bool
    as_lines: bool


@dataclass
class Asking:
    """Asks one question after the other, each with the same options.

    ``writer_failed`` is whether a writer ever failed, ``saved`` whether the conversation is saved
    with its last question.
    """

    settings: Settings
    assistant: Assistant
    conversation: Session | None
    writer: WriterOptions | None
    form: AnswerForm
    options: dict[str, Any]
    writer_failed: bool = False
    saved: bool = True

    def ask(self, question: str) -> None:
        """Answer a question and print the answer; keep its citations for ``drt show``."""
        if self.form.every_place:
            with waiting(self.settings):
                answers = self.assistant.ask_all(question, **self.options)
            _print_all(answers, as_json=self.form.as_json, as_lines=self.form.as_lines)
            note_unread(answers)
            self._note_changed(answers)
            remember(self.assistant.library, question, answers.citations)
            return
        answer = self._answer(question)
        note_unread(answer)
        self._note_changed(answer)
        remember(self.assistant.library, question, answer.citations)
        if self.form.explain and answer.trace is not None:
            _print_trace(answer.trace, on_stderr=self.form.as_json or self.form.as_lines)
        unsaved = None if self.conversation is None else save_conversation(self.conversation)
        self.saved = unsaved is None
        if unsaved is not None:
            report(unsaved)

    def _note_changed(self, answer: Answer | AllAnswers) -> None:
        ids = [citation.document for citation in answer.citations]
        note_changed(self.settings, self.assistant.library, ids)

    def _answer(self, question: str) -> Answer:
        """Return the answer once it is printed: written, piece by piece, or whole."""
        asker = self.conversation or self.assistant
        if self.form.stream:
            with waiting(self.settings) as line:
                pieces = asker.stream(question, **self.options)
                if not self.form.as_lines:
                    return _print_stream(pieces, line, as_lines=False)
                from drt import watch_reading

                with watch_reading(_print_step):
                    return _print_stream(pieces, line, as_lines=True)
        with waiting(self.settings):
            answer = asker.ask(question, **self.options)
        if self.writer is None:
            _print_whole(answer, self.form, self.assistant.library)
        else:
            self._write(answer, self.writer)
        return answer

    def _write(self, answer: Answer, writer: WriterOptions) -> None:
        """Let a writer answer, from what of the library the question's options allow."""
        from drt import write

        filters = {name: self.options[name] for name in FILTERS}
        if self.conversation is None:
            writing = write(self.assistant, answer, writer, **filters)
        else:
            writing = self.conversation.write(answer, writer, **filters)
        form = self.form
        exported = None
        if form.export is not None:
            from drt import export_answer

            exported = partial(
                export_answer, file_format=form.export, library=self.assistant.library
            )
        if not print_writing(
            writing,
            self.settings,
            as_json=form.as_json,
            as_lines=form.as_lines,
            exported=exported,
        ):
            self.writer_failed = True


def _print_whole(answer: Answer, form: AnswerForm, library: Library) -> None:
    if form.as_json:
        print_json(answer.to_dict())
    elif form.as_markdown:
        click.echo(answer.as_markdown())
    elif form.export is not None:
        from drt import export_answer

        click.echo(export_answer(answer, form.export, library=library), nl=False)
    elif form.as_lines:
        print_line({"type": "answer", **answer.to_dict()})
    else:
        print_answer(answer)


def _print_all(answers: AllAnswers, *, as_json: bool, as_lines: bool) -> None:
    """Print every place that answers, numbered through all answers as ``show`` takes them."""
    if as_json:
        print_json(answers.to_dict())
        return
    if as_lines:
        print_line({"type": "answers", **answers.to_dict()})
        return
    if not answers.answers:
        click.secho(
            "No place surely answers; a lower --threshold shows less likely ones.", bold=True
        )
    number = 0
    for at, group in enumerate(answers.answers):
        if at:
            click.echo()
        places = counted(len(group.citations), "place")
        say(f'"{one_line(group.text)}"  ({places}, confidence {group.confidence:.2f})', bold=True)
        for citation in group.citations:
            number += 1
            print_place(citation, number)
    say(f"\n{counted(answers.passages_read, 'passage')} read")
    print_scan(answers.scan)


def _print_step(step: ReadingStep) -> None:
    print_line({"type": "reading", **vars(step)})


def _print_stream(pieces: AnswerStream, line: StatusLine | None, *, as_lines: bool) -> Answer:
    """Print pieces as they come, then the evidence; return the answer."""
    for piece in pieces:
        if line is not None:
            line.clear()
        if as_lines:
            print_line({"type": "piece", "text": piece})
        else:
            click.echo(printable(piece), nl=False)
            sys.stdout.flush()
    answer = pieces.answer
    assert answer is not None
    if line is not None:
        line.clear()
    if as_lines:
        print_line({"type": "answer", **answer.to_dict()})
        return answer
    click.echo()
    if answer.found:
        print_evidence(answer)
    else:
        print_answer(answer)
    return answer


def _print_trace(trace: Trace, *, on_stderr: bool) -> None:
    text = f"\n{printable(trace.as_text())}"
    if on_stderr:
        click.echo(text, err=True)
    else:
        say(text)
