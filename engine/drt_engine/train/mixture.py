"""The mixture of one stage: each step draws a task by its share and returns its loss."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from drt_engine.config.model import ModelConfig
from drt_engine.config.train import TrainConfig
from drt_engine.errors import ConfigError
from drt_engine.model.chunking import to_chunks
from drt_engine.model.drt import DRT
from drt_engine.text.tokenizer import Tokenizer
from drt_engine.train.answering import answer_losses
from drt_engine.train.cloze import ClozeSource
from drt_engine.train.needles import NeedleSource
from drt_engine.train.passages import PassageBatch, PassageSource, passage_loss
from drt_engine.train.questions import QuestionBatch, QuestionSource, hide_evidence
from drt_engine.train.shards import open_shards
from drt_engine.train.stream import StreamState, TokenStream
from drt_engine.train.teacher import LandmarkTeacher

# Of the values of other tasks than questions, which are logged under the task's name.
_LOGGED = {"needle": ("reread", "hit"), "cloze": ("reread", "stored", "retrieval", "hit")}


@dataclass(frozen=True)
class Drawn:
    """A task, its batch, which for language modelling is token ids [B, T], and the seed of its
    Gumbel noise.
    """

    task: str
    batch: QuestionBatch | PassageBatch | Tensor
    noise: int | None

    def generator(self) -> torch.Generator | None:
        """What draws the noise: on the CPU whatever the device, so that it is the same on all."""
        return None if self.noise is None else torch.Generator().manual_seed(self.noise)


class Tasks:
    """Samples the tasks of a stage, and computes their losses on a device."""

    def __init__(
        self,
        config: TrainConfig,
        model: ModelConfig,
        tokenizer: Tokenizer,
        *,
        device: torch.device | str = "cpu",
    ) -> None:
        self.config, self.model_config = config, model
        self.device = torch.device(device)
        self.questions: QuestionSource | None = None
        self.needles: NeedleSource | None = None
        self.cloze: ClozeSource | None = None
        self.passages: PassageSource | None = None
        self.stream: TokenStream | None = None
        self.tokenizer = tokenizer
        self.teacher: LandmarkTeacher | None = None
        if config.questions.teacher is not None:
            self.teacher = LandmarkTeacher(config.questions.teacher, model)
            self.teacher.model.to(self.device)
        taught = config.questions.share + config.needles.share + config.cloze.share
        if taught > 0 and not model.reread:
            raise ConfigError(
                "questions, needles and clozes teach the quote head; expected model.quote_head and "
                "model.reread to be true"
            )
        if config.questions.share > 0:
            if config.questions.qa is None or config.questions.docs is None:
                raise ConfigError("questions.qa and questions.docs must name files")
            self.questions = QuestionSource(
                config.questions.qa,
                config.questions.docs,
                tokenizer=tokenizer,
                config=model,
                weights=config.questions.weights,
            )
        if config.needles.share > 0:
            self.needles = NeedleSource(config.needles.corpus, tokenizer=tokenizer, config=model)
        if config.cloze.share > 0:
            self.cloze = ClozeSource(config.cloze.corpus, tokenizer=tokenizer, config=model)
        if config.passages.share > 0:
            self.passages = PassageSource(config.passages, model, tokenizer)
        if config.stream.share > 0:
            self.stream = self._open_stream()

    def state(self) -> dict[str, Any]:
        """Return what resuming needs besides the step number."""
        return {"stream": asdict(self.stream.state)} if self.stream else {}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from ``state``."""
        if self.stream and "stream" in state:
            self.stream.resume(StreamState(**state["stream"]))

    def loss(self, model: DRT, rng: random.Random) -> tuple[Tensor, dict[str, float]]:
        """Draw a task and return its loss and what to log."""
        return self.loss_of(model, self.draw(rng))

    def draw(self, rng: random.Random) -> Drawn:
        """Draw a task and make its batch, on the CPU."""
        return self.make(self.choose(rng), rng)

    def choose(self, rng: random.Random) -> str:
        """Draw a task by the shares."""
        shares = {
            "questions": self.config.questions.share,
            "needle": self.config.needles.share,
            "cloze": self.config.cloze.share,
            "passages": self.config.passages.share,
            "stream": self.config.stream.share,
        }
        return rng.choices(list(shares), list(shares.values()))[0]

    def make(self, task: str, rng: random.Random) -> Drawn:
        """Make the batch of a task; only that of the stream changes the state."""
        makers: dict[str, Callable[[random.Random], QuestionBatch | PassageBatch | Tensor]] = {
            "questions": self._draw_questions,
            "needle": self._draw_needles,
            "cloze": self._draw_clozes,
            "passages": self._draw_passages,
            "stream": self._draw_stream,
        }
        batch = makers[task](rng)
        return Drawn(task, batch, rng.getrandbits(62) if self.config.run.gumbel else None)

    def loss_of(self, model: DRT, drawn: Drawn) -> tuple[Tensor, dict[str, float]]:
        """Return the loss of a batch, once moved to the device of the model, and what to log."""
        batch = drawn.batch.to(self.device)
        if isinstance(batch, Tensor):
            return self._stream_loss(model, batch, drawn.generator())
        if isinstance(batch, PassageBatch):
            return passage_loss(model, batch, self.config.passages)
        counts = {
            "questions": self.config.questions.retrieved,
            "needle": self.config.needles.retrieved,
            "cloze": self.config.cloze.retrieved,
        }
        loss, values = self._answer_loss(model, batch, counts[drawn.task], drawn.generator())
        if drawn.task == "questions":
            return loss, values
        if drawn.task == "cloze":
            loss = self.config.cloze.loss * loss
        named = {f"{drawn.task}_{key}": values[key] for key in _LOGGED[drawn.task] if key in values}
        return loss, named

    def _draw_questions(self, rng: random.Random) -> QuestionBatch:
        assert self.questions is not None
        config = self.config.questions
        batch = self.questions.batch(
            rng,
            questions=config.questions,
            window=config.window,
            pool=config.pool,
            more=config.more,
        )
        if config.hidden > 0:
            batch = hide_evidence(batch, rng, config.hidden)
        return batch if config.read else replace(batch, readers=0)

    def _draw_needles(self, rng: random.Random) -> QuestionBatch:
        assert self.needles is not None
        config = self.config.needles
        return self.needles.batch(
            rng,
            needles=config.needles,
            window=config.window,
            distractors=config.distractors,
            two_hops=config.two_hops,
        )

    def _draw_clozes(self, rng: random.Random) -> QuestionBatch:
        assert self.cloze is not None
        config = self.config.cloze
        return self.cloze.batch(
            rng,
            questions=config.questions,
            more=config.more,
            windows=config.windows,
            window=config.window,
            recurring=config.recurring,
        )

    def _draw_passages(self, rng: random.Random) -> PassageBatch:
        assert self.passages is not None
        return self.passages.batch(rng)

    def _draw_stream(self, rng: random.Random) -> Tensor:
        assert self.stream is not None
        return self.stream.take(self.config.stream.batch)

    def _open_stream(self) -> TokenStream:
        config, run = self.config.stream, self.config.run
        shards = open_shards(config.tokens or run.out / "tokens", config.corpus, self.tokenizer)
        return TokenStream(shards, config.chunks * self.model_config.chunk, seed=run.seed)

    def _answer_loss(
        self,
        model: DRT,
        batch: QuestionBatch,
        count: int,
        generator: torch.Generator | None,
    ) -> tuple[Tensor, dict[str, float]]:
        config = self.config.questions
        parts = answer_losses(model, batch, count=count, generator=generator, teacher=self.teacher)
        loss = parts.reread + config.stored_loss * parts.stored
        loss = loss + config.retrieval_loss * parts.retrieval + config.text_loss * parts.text
        loss = loss + config.relevance_loss * parts.relevance
        loss = loss + config.teacher_loss * parts.teacher
        names = list(vars(parts))
        # All at once: a GPU waits for each look at a value.
        found = torch.stack([vars(parts)[name].detach().float() for name in names]).tolist()
        values = {k: v for k, v in zip(names, found, strict=True) if math.isfinite(v)}
        return loss, {**values, "asked": float(len(batch.questions))}

    def _stream_loss(
        self, model: DRT, rows: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, dict[str, float]]:
        chunks, valid = to_chunks(rows, self.model_config.chunk, self.model_config.pad_id)
        losses, _ = model.stream_loss(chunks, valid, generator=generator)
        return self.config.stream.loss * losses.mean(), {"lm": float(losses.detach().mean())}
