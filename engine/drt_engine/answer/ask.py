"""One question: open the prompt, which retrieves and reads, judge, then quote or write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

from drt_engine.answer.below import with_output, with_setting
from drt_engine.answer.chain import joined, link_of, name_in
from drt_engine.answer.documents import DocumentRows, documents_to_ask
from drt_engine.answer.follow_up import in_context
from drt_engine.answer.footnotes import with_footnote
from drt_engine.answer.grain import answer_type
from drt_engine.answer.hint import hint, is_about_drt, requested_summary
from drt_engine.answer.judge import Judgement, judge
from drt_engine.answer.lists.list_answer import (
    list_answer,
    with_items,
    with_likely_value,
    with_option,
    with_release,
)
from drt_engine.answer.lists.release_answer import (
    in_change_log,
    release_answer,
    with_release_of_notes,
)
from drt_engine.answer.lists.release_questions import without_release
from drt_engine.answer.lists.section_answer import (
    heading_answer,
    subsections_answer,
    with_section,
)
from drt_engine.answer.lists.section_questions import section_question
from drt_engine.answer.metadata.lookup import metadata_answer
from drt_engine.answer.named_documents import DocumentsMeant, documents_meant
from drt_engine.answer.parts import (
    combined,
    missing_side,
    question_parts,
    with_side,
    without_a_side,
)
from drt_engine.answer.quote_answer import quote_answer
from drt_engine.answer.result import AnswerResult, Draft
from drt_engine.answer.sentences import passage_around
from drt_engine.answer.session import SessionState
from drt_engine.answer.settings.setting_answer import setting_answer, without_other_settings
from drt_engine.answer.tables.quoted_cells import without_other_columns
from drt_engine.answer.tables.table_answer import table_answer
from drt_engine.answer.unclear import likely_of_several
from drt_engine.answer.write import written_answer
from drt_engine.errors import ConfigError
from drt_engine.generate.prompt_run import PromptRun, PromptStart, open_prompt, question_ids
from drt_engine.results import Citation, Trace
from drt_engine.retrieval.candidates import RetrieverName
from drt_engine.retrieval.filters import NO_FILTERS, Filters
from drt_engine.retrieval.library import SearchOptions
from drt_engine.runtime import Runtime
from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView
from drt_engine.trace.record import Recording, make_trace, turn_texts
from drt_engine.trace.tape import Tape


@dataclass(frozen=True)
class AskOptions:
    """How a question is asked; ``documents`` are ids (``None``: the whole library).

    ``top_k`` chunks are retrieved at a time (``None``: as many as the model is made for).
    ``reread`` reads them with the question. ``record`` makes the answer's trace a full one, which
    changes nothing else. ``filters`` restrict the documents, and the parts of them.
    ``approximate`` is as in ``SearchOptions``.
    """

    documents: tuple[str, ...] | None = None
    mode: Literal["quote", "free"] = "quote"
    top_k: int | None = None
    retriever: RetrieverName = "hybrid"
    reread: bool = True
    threshold: float | None = None
    max_tokens: int = 96
    record: bool = False
    filters: Filters = NO_FILTERS
    approximate: bool = False

    def __post_init__(self) -> None:
        if self.mode not in ("quote", "free"):
            raise ConfigError(f"mode is {self.mode!r}, expected 'quote' or 'free'")
        self.search_options()  # which checks its own
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise ConfigError(f"threshold is {self.threshold}, expected a number from 0 to 1")
        if self.max_tokens < 1:
            raise ConfigError(f"max_tokens is {self.max_tokens}, expected 1 or more")

    def search_options(self) -> SearchOptions:
        """Return the part of the options that retrieval needs."""
        return SearchOptions(
            self.documents,
            self.top_k,
            self.retriever,
            self.reread,
            filters=self.filters,
            approximate=self.approximate,
        )


def ask(
    runtime: Runtime,
    store: LibraryView,
    question: str,
    options: AskOptions,
    *,
    session: SessionState | None = None,
) -> AnswerResult:
    """Answer one question from the library.

    The library is the one of this moment to the end, whatever writers do. Raises ``QuestionError``
    for a question without words or too long, or a library without documents, ``NotFound`` for a
    document that is not there, ``StoreError`` for a damaged library.
    """
    *_, result = stream(runtime, store, question, options, session=session)
    assert isinstance(result, AnswerResult)
    return result


def stream(
    runtime: Runtime,
    store: LibraryView,
    question: str,
    options: AskOptions,
    *,
    session: SessionState | None = None,
) -> Iterator[str | AnswerResult]:
    """Yield the answer's text in pieces as it is known, then the result; raises as ``ask`` does."""
    steps = _steps(runtime, store, question, options, session=session)
    while True:
        # Never held while the caller has the turn: these settings are its thread's, too.
        with runtime.computing():
            step = next(steps, None)
        if step is None:
            return
        yield step


