"""Fit the weights with which sentences are scored for a summary, on documents with summaries.

`python examples/fit_summary_weights.py train.jsonl.xz train2.jsonl.xz` prints the weights for
`engine/drt_engine/summary/sentences/weights.py`, and what they measure: each half of the documents
is summarised with weights of the other half. No model is needed. Documents are taken in the schema
of `drt eval summary`, at most `--limit` of each source, SciTLDR excepted, where they are short.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from drt_engine.documents import Source, open_document
from drt_engine.documents.structure.block_kinds import BlockKinds
from drt_engine.summary.candidates import Candidate
from drt_engine.summary.selection import pick_sentences
from drt_engine.summary.sentences.features import FEATURES, Described, described_sentences
from drt_engine.summary.sentences.prose import placed_sentences, quotable, section_names
from drt_engine.summary.sentences.weights import READING
from drt_engine.summary.sentences.word_worth import (
    WORD_FEATURES,
    word_features,
    word_worths,
    worth_features,
)
from drt_engine.text.words import STOP_WORDS, words
from drt_lab.data.schema import SummaryItem, read_summaries
from drt_lab.evaluate.metrics.rouge import rouge
from drt_lab.evaluate.metrics.summary_baselines import joined, textrank_summary

LONGEST_DOCUMENT = 60_000  # characters
RIDGE, WORD_RIDGE = 0.3, 0.001  # times the mean variance of a feature
BIGRAMS = 2.0  # weight of common pairs of words next to common words
_TOKEN = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True)
class Text:
    """A document as its reader gives it: what telling kinds of blocks needs of a library."""

    id: str
    title: str
    media_type: str
    content: str
    sections: list[tuple[int, int | None, str | None]]

    @classmethod
    def of(cls, content: str) -> Text:
        """Read a text as ``drt eval summary`` does: as a plain text file."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "0.txt"
            file.write_text(content, encoding="utf-8")
            with open_document(Source.from_path(file)) as document:
                blocks = list(document.blocks)
                title, media_type = document.title, document.media_type
        sections: list[tuple[int, int | None, str | None]] = []
        start = 0
        for block in blocks:
            if not sections or sections[-1][1:] != (block.page, block.section):
                sections.append((start, block.page, block.section))
            start += len(block.text)
        return cls("0", title, media_type, "".join(block.text for block in blocks), sections)

    @property
    def characters(self) -> int:
        return len(self.content)

    def text(self, _document_id: str, start: int, end: int) -> str:
        return self.content[start:end]

    def iter_text(self, _document_id: str) -> Iterator[str]:
        yield self.content

    def place(self, _document_id: str, start: int) -> tuple[int | None, str | None]:
        return next(
            (place[1:] for place in reversed(self.sections) if place[0] <= start), (None, None)
        )

    def places(self, _document_id: str) -> list[tuple[int, int | None, str | None]]:
        return self.sections

    def origins(
        self, _document_id: str, _start: int = 0, _end: int | None = None
    ) -> list[tuple[int, str]]:
        return []


@dataclass(frozen=True)
class Case:
    """A document's sentences with their features [n, F] and their worth [n].

    ``tokens`` are the words of each sentence, ``words`` the features of the words [w, W], and
    ``in_summary`` tells which of them the summary has [w].
    """

    item: SummaryItem
    sentences: list[Described]
    features: Tensor
    worth: Tensor
    tokens: list[list[str]]
    words: dict[str, list[float]]
    in_summary: Tensor

    def with_words(self, weights: Tensor) -> Case:
        """Return the same document with the features that these weights of words give."""
        worths = word_worths(self.words, dict(zip(WORD_FEATURES, weights.tolist(), strict=True)))
        features = self.features.clone()
        for row, tokens in zip(features, self.tokens, strict=True):
            for name, value in worth_features(tokens, worths).items():
                row[FEATURES.index(name)] = value
        return replace(self, features=features)


def cases_of(items: Iterable[SummaryItem]) -> Iterator[Case]:
    """Yield the documents with more than one sentence of prose."""
    for item in items:
        text = Text.of(item.document)
        sections = section_names(text.places(text.id))
        placed = placed_sentences(text.content, 0, BlockKinds(text, text), sections)
        sentences = described_sentences([placed[n] for n in quotable(placed)], text.title)
        if len(sentences) > 1:
            rows = [[s.features.get(name, 0.0) for name in FEATURES] for s in sentences]
            summary = _TOKEN.findall(item.summary.lower())
            worth = torch.tensor([worth_of(s.sentence.text, summary) for s in sentences])
            tokens = [words(s.sentence.text) for s in sentences]
            names = [s.sentence.section for s in sentences]
            of_words = word_features(tokens, names, [s.features for s in sentences], text.title)
            in_summary = torch.tensor([float(word in set(summary)) for word in of_words])
            yield Case(item, sentences, torch.tensor(rows), worth, tokens, of_words, in_summary)


