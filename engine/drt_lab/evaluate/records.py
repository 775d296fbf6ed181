"""``drt eval records``: copies of earlier records in rows that retrieval decides, by choice.

The positive control of a learnt retriever: what is needed is known, so that chance, the oracle and
a model's own choice can be told apart to the token.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_lab.data.far_copies import far_copies
from drt_lab.data.records import RecordLayout, record_row
from drt_lab.evaluate.choices import NAMES, Choice
from drt_lab.evaluate.library import progress
from drt_lab.evaluate.needle import length_name
from drt_lab.evaluate.perplexity import model_choices, stream_losses
from drt_lab.evaluate.report import EvalReport, Groups
from drt_lab.lm.runtime import LanguageRuntime


@dataclass(frozen=True)
class RecordsEvaluation:
    """``rows`` rows of each of the ``lengths`` in tokens, laid out as ``RecordsConfig`` says."""

    lengths: tuple[int, ...] = (256, 1024)
    rows: int = 8
    names: int = 12
    values: int = 3
    apart: int = 2
    seed: int = 0
    choices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.lengths or min(self.lengths) < 2 or self.rows < 1:
            raise ConfigError(
                f"lengths are {list(self.lengths)} tokens and rows is {self.rows}, expected "
                "lengths of 2 or more, and 1 or more rows"
            )


def evaluate_records(runtime: LanguageRuntime, options: RecordsEvaluation) -> EvalReport:
    """Return the nats of a copied token at each length, and of a DRT by each choice.

    Raises ``ConfigError`` for a model whose chunks hold no record, and for choices of a model that
    is no DRT.
    """
    started = time.monotonic()
    choices = model_choices(runtime, options.choices, all_of_drt=True)
    groups = _groups(runtime, options, choices)
    return EvalReport(
        task="records",
        data="records",
        n=options.rows * len(options.lengths),
        metrics=groups.pop(choices[0]),
        baselines={NAMES[choice]: of_choice for choice, of_choice in groups.items()},
        seconds=time.monotonic() - started,
        model=runtime.name,
    )


def _groups(
    runtime: LanguageRuntime, options: RecordsEvaluation, choices: tuple[Choice, ...]
) -> dict[Choice, Groups]:
    """Return the metrics of each choice by length."""
    config = runtime.config
    layout = RecordLayout(
        vocab=config.vocab,
        chunk=config.chunk,
        names=options.names,
        values=options.values,
        apart=options.apart,
    )
    groups: dict[Choice, dict[str, dict[str, float]]] = {choice: {} for choice in choices}
    for length in options.lengths:
        name, losses = length_name(length), {choice: list[Tensor]() for choice in choices}
        for number in progress(range(options.rows), name):
            rng = random.Random(f"{options.seed}/{length}/{number}")
            ids = record_row(rng, layout, -(-length // config.chunk)).flatten()[:length].tolist()
            is_far = far_copies(ids, window=config.window, chunk=config.chunk)[1:]
            for choice in choices:
                losses[choice].append(stream_losses(runtime, ids, choice=choice)[is_far])
        for choice, pieces in losses.items():
            copies = torch.cat(pieces).double()
            if not len(copies):
                raise ConfigError(
                    f"records of {length} tokens hold no copy beyond a window of {config.window}; "
                    "expected greater lengths or fewer names"
                )
            groups[choice][name] = {"nats": float(copies.mean()), "n": len(copies)}
    return dict(groups)
