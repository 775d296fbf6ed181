"""The training loop, once for all models and tasks: sample, loss, step, log, checkpoint, resume.

A batch depends only on the seed, the step, and the stream state, so a resumed run sees the very
next one.
"""

from __future__ import annotations

import math
import time
from typing import Any

import torch

from drt_engine.config.load import dump
from drt_engine.config.train import TrainConfig
from drt_engine.model.protocol import LanguageModel
from drt_engine.model.weights import save_model
from drt_engine.progress import report
from drt_engine.text.tokenizer import Tokenizer
from drt_engine.train.checkpoint import find_state, load_state, read_extra, save_state
from drt_engine.train.metrics import Metrics, plot
from drt_engine.train.mixture import TaskMixture
from drt_engine.train.optim import clip, make_optimizer, set_rate
from drt_engine.train.prefetch import Prefetcher
from drt_engine.train.resume import expect_resumable, settings_of


class Loop:
    """One training stage in its run folder."""

    def __init__(self, config: TrainConfig, model: LanguageModel, tokenizer: Tokenizer) -> None:
        self.config, self.model, self.tokenizer = config, model, tokenizer
        self.device = next(model.parameters()).device
        self.folder = config.run.out
        state = find_state(self.folder)
        if state is not None:
            expect_resumable(state, read_extra(state).get("settings", {}), self._settings())
        self.optimizer = make_optimizer(model, config.optim)
        self.tasks = TaskMixture(config, model.config, tokenizer, device=self.device)
        self.prefetcher = Prefetcher(self.tasks, config.run.workers)
        self.metrics = Metrics(self.folder)
        self.step = 0
        if state is not None:
            extra = load_state(state, model, self.optimizer)
            self.step = int(extra["step"])
            self.tasks.load(extra["tasks"])
        # Only now is it certain that the configuration is that of the run in this folder.
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "config.json").write_text(dump(config), encoding="utf-8")

    def run(self, *, until: int | None = None) -> list[float]:
        """Train to the last step, to ``until`` or to the limit in minutes, with checkpoints.

        Returns the losses of these steps. What was measured since is a line on stderr every
        ``run.log_every`` steps.
        """
        last = min(until or self.config.optim.steps, self.config.optim.steps)
        limit = self.config.run.limit_minutes
        losses: list[float] = []
        began = saved = time.monotonic()
        try:
            while self.step < last:
                if limit is not None and time.monotonic() - began > limit * 60:
                    break
                losses.append(self._one_step())
                if self.step % self.config.run.log_every == 0:
                    row = self.metrics.write(self.step, lr=self.rate)
                    report(" ".join(f"{k}={v:.4g}" for k, v in row.items()))
                if time.monotonic() - saved > self.config.run.minutes * 60:
                    self.save()
                    saved = time.monotonic()
        finally:
            self.prefetcher.close()
            self.save()
        return losses

    def save(self) -> None:
        """Write the train state and the model as it would be shipped, and draw the losses."""
        extra = {"step": self.step, "tasks": self.tasks.state(), "settings": self._settings()}
        save_state(self.folder / "state", self.model, self.optimizer, extra)
        save_model(self.model, self.tokenizer, self.folder / "model")
        if self.metrics.path.exists():
            plot(self.folder)

    def _settings(self) -> dict[str, Any]:
        """Return what a resumed run is compared by."""
        settings = settings_of(self.config)
        del settings["model"]  # as it was written; compared is what it was resolved to
        return settings | settings_of(self.model.config, "model.")

    def _one_step(self) -> float:
        """Take a step on the mean gradient of ``optim.accumulate`` batches; return their loss."""
        config = self.config.optim
        self.rate = set_rate(self.optimizer, config, self.step)
        total = 0.0
        for part in range(config.accumulate):
            seeds = self._seeds(self.step * config.accumulate + part)
            drawn = self.prefetcher.draw(seeds[0], seeds[1:])
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.run.bf16):
                loss, values = self.tasks.loss(self.model, drawn)
            (loss / config.accumulate).backward()
            self.metrics.add(**values)
            total += float(loss.detach()) / config.accumulate
        norm = clip(self.optimizer, config.clip)
        if math.isfinite(norm):  # else the step is left out, and the norm in the log says so
            self.optimizer.step()
        self.metrics.add(norm=norm)
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return total

    def _seeds(self, first: int) -> list[str]:
        """Return the seeds of batch number ``first`` of the stage and of those to make ahead."""
        parts = self.config.optim.accumulate
        last = min(first + self.prefetcher.depth + 1, self.config.optim.steps * parts)
        numbers = range(first, max(last, first + 1))
        return [f"{self.config.run.seed}/{n // parts}/{n % parts}" for n in numbers]