def _steps(
    runtime: Runtime,
    store: LibraryView,
    question: str,
    options: AskOptions,
    *,
    session: SessionState | None,
) -> Iterator[str | AnswerResult]:
    tape = Tape() if options.record and session is None else None
    with ExitStack() as stack:
        view = stack.enter_context(store.snapshot())
        if tape is not None:
            stack.enter_context(tape.watching(runtime))
        documents = documents_to_ask(view, options.documents)
        question_ids(runtime, question)  # the user's own words must be a question
        turns = session.turns if session is not None and options.mode == "quote" else ()
        meant, options = of_documents_meant(view, question, options)
        text = meant.question
        question_in_context = in_context(text, turns)
        start = _start(runtime, options, session, tape)
        asking = _Asking(runtime, view, documents, options, turns)
        unclear: tuple[DocumentRow, ...] = ()
        if options.mode == "free":
            opened = asking.read(question_in_context, start)
            judgement = opened.judgement
            draft = yield from written_answer(
                runtime,
                view,
                documents,
                opened.run,
                judgement,
                question=text,
                max_tokens=options.max_tokens,
            )
        else:
            opened, judgement, draft = asking.quoted(
                text, question_in_context, start, recorded=tape is not None
            )
            draft = _without_other_aims(question, draft)
            # What was talked about before may be what is meant; a threshold alone decides.
            unclear = () if turns or options.threshold is not None else meant.unclear
            if unclear:
                draft = likely_of_several(view, text, draft, unclear)
            if draft.text:
                yield draft.text
        run = opened.run
        result = replace(
            _result(asking, opened, draft, judgement, text, tape),
            hint=_hint(asking, run, question, draft, unclear),
        )
        if session is not None:  # which reads the answer, and may retrieve for it
            session.record(question, result, decoder=run.decoder, own_chunks=run.source.own_chunks)
    yield result


def _start(
    runtime: Runtime, options: AskOptions, session: SessionState | None, tape: Tape | None
) -> PromptStart:
    """Return what the prompt continues: a conversation, or nothing, recorded or not."""
    if session is not None:
        return PromptStart(
            tuple(session.own_chunks),
            uses_own_chunks=options.mode == "free",
            open_decoder=session.decoder,
        )
    return PromptStart(open_decoder=None if tape is None else partial(tape.decoder, runtime))


class _Opened(NamedTuple):
    """A question that went through the model, and what was made of the passages it retrieved."""

    run: PromptRun
    judgement: Judgement

    @property
    def tokens_read(self) -> int:
        """Tokens of the prompt, and of the passages."""
        return self.run.prompt_tokens + self.run.source.tokens_read


