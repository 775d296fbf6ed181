"""An answer that a decoder writes, each sentence with its citation or marked."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace

import torch

from drt_engine.answer.candidates import Candidate, ReadQuestion
from drt_engine.answer.support import Evidence, marked
from drt_engine.generate.memory_writer import WrittenPiece, write_from_memory
from drt_engine.generate.passage_memory import writer_of
from drt_engine.generate.prompt_run import PromptRun
from drt_engine.results import Citation
from drt_engine.retrieval.passages import Passage
from drt_engine.store.view import LibraryView

_LONGEST_SENTENCE = 500  # characters


def written_around(
    quoted: Candidate,
    question: ReadQuestion,
    view: LibraryView,
    run: PromptRun,
    *,
    max_tokens: int,
) -> Generator[str, None, Candidate]:
    """Write an answer around a quote, from the chunk memory of the passages; return it in the end.

    It begins with the sentence of the quote, and goes on as the decoder has it: on its own, a
    decoder of this size often chooses another sentence than the reader, which is right more often.
    What is no quote stays as it is: a computed value, or that nothing was found. A sentence is
    supported by the passage that its words were read from most, or else by another. Raises
    ``ConfigError`` for a model without a decoder.
    """
    decoder = writer_of(question.runtime)
    if not quoted.found or quoted.origin != "reader":
        if quoted.text:
            yield quoted.text
            _hear(question, run, quoted.text)
        return quoted
    evidence = Evidence(view, question.documents.row)
    evidence.add(run.passages)
    read: list[WrittenPiece] = []

    def pieces() -> Generator[str, None, None]:
        for piece in write_from_memory(
            decoder,
            question.text,
            run.passages,
            quote=quoted.citations[0].span,
            beginning=_beginning(quoted.citations[0]),
            max_tokens=max_tokens,
        ):
            read.append(piece)
            yield piece.text

    def supports(sentence: str) -> bool:
        return evidence.supports(sentence, [p.row.id for p in _most_read(sentence, read, run)])

    text = ""
    for piece in marked(pieces(), supports):
        text += piece
        yield piece
    if not text:
        yield quoted.text
        text = quoted.text
    _hear(question, run, text)
    return replace(
        quoted,
        text=text,
        citations=evidence.citations or quoted.citations[:1],
        verdict=None,
        origin="decoder",
    )


def _beginning(citation: Citation) -> str:
    """Return what an answer begins with: the sentence of a quote, or the quote if that is long."""
    quote, sentence = (" ".join(text.split()) for text in (citation.quote, citation.sentence))
    return sentence if quote in sentence and len(sentence) <= _LONGEST_SENTENCE else quote


def _hear(question: ReadQuestion, run: PromptRun, text: str) -> None:
    """Have the model of the conversation read an answer that it did not write itself."""
    ids = question.runtime.tokenizer.encode(text).ids
    if ids:
        run.decoder.feed(ids)


def _most_read(sentence: str, read: Sequence[WrittenPiece], run: PromptRun) -> tuple[Passage, ...]:
    """Return the passage that a sentence, the last but for what follows it, was read from most."""
    text = "".join(piece.text for piece in read)
    start = text.rfind(sentence)
    shares, at = torch.zeros(len(run.passages)), 0
    for piece in read:
        if start <= at < start + len(sentence):
            shares += piece.shares
        at += len(piece.text)
    return (run.passages[int(shares.argmax())],)
