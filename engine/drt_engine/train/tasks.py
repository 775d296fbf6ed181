"""The mixture of one stage: each step draws a task by its share and returns its loss."""

from __future__ import annotations

import random
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from drt_engine.config.model import ModelConfig
from drt_engine.config.train import TrainConfig
from drt_engine.errors import ConfigError
from drt_engine.model.chunking import to_chunks
from drt_engine.model.drt import DRT
from drt_engine.tokenizer import Tokenizer
from drt_engine.train.answering import answer_losses, seeded
from drt_engine.train.cloze import ClozeSource
from drt_engine.train.needles import NeedleSource
from drt_engine.train.questions import QuestionBatch, QuestionSource, hide_evidence
from drt_engine.train.stream import StreamState, TokenStream
from drt_engine.train.teacher import LandmarkTeacher


class Tasks:
    """Samples the tasks of a stage and computes their losses."""

    def __init__(self, config: TrainConfig, model: ModelConfig, tokenizer: Tokenizer) -> None:
        self.config, self.model_config = config, model
        self.questions: QuestionSource | None = None
        self.needles: NeedleSource | None = None
        self.cloze: ClozeSource | None = None
        self.stream: TokenStream | None = None
        self.tokenizer = tokenizer
        self.teacher: LandmarkTeacher | None = None
        if config.questions.teacher is not None:
            self.teacher = LandmarkTeacher(config.questions.teacher, model)
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
        if config.stream.share > 0:
            self.stream = TokenStream(config.stream.corpus, tokenizer)

    def state(self) -> dict[str, Any]:
        """Return what resuming needs besides the step number."""
        return {"stream": asdict(self.stream.state)} if self.stream else {}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from ``state``."""
        if self.stream and "stream" in state:
            start = StreamState(**state["stream"])
            self.stream = TokenStream(self.config.stream.corpus, self.tokenizer, start)

    def loss(self, model: DRT, rng: random.Random) -> tuple[Tensor, dict[str, float]]:
        """Draw a task and return its loss and what to log."""
        tasks = {
            self._question_loss: self.config.questions.share,
            self._needle_loss: self.config.needles.share,
            self._cloze_loss: self.config.cloze.share,
            self._stream_loss: self.config.stream.share,
        }
        task = rng.choices(list(tasks), list(tasks.values()))[0]
        return task(model, rng)

    def _generator(self, rng: random.Random) -> torch.Generator | None:
        return seeded(rng) if self.config.run.gumbel else None

    def _question_loss(self, model: DRT, rng: random.Random) -> tuple[Tensor, dict[str, float]]:
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
        return self._answer_loss(model, batch, rng, config.retrieved)

    def _needle_loss(self, model: DRT, rng: random.Random) -> tuple[Tensor, dict[str, float]]:
        assert self.needles is not None
        config = self.config.needles
        batch = self.needles.batch(
            rng, needles=config.needles, window=config.window, distractors=config.distractors
        )
        loss, values = self._answer_loss(model, batch, rng, config.retrieved)
        return loss, {f"needle_{k}": v for k, v in values.items() if k in ("reread", "hit")}

    def _cloze_loss(self, model: DRT, rng: random.Random) -> tuple[Tensor, dict[str, float]]:
        assert self.cloze is not None
        config = self.config.cloze
        batch = self.cloze.batch(
            rng,
            questions=config.questions,
            more=config.more,
            windows=config.windows,
            window=config.window,
            recurring=config.recurring,
        )
        loss, values = self._answer_loss(model, batch, rng, config.retrieved)
        logged = ("reread", "stored", "retrieval", "hit")
        return config.loss * loss, {f"cloze_{k}": v for k, v in values.items() if k in logged}

    def _answer_loss(
        self, model: DRT, batch: QuestionBatch, rng: random.Random, count: int
    ) -> tuple[Tensor, dict[str, float]]:
        config = self.config.questions
        parts = answer_losses(
            model, batch, count=count, generator=self._generator(rng), teacher=self.teacher
        )
        loss = parts.reread + config.stored_loss * parts.stored
        loss = loss + config.retrieval_loss * parts.retrieval + config.text_loss * parts.text
        loss = loss + config.relevance_loss * parts.relevance
        loss = loss + config.teacher_loss * parts.teacher
        values = {k: float(v.detach()) for k, v in vars(parts).items() if torch.isfinite(v)}
        return loss, {**values, "asked": float(len(batch.questions))}

    def _stream_loss(self, model: DRT, rng: random.Random) -> tuple[Tensor, dict[str, float]]:
        assert self.stream is not None
        config = self.config.stream
        size = config.chunks * self.model_config.chunk
        rows = torch.tensor([self.stream.take(size) for _ in range(config.batch)])
        chunks, valid = to_chunks(rows, self.model_config.chunk, self.model_config.pad_id)
        losses, _ = model.stream_loss(chunks, valid, generator=self._generator(rng))
        return config.loss * losses.mean(), {"lm": float(losses.detach().mean())}