@dataclass(frozen=True)
class _Asking:
    """How each of the questions is asked that one question may be made of."""

    runtime: Runtime
    view: LibraryView
    documents: DocumentRows
    options: AskOptions
    turns: Sequence[Mapping[str, Any]]

    def read(
        self, question: str, start: PromptStart | None = None, *, reader: bool = True
    ) -> _Opened:
        """Feed a question: its last landmark retrieves, the reader pass reads the passages.

        Without a ``reader`` they are only retrieved, which takes about a tenth of the time.
        """
        how = self.options.search_options()
        if not reader:
            how = replace(how, reader_pass=False)
            run = open_prompt(self.runtime, self.view, question, how, start=start)
            return _Opened(run, Judgement())
        run = open_prompt(self.runtime, self.view, question, how, start=start)
        return _Opened(run, judge(self.runtime, run, threshold=self.options.threshold))

    def quoted(
        self, question: str, question_in_context: str, start: PromptStart, *, recorded: bool
    ) -> tuple[_Opened, Judgement, Draft]:
        """Quote what answers a question, or its parts, with the judgement that the quote rests on.

        The reader does not read the whole question where a part is answered, or several fields or
        cells are looked up, unless all of it is to be ``recorded``.
        """
        parts = question_parts(question)
        reads = self.options.reread and self.runtime.model.span_reader is not None
        waits = bool(parts) and reads and not recorded
        whole = self.read(question_in_context, start, reader=not waits)
        looked_up = self._looked_up(whole, question) if parts else None
        # Several fields, or cells, that were looked up answer the whole question.
        if looked_up is not None and len(looked_up.citations) > 1:
            parts, waits = (), False
        else:
            looked_up = None
        opened = [self.read(in_context(part.in_context, self.turns)) for part in parts]
        tokens_read = sum(part.tokens_read for part in opened)
        drafts = [
            self._draft(read, part.question) for read, part in zip(opened, parts, strict=True)
        ]
        tokens_read += sum(own.tokens_read for own in drafts)  # again, for the notes of a release
        combination = combined(parts, drafts)
        if combination is not None:
            answered = [
                read.judgement for read, own in zip(opened, drafts, strict=True) if own.found
            ]
            least = min(answered, key=lambda judgement: judgement.confidence)
            return whole, least, replace(combination, tokens_read=tokens_read)
        if waits:
            tokens_read += whole.tokens_read
            whole = self.read(question_in_context, start)
        draft = looked_up or self._draft(whole, question)
        tokens_read += draft.tokens_read
        side = missing_side(question, draft.citations) if draft.found or draft.likely else None
        if side is not None and not parts:
            opened_side = self.read(in_context(side.in_context, self.turns))
            side_draft = self._draft(opened_side, side.question)
            tokens_read += opened_side.tokens_read + side_draft.tokens_read
            draft = with_side(question, draft, side_draft)
            draft = without_a_side(question, draft)
        elif looked_up is None and not parts and reads and not recorded:
            draft, tokens_linked = self._linked(whole, question, draft)
            tokens_read += tokens_linked
        return whole, whole.judgement, replace(draft, tokens_read=tokens_read)

    def _linked(self, opened: _Opened, question: str, draft: Draft) -> tuple[Draft, int]:
        """Return the answer about somebody whom the question describes, and the tokens read."""
        texts = [passage.row.text for passage in opened.run.passages]
        is_quoted = draft.found and bool(draft.citations)
        link = link_of(question, texts, draft.citations[0].sentence if is_quoted else None)
        if link is None:
            return draft, 0
        opened_inner = self.read(in_context(link.question, self.turns))
        inner = self._quote(opened_inner, link.question)
        name = name_in(inner, question)
        if name is None:
            return draft, opened_inner.tokens_read
        about = link.with_name(name)
        opened_outer = self.read(in_context(about, self.turns))
        outer = self._quote(opened_outer, about)
        tokens_read = opened_inner.tokens_read + opened_outer.tokens_read
        return joined(question, draft, inner, outer, name=name), tokens_read

    def _draft(self, opened: _Opened, question: str) -> Draft:
        """Look up a field of the document, a cell of a table or a list; else quote a span."""
        looked_up = self._looked_up(opened, question)
        if looked_up is not None:
            return looked_up
        placed = self._placed(opened, question) or self._released(opened, question)
        if placed is not None:
            return placed
        draft = self._quote(opened, question)
        if self.options.threshold is None:
            draft = without_other_columns(self.runtime, self.view, self.documents, question, draft)
        extensions = [with_option, with_footnote, with_output, with_setting, with_items]
        if self.options.threshold is None:  # which it is surer of than the quote
            extensions += [with_release, without_other_settings]
        for extend in extensions:
            draft = extend(self.view, self.documents, question, draft)
        if self.options.threshold is not None:
            return draft
        passages, scope = opened.run.passages, opened.run.source.query.scope
        return with_likely_value(
            self.view, self.documents, question, draft, passages=passages, scope=scope
        )

    def _quote(self, opened: _Opened, question: str) -> Draft:
        """Quote a span of what the reader has read."""
        return quote_answer(
            self.view,
            self.documents,
            opened.judgement,
            question,
            passages=opened.run.passages,
        )

    def _released(self, opened: _Opened, question: str) -> Draft | None:
        """Return the release in whose notes the rest of a question is answered, where asked for."""
        rest = without_release(question)
        if rest is None or not in_change_log(self.view, self.documents, opened.run.passages):
            return None
        read = self.read(in_context(rest, self.turns))
        draft = self._quote(read, rest)
        if not (draft.found or draft.likely):
            return None
        released = with_release_of_notes(self.view, self.documents, question, draft)
        return None if released is None else replace(released, tokens_read=read.tokens_read)

    def _placed(self, opened: _Opened, question: str) -> Draft | None:
        """Return the section or the page of what a question for a place asks, if it is one."""
        asked = section_question(question)
        if asked is None or self.options.threshold is not None:  # which is of quotes
            return None
        passages, scope = opened.run.passages, opened.run.source.query.scope
        draft = heading_answer(self.view, self.documents, asked, passages, scope=scope)
        if draft is not None or asked.needs_topic:
            return draft
        read = self.read(in_context(asked.rest, self.turns))
        draft = self._quote(read, asked.rest)
        if not (draft.found or draft.likely):
            return None
        placed = with_section(self.view, self.documents, asked, draft)
        return None if placed is None else replace(placed, tokens_read=read.tokens_read)

    def _looked_up(self, opened: _Opened, question: str) -> Draft | None:
        """Return a field or cells, unless the options ask for surer answers."""
        passages, scope = opened.run.passages, opened.run.source.query.scope
        draft = (
            release_answer(self.view, self.documents, question, passages, scope=scope)
            or metadata_answer(self.view, question, scope, passages)
            or setting_answer(self.view, self.documents, question, passages, scope=scope)
            or table_answer(
                self.runtime, self.view, self.documents, question, passages, scope=scope
            )
            or list_answer(self.view, self.documents, question, passages, scope=scope)
            or subsections_answer(self.view, self.documents, question, passages, scope=scope)
        )
        least = self.options.threshold
        if draft is None or (least is not None and draft.confidence < least):
            return None
        return draft