def worth_of(sentence: str, summary: Sequence[str]) -> float:
    """Return what shares of a sentence's words, content words and pairs are the summary's."""
    tokens = _TOKEN.findall(sentence.lower())
    content = [token for token in tokens if token not in STOP_WORDS]
    return (
        _share(tokens, summary)
        + _share(content, summary)
        + BIGRAMS * _share(list(pairwise(tokens)), list(pairwise(summary)))
    )


def _share(items: Sequence[object], others: Sequence[object]) -> float:
    return (Counter(items) & Counter(others)).total() / max(1, len(items))


def fitted(cases: Sequence[Case]) -> Tensor:
    """Return the weights [F] of the features of sentences."""
    return _ridge([(case.item.source, case.features, case.worth) for case in cases], RIDGE)


def fitted_words(cases: Sequence[Case]) -> Tensor:
    """Return the weights [W] of the features of words."""
    rows = [(c.item.source, torch.tensor([*c.words.values()]), c.in_summary) for c in cases]
    return _ridge([row for row in rows if len(row[1])], WORD_RIDGE)


def _ridge(documents: Sequence[tuple[str, Tensor, Tensor]], strength: float) -> Tensor:
    """Return the weights of a ridge regression within documents, every source alike.

    ``documents`` have a source, features [n, F] and what these are to tell [n].
    """
    counts = Counter(source for source, _, _ in documents)
    size = documents[0][1].shape[1]
    gram, moment = (
        torch.zeros(size, size, dtype=torch.double),
        torch.zeros(size, dtype=torch.double),
    )
    for source, values, target in documents:
        # Only differences within one document matter.
        features = (values - values.mean(0)).double()
        worth = (target - target.mean()).double()
        # Between a weight of 1 for each document and one for each source.
        weight = 1 / len(worth) / counts[source] ** 0.5
        gram += weight * features.T @ features
        moment += weight * features.T @ worth
    ridge = strength * gram.diagonal().mean() * torch.eye(size, dtype=torch.double)
    return torch.linalg.solve(gram + ridge, moment)


def measured(train: Sequence[Case], test: Sequence[Case]) -> list[tuple[str, float, float]]:
    """Return the scores of some documents with weights fitted on others."""
    of_words = fitted_words(train)
    weights = fitted([case.with_words(of_words) for case in train])
    return list(scores([case.with_words(of_words) for case in test], weights))


def scores(cases: Sequence[Case], weights: Tensor) -> Iterator[tuple[str, float, float]]:
    """Yield source and ROUGE-1 of the summary and of TextRank's, for each document."""
    reading = torch.tensor([READING.get(name, 0.0) for name in FEATURES], dtype=torch.double)
    for case in cases:
        values = (case.features.double() @ (weights + reading)).tolist()
        candidates = [
            Candidate.of(sentence, value, retrieved=0.0)
            for sentence, value in zip(case.sentences, values, strict=True)
        ]
        budget = len(case.item.summary.split())
        picked = pick_sentences(candidates, budget, longest=math.inf)
        summary = " ".join(case.item.document[c.start : c.end] for c in picked)
        baseline = joined(textrank_summary(case.item.document, word_budget=budget))
        yield (
            case.item.source,
            rouge(summary, case.item.summary).rouge1,
            rouge(baseline, case.item.summary).rouge1,
        )


def print_scores(results: Sequence[tuple[str, float, float]]) -> None:
    for source in [*dict.fromkeys(name for name, _, _ in results), "all"]:
        rows = [row for row in results if source in ("all", row[0])]
        means = (sum(row[i] for row in rows) / len(rows) for i in (1, 2))
        print(f"# {source:22}{len(rows):5}", *(f"{mean:.3f}" for mean in means))


def sampled(items: Iterable[SummaryItem], limit: int) -> list[SummaryItem]:
    """Return at most ``limit`` items of each source, drawn by chance; all of the short ones."""
    by_source: dict[str, list[SummaryItem]] = defaultdict(list)
    for item in items:
        if len(item.document) <= LONGEST_DOCUMENT:
            by_source[item.source].append(item)
    chance = random.Random(0)
    return [
        item
        for source, group in by_source.items()
        for item in (
            group if source == "SciTLDR" or len(group) <= limit else chance.sample(group, limit)
        )
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="+", type=Path, help="files of documents with summaries")
    parser.add_argument("--limit", type=int, default=90, help="documents of a source")
    arguments = parser.parse_args()
    items = [item for path in arguments.data for item in read_summaries(path)]
    cases = list(cases_of(sampled(items, arguments.limit)))
    halves = cases[::2], cases[1::2]
    print_scores([*measured(halves[0], halves[1]), *measured(halves[1], halves[0])])
    of_words = fitted_words(cases)
    print_weights("WORD_WEIGHTS", WORD_FEATURES, of_words)
    print_weights("WEIGHTS", FEATURES, fitted([case.with_words(of_words) for case in cases]))


def print_weights(title: str, names: Sequence[str], weights: Tensor) -> None:
    print(f"{title}: Mapping[str, float] = {{")
    for name, weight in zip(names, weights.tolist(), strict=True):
        print(f'    "{name}": {weight:.3f},')
    print("}")


if __name__ == "__main__":
    main()
