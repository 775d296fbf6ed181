"""What a decoder in training can do on the questions that were held out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import torch

from drt_engine.decoder.model import Reading, RetrievalDecoder
from drt_engine.decoder.slices import Search, best_slices, judged, open_answer
from drt_lab.train.decoder.batches import Batches
from drt_lab.train.decoder.losses import batch_losses, batch_memory, evidence_of

_LOSSES, _ANSWERS = 64, 40


@torch.no_grad()
def evaluate(model: RetrievalDecoder, batches: Batches) -> dict[str, float]:
    """Return answer losses with and without memory, and token F1 of constrained decoding.

    Below ``alone`` the evidence's chunks are read alone, below ``chosen`` among others. Below
    ``found``: how often a chunk with the evidence comes first, by BM25 and by what the model says
    of each chunk alone.
    """
    chosen = [e for e in batches.held_out if e.evidence and e.question.kind == "extractive"]
    sums: dict[str, list[float]] = {}
    for at in range(0, min(_LOSSES, len(chosen)), 8):
        batch = batches.batch(chosen[at : at + 8])
        memory = batch_memory(model, batches, batch)
        evidence_alone = evidence_of(batch)
        for name, alone, use in (
            ("loss_alone", evidence_alone, True),
            ("loss_none", evidence_alone, False),
            ("loss_chosen", None, True),
        ):
            losses, evidence = batch_losses(
                model, batch, range(len(batch.examples)), memory, alone=alone, use_memory=use
            )
            sums.setdefault(name, []).append(float(losses.mean()))
        sums.setdefault("evidence", []).append(evidence)
    for example in chosen[:_ANSWERS]:
        batch = batches.batch([example])
        memory = batch_memory(model, batches, batch)
        evidence_row = evidence_of(batch)[0]
        by_words = batch.relevance[0]
        by_reading = judged(model, memory, example.prompt, batches.not_said).cpu()
        sums.setdefault("found_by_words", []).append(float(evidence_row[by_words.argmax()]))
        sums.setdefault("found_by_reading", []).append(float(evidence_row[by_reading.argmax()]))
        rows = [batch.chunks.index((example.document, n)) for n in example.evidence]
        weight = torch.full((1, len(rows)), -math.log(len(rows)), device=model.device)
        index = torch.tensor([rows], device=model.device)
        ids = batches.documents[example.document].ids[list(example.evidence)].flatten().tolist()
        found = best_slices(
            model,
            open_answer(model, example.prompt, Reading(memory, index, weight)),
            [ids],
            starts=[len(ids)],
            end_id=example.answer[-1],
            search=Search(prefixes=6),
        )
        quote = found[0].ids if found else ()
        sums.setdefault("f1_alone", []).append(_f1(quote, example.answer[:-1]))
    return {name: sum(values) / len(values) for name, values in sums.items()}


def _f1(quote: Sequence[int], answer: Sequence[int]) -> float:
    """Return the harmonic mean of precision and recall of tokens."""
    shared = sum((Counter(quote) & Counter(answer)).values())
    return 2 * shared / (len(quote) + len(answer))