def _without_other_aims(question: str, draft: Draft) -> Draft:
    """Return a draft without what a question about drt itself, or for a summary, does not want."""
    if is_about_drt(question):  # which no document answers, and no passage is close to
        return replace(draft, text="", found=False, citations=(), likely=False)
    if requested_summary(question) == "" and not draft.found:
        return replace(draft, citations=(), likely=False)
    return draft


def of_documents_meant(
    view: LibraryView, question: str, options: AskOptions
) -> tuple[DocumentsMeant, AskOptions]:
    """Return which documents a question of a whole library means, and options with those alone."""
    if options.documents is not None or options.filters.any:
        return DocumentsMeant(None, question), options
    meant = documents_meant(view, question)
    return meant, replace(options, documents=meant.document_ids)


def _passage(view: LibraryView, documents: DocumentRows, citations: Sequence[Citation]) -> str:
    """Return the text around a citation, "" where there is none."""
    if not citations:
        return ""
    (citation,) = citations
    row = documents.row(citation.document)
    return passage_around(view, row, citation.start, citation.end)


def _result(
    asking: _Asking,
    opened: _Opened,
    draft: Draft,
    judgement: Judgement,
    question: str,
    tape: Tape | None,
) -> AnswerResult:
    """Return a draft as a result without a hint, with the ``judgement`` that it rests on."""
    view, documents = asking.view, asking.documents
    tokens_read = opened.tokens_read + draft.tokens_read  # before a trace has the quote read, too
    likely = draft.likely and not draft.found
    return AnswerResult(
        text=draft.text,
        found=draft.found,
        confidence=draft.confidence,
        mode=asking.options.mode,
        citations=tuple(replace(c, likely=likely or c.likely) for c in draft.citations),
        tokens_read=tokens_read,
        trace=_trace(asking, opened, draft, question, tape),
        signals=judgement.signals,
        likely=draft.likely,
        quote_probability=draft.probability,
        passage=_passage(view, documents, draft.citations[:1]),
        second_passage=_passage(view, documents, draft.citations[1:2] if not draft.found else ()),
        candidates=draft.candidates,
        verdict=draft.verdict,
        answer_type=answer_type(judgement.types),
        verdict_score=judgement.verdict,
        scan=opened.run.source.query.scan_info,
    )


def _hint(
    asking: _Asking, run: PromptRun, question: str, draft: Draft, unclear: tuple[DocumentRow, ...]
) -> str:
    """Return what may help where no answer is shown, within what the filters leave."""
    options = asking.options
    scope = run.source.query.scope
    search = replace(options.search_options(), document_ids=scope.document_ids)
    threshold = options.threshold
    return hint(asking.view, question, draft, search, threshold=threshold, documents=unclear)


def _trace(
    asking: _Asking, opened: _Opened, draft: Draft, question: str, tape: Tape | None
) -> Trace:
    """Return the trace of the retrievals, with a ``tape`` of all that the model computed."""
    run = opened.run
    if tape is None:
        document_ids = {p.row.document_id for passages in run.source.passages for p in passages}
        rows = {document_id: asking.documents.row(document_id) for document_id in document_ids}
        return make_trace(question, run.source, rows)
    quote = draft.text if asking.options.mode == "quote" else None
    texts = turn_texts(asking.runtime, run, tape, question, quote=quote)
    recording = Recording(tape, *texts, opened.judgement.start_shares)
    rows = {row.id: row for row in asking.view.documents()}  # any may come close
    return make_trace(question, run.source, rows, recording)
