"""A conversation at the prompt."""

from __future__ import annotations

import base64
import contextlib
import csv
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drt_cli._changed import note_changed
from drt_cli._conversation import save_conversation
from drt_cli._errors import DONE, PARTLY, CliError, report
from drt_cli._files import write_from_library
from drt_cli._interrupt import forgive
from drt_cli._options import (
    Settings,
    answer_options,
    jsonl_option,
    retrieval_options,
    with_global_options,
)
from drt_cli._output import (
    counted,
    marks,
    note,
    note_unread,
    place,
    print_answer,
    print_line,
    print_table,
    say,
    stored_text,
)
from drt_cli._prompt import Read, line_reader
from drt_cli._state import remember
from drt_cli._status import waiting
from drt_cli._text import csv_cell, markdown, one_line, printable
from drt_cli._warm import with_helper
from drt_cli._writing import (
    FILTERS,
    chosen_writer,
    print_writing,
    writer_options,
    written_markdown,
)

if TYPE_CHECKING:
    from drt import Answer, Assistant, Library, Session, WriterOptions, WrittenText

_Turn = tuple[str, "Answer", "WrittenText | None"]  # a question, and what answers it
BLOCK = '"""'
COMMANDS = (
    ("/sources", "where the last answer comes from"),
    ("/show [N]", "the passage around its citation N, or around each (also /quote)"),
    ("/doc [DOC]", "ask only this document; without DOC, all of them again"),
    ("/mode [MODE]", "quote or free; without MODE, which it is"),
    ("/undo", "take the last question back, as if it had not been asked"),
    ("/new", "begin another conversation, which is not stored"),
    ("/copy", "copy the last answer with its places, where the terminal can"),
    ("/save FILE", "write the conversation, as .md, .csv or .json"),
    ("/help", "this list"),
    ("/quit", "end the conversation (also quit, exit)"),
)
_GOODBYES = ("quit", "exit", "/exit")  # as other prompts take them
CONTINUED = (
    "A line that ends in a backslash goes on in the next; so does everything between two lines of"
    " three double quotes."
)


@with_global_options()
@click.command("chat")
@click.option("--session", metavar="NAME", help="Continue and store this conversation.")
@retrieval_options
@answer_options
@writer_options
@jsonl_option
@click.pass_obj
@with_helper
def command(
    settings: Settings,
    /,
    session: str | None,
    documents: tuple[str, ...],
    as_lines: bool,
    writer: str | None,
    writer_model: str | None,
    writer_timeout: float,
    strict: bool,
    **options: Any,
) -> int:
    """Ask questions at a prompt.

    Follow-up questions such as "And who signs it?" are understood, and so is "Summarize it", or
    "Summarize" with the name of a document. Without --session the conversation is not stored. With
    --writer a language model of your choice writes the answers, as for ask; they are stored beside
    drt's own.

    \b
    Example: drt chat --session review
    """
    written_by = chosen_writer(writer, writer_model, timeout=writer_timeout, strict=strict)
    with settings.assistant() as assistant:
        assistant.library.expect_documents()
        with waiting(settings, question=False):
            conversation = assistant.session(session, autosave=False)
        if conversation.turns:
            note(settings, f"Going on; turns so far: {len(conversation.turns)}.")
        note(settings, "Ask a question, or /help.")
        options["documents"] = documents or None
        chat = _Chat(assistant, conversation, options, as_lines, settings, written_by)
        with line_reader(partial(_completions, assistant.library)) as read:
            for text in _inputs(read):
                if text == "/quit" or text.lower() in _GOODBYES:
                    break
                chat.take(text)
    return PARTLY if chat.unsaved else DONE


