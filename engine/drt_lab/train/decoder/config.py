"""Settings of a decoder's training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from drt_engine.errors import ConfigError


@dataclass(frozen=True)
class DecoderTraining:
    """A decoder's training: data, stages and optimiser.

    ``start`` is a GGUF file or a decoder's folder; ``lower_layers`` of a GGUF file's layers are the
    lower stack. The first ``reading_steps`` steps read the chunks with the evidence alone. In a
    share ``judging`` of those after them each question reads another chunk alone, too, to say that
    it does not say the answer. The rest read as many chunks as the model retrieves, weighed by
    BM25. ``batch`` counts questions, ``longest_answer`` tokens, ``longest_document`` characters;
    ``held_out`` documents are evaluated on. ``sources`` restricts the questions (empty: all are
    used).
    ``written``: the share of extractive questions that are answered by their sentences.
    ``summaries`` are documents with their summaries; in a share ``summarising`` of the steps, a
    sentence of a document is rewritten as the summary has it.
    ``memory_gradient``: whether chunk memory is trained, too, not only its reading. ``precision``
    is that of matrix products. ``limit_minutes`` ends the run with a checkpoint. ``rank``: of what
    is trained beside the upper layers' frozen matrices (``None``: these themselves). ``packed``:
    the finished model has four bits a number, in place of bf16; so has the embedding from the first
    step on.
    """

    run: Path
    start: Path
    questions: tuple[Path, ...]
    documents: tuple[Path, ...]
    steps: int
    reading_steps: int
    judging: float = 0.0
    lower_layers: int = 15
    batch: int = 16
    lr: float = 1.2e-4
    warm_up: int = 20
    final_lr: float = 0.1
    longest_answer: int = 64
    longest_document: int = 200_000
    held_out: int = 6
    evaluate_every: int = 200
    save_minutes: float = 5.0
    seed: int = 0
    sources: tuple[str, ...] = ()
    written: float = 0.0
    summaries: tuple[Path, ...] = ()
    summarising: float = 0.0
    threads: int = 1
    device: Literal["auto", "cpu", "cuda"] = "cpu"
    memory_gradient: bool = False
    precision: Literal["fp32", "bf16"] = "fp32"
    limit_minutes: float | None = None
    rank: int | None = None
    packed: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.reading_steps <= self.steps:
            raise ConfigError(
                f"reading_steps is {self.reading_steps}, expected 0 to the {self.steps} steps"
            )
        if min(self.batch, self.longest_answer, self.evaluate_every) < 1:
            raise ConfigError("batch, longest_answer and evaluate_every must be 1 or more")
        if not 0 <= self.judging <= 1:
            raise ConfigError(f"judging is {self.judging}, expected a share from 0 to 1")
        if self.rank is not None and self.rank < 1:
            raise ConfigError(f"rank is {self.rank}, expected 1 or more")
        if not 0 <= self.summarising <= 1 or (self.summarising and not self.summaries):
            raise ConfigError(
                f"summarising is {self.summarising}, expected a share from 0 to 1, and summaries"
            )
        if not 0 <= self.written <= 1:
            raise ConfigError(f"written is {self.written}, expected a share from 0 to 1")


@dataclass(frozen=True)
class DecoderConfigFile:
    """A TOML file with the one section ``decoder``."""

    decoder: DecoderTraining
