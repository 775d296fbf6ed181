"""Follow-up questions: "And who signs it?", "And of the northern lighthouse?".

One that is only a part of a question takes the place of the most similar words of the previous one,
by the model's word vectors. Others are asked with the content words of the previous question behind
them: with the whole one in front, the model answers that one again (examples/LOG.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drt_engine.text.words import content_words, word_set, words

if TYPE_CHECKING:
    from torch import Tensor

    from drt_engine.runtime import Runtime

_MOST_WORDS = 24
_LONGEST = 400  # characters; a longer question says enough
_LONGEST_PART = 8  # words of a part of a question, and of what it takes the place of
_OPENING = re.compile(r"\W*(?:(?:and|but|so|or|then|what about|how about)\b\W*)+", re.IGNORECASE)
_POINTING = word_set(
    "it its he him his she her hers they them their theirs that this these those there one ones"
)
# Question words and auxiliary verbs, which only a clause has.
_CLAUSE = word_set(
    "who whom whose which what when where why how am is are was were be do does did has have had"
    " can could will would shall should may might must"
)
# How much the first and last words tell, and how words are written, beside their vectors; fitted on
# pairs of SQuAD's questions that differ in one part.
_SAME_WORD, _SAME_SHAPE, _EXTRA_WORD = 0.5, 0.15, 0.05


def in_context(runtime: Runtime, question: str, turns: Sequence[Mapping[str, Any]]) -> str:
    """Return a question; a follow-up with what it needs of the previous questions.

    ``turns`` are those of a conversation, oldest first.
    """
    # A request for a summary has no words that say what was talked about.
    questions = [str(turn["question"]) for turn in turns if turn.get("mode") != "summary"]
    if not questions or len(question) > _LONGEST or not is_follow_up(question):
        return question
    if (part := question_part(question)) is not None:
        return _with_part(runtime, _last_whole(runtime, questions), part)
    previous = content_words(questions[-1])[:_MOST_WORDS]
    return f"{question} ({' '.join(previous)})"


def is_follow_up(question: str) -> bool:
    """Return whether a question may need the previous one: it opens with "and" or has a pronoun."""
    return _OPENING.match(question) is not None or not _POINTING.isdisjoint(words(question))


def question_part(question: str) -> str | None:
    """Return the part of a question that a follow-up consists of; None where it is a clause."""
    opening = _OPENING.match(question)
    part = question[opening.end() :].strip(" ?.!") if opening is not None else ""
    is_part = part and (_CLAUSE | _POINTING).isdisjoint(words(part))
    return part if is_part and len(part.split()) <= _LONGEST_PART else None


def _last_whole(runtime: Runtime, questions: Sequence[str]) -> str:
    """Return the last question, completed where it is itself only a part."""
    parts = [question_part(question) for question in questions]
    last = max((n for n, part in enumerate(parts) if part is None), default=0)
    whole = questions[last]
    for part in parts[last + 1 :]:
        whole = _with_part(runtime, whole, part or "")
    return whole


def _with_part(runtime: Runtime, question: str, part: str) -> str:
    """Put a part into a question, in place of the words that are most like it."""
    old, new = question.rstrip(" ?.!").split(), part.split()
    spans = [
        (start, end)
        for start in range(1, len(old))  # the first word asks
        for end in range(start + 1, min(len(old), start + _LONGEST_PART) + 1)
    ]
    if not spans:
        return f"{question} {part}"
    cosines = _cosines(_word_vectors(runtime, old), spans, _word_vectors(runtime, new).sum(dim=0))

    def likeness(number: int) -> float:
        start, end = spans[number]
        edges = [(old[start], new[0]), (old[end - 1], new[-1])]
        same_words = sum(a.lower() == b.lower() for a, b in edges)
        same_shapes = sum(a[0].isupper() == b[0].isupper() for a, b in edges)
        same_shapes += edges[1][0][0].isdigit() == edges[1][1][0].isdigit()
        extra = abs(end - start - len(new))
        form = _SAME_WORD * same_words + _SAME_SHAPE * same_shapes - _EXTRA_WORD * extra
        return cosines[number] + form

    start, end = spans[max(range(len(spans)), key=likeness)]
    return " ".join([*old[:start], *new, *old[end:]]) + "?"


def _cosines(vectors: Tensor, spans: Sequence[tuple[int, int]], target: Tensor) -> list[float]:
    """Return the cosine of each span's sum of vectors [W, E] with ``target`` [E]."""
    import torch

    sums = vectors.cumsum(dim=0)
    starts, ends = torch.tensor(spans).T
    cosines: list[float] = torch.cosine_similarity(
        sums[ends - 1] - sums[starts - 1], target[None], dim=1
    ).tolist()
    return cosines


def _word_vectors(runtime: Runtime, texts: Sequence[str]) -> Tensor:
    """Return a vector [W, E] for each word: the sum of its tokens' embeddings, each of length 1."""
    import torch

    table = runtime.model.embedding.weight.detach()
    vectors = torch.zeros(len(texts), table.shape[1])
    for row, encoding in zip(vectors, runtime.tokenizer.encode_batch(list(texts)), strict=True):
        embeddings = table[torch.tensor(encoding.ids, device=table.device, dtype=torch.long)]
        row += torch.nn.functional.normalize(embeddings.float().cpu(), dim=1).sum(dim=0)
    return vectors