@dataclass
class _Chat:
    """A conversation, what it is asked with, and the last answer."""

    assistant: Assistant
    session: Session
    options: dict[str, Any]
    as_lines: bool
    settings: Settings
    writer: WriterOptions | None = None
    last: Answer | None = None
    turns: list[_Turn] = field(default_factory=list)
    unsaved: bool = False  # whether the last turn could not be stored

    def take(self, text: str) -> None:
        """Run a line of input; what cannot be done is a sentence, and the chat goes on."""
        from drt import DrtError

        try:
            if text.startswith("/"):
                self._run(text)
            else:
                self._ask(text)
        except (DrtError, CliError) as error:
            report(str(error))
        except OSError as error:
            report(f"{error.filename}: {error.strerror}.")
        except KeyboardInterrupt:
            if not sys.stdin.isatty():
                raise
            forgive()
            click.echo()

    def _ask(self, question: str) -> None:
        from drt import DrtError

        with waiting(self.settings):
            self.last = self.session.ask(question, **self.options)
        self.turns.append((question, self.last, None))
        remember(self.assistant.library, question, self.last.citations)
        note_unread(self.last)
        ids = [citation.document for citation in self.last.citations]
        note_changed(self.settings, self.assistant.library, ids)
        if self.writer is not None and self.last.mode != "summary":
            filters = {name: self.options[name] for name in FILTERS}
            try:
                writing = self.session.write(self.last, self.writer, **filters)
            except DrtError:  # such as that its extra is not installed
                print_answer(self.last)
                raise
            print_writing(writing, self.settings, as_json=False, as_lines=self.as_lines)
            if writing.result is not None:
                self.turns[-1] = (question, self.last, writing.result.writing)
        elif self.as_lines:
            print_line(self.last.to_dict())
        else:
            print_answer(self.last)
        self._store()

    def _store(self) -> None:
        """Store the conversation if it has a name; say why it is not stored."""
        self.unsaved = self.session.name is not None  # until it is saved, which may be interrupted
        problem = save_conversation(self.session)
        self.unsaved = problem is not None
        if problem is not None:
            report(problem)

    def _run(self, text: str) -> None:
        name, _, argument = text.partition(" ")
        commands: dict[str, Callable[[str], None]] = {
            "/help": self._help,
            "/sources": self._sources,
            "/show": self._show,
            "/quote": self._show,
            "/doc": self._document,
            "/mode": self._mode,
            "/undo": self._undo,
            "/new": self._new,
            "/copy": self._copy,
            "/save": self._save,
        }
        if name not in commands:
            raise CliError(f"there is no command {name}; /help lists them.")
        commands[name](argument.strip())

    def _help(self, _: str) -> None:
        print_table([(f"{name:<14}", text) for name, text in COMMANDS])
        say(f"\n{CONTINUED}")

    def _answered(self) -> Answer:
        if self.last is None:
            raise CliError("nothing was asked yet.")
        return self.last

    def _sources(self, _: str) -> None:
        for number, citation in enumerate(self._answered().citations, start=1):
            say(f"[{number}] {place(citation)}\n  {printable(citation.source)}")

    def _show(self, argument: str) -> None:
        from drt import passage

        citations = self._answered().citations
        if argument:
            if not argument.isdecimal() or not 1 <= int(argument) <= len(citations):
                raise CliError(
                    f"the last answer has {counted(len(citations), 'citation')},"
                    f" {argument} is none of them."
                )
            citations = citations[int(argument) - 1 : int(argument)]
        begin, end = marks()
        for citation in citations:
            around = passage(self.assistant.library, citation)
            before, quote, after = map(printable, (around.before, around.quote, around.after))
            say(f"{place(citation)}\n{before.lstrip()}{begin}{quote}{end}{after.rstrip()}\n")

    def _document(self, argument: str) -> None:
        if argument:
            document = self.assistant.library.show(argument)
            self.options["documents"] = [document.id]
            say(f"Asking only {printable(document.title)}.")
        else:
            self.options["documents"] = None
            click.echo("Asking all documents.")

    def _mode(self, argument: str) -> None:
        if argument not in ("", "quote", "free"):
            raise CliError(f"there is no mode {argument!r}; the modes are quote and free.")
        self.options["mode"] = argument or self.options["mode"]
        click.echo(f"Answering in {self.options['mode']} mode.")

    def _undo(self, _: str) -> None:
        turn = self.session.undo()
        del self.turns[-1:]
        self.last = self.turns[-1][1] if self.turns else None
        say(f"Taken back: {one_line(turn.question)}")
        self._store()

    def _new(self, _: str) -> None:
        self.session = self.assistant.session(autosave=False)
        self.last, self.turns = None, []
        click.echo("Another conversation; nothing of the last one counts.")

    def _copy(self, _: str) -> None:
        text = str(self._answered())
        if not sys.stdout.isatty():
            raise CliError("/copy needs a terminal; /save writes a file.")
        # OSC 52: the terminal puts it on the clipboard of the machine that one sits at.
        encoded = base64.b64encode(text.encode("utf-8", "replace")).decode()
        click.echo(f"\x1b]52;c;{encoded}\x07", nl=False)
        click.echo("Copied, if the terminal allows it.")

    def _save(self, argument: str) -> None:
        if not argument:
            raise CliError("/save needs the name of a file, such as /save notes.md.")
        path = Path(argument).expanduser()
        ways = {".md": _as_markdown, ".csv": _as_csv, ".json": _as_json}
        write = ways.get(path.suffix.lower())
        if write is None:
            raise CliError(f"{argument} ends in none of {', '.join(ways)}, which /save can write.")
        write_from_library(path, write(self.turns), self.assistant.library.path)
        say(f"Wrote {printable(str(path))}.")


def _as_markdown(turns: list[_Turn]) -> str:
    lines: list[str] = []
    for question, answer, writing in turns:
        lines += [f"## {markdown(question)}", ""]
        lines += written_markdown(writing)
        lines += [markdown(stored_text(answer.text, answer.state, answer.citations)), ""]
        lines += [f"- {markdown(place(citation))}" for citation in answer.citations]
        lines += [""] if answer.citations else []
    return "\n".join(lines)


def _as_csv(turns: list[_Turn]) -> str:
    """Return one row for each citation; an answer without any has a row of its own."""
    out = io.StringIO()
    table = csv.writer(out)
    table.writerow(["question", "answer", "confidence", "quote", "title", "place", "source"])
    for question, answer, _ in turns:
        for citation in answer.citations or (None,):
            row = [question, answer.text, f"{answer.confidence:.2f}"]
            if citation is not None:
                row += [citation.quote, citation.title, citation.handle, citation.source]
            table.writerow([csv_cell(cell) for cell in row])
    return out.getvalue()


def _as_json(turns: list[_Turn]) -> str:
    values = []
    for question, answer, writing in turns:
        written = {} if writing is None else {"writing": writing.to_dict()}
        values.append({"question": question, **answer.to_dict(), **written})
    return json.dumps(values, ensure_ascii=False, indent=2) + "\n"


# input


def _inputs(read: Read) -> Iterator[str]:
    """Yield what is typed, without white space around it; continued lines are one text."""
    while (line := read("> ")) is not None:
        text = line.strip()
        if text == BLOCK:
            text = "\n".join(_until_block(read)).strip()
        while text.endswith("\\"):
            text = f"{text[:-1]}\n{(read('… ') or '').strip()}"
        if text:
            yield text


def _until_block(read: Read) -> Iterator[str]:
    while (line := read("… ")) is not None and line.strip() != BLOCK:
        yield line.rstrip("\n")


def _completions(library: Library, text: str) -> list[str]:
    """Return the lines that a command may become: its name, then its argument."""
    name, space, begun = text.partition(" ")
    if not space:
        names = [words.partition(" ")[0] for words, _ in COMMANDS]
        return [one for one in names if text.startswith("/") and one.startswith(text)]
    arguments: Sequence[str] = ()
    if name == "/doc":
        from drt import DrtError

        with contextlib.suppress(DrtError):
            arguments = [one_line(document.title) for document in library.documents()]
    elif name == "/mode":
        arguments = ("quote", "free")
    begun = begun.lower()
    return [f"{name} {one}" for one in arguments if one.lower().startswith(begun)]
