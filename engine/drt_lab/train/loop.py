"""The training loop, once for all models and tasks: sample, loss, step, log, checkpoint, resume.

A batch depends only on the seed, the step, and the stream state, so a resumed run sees the very
next one. Under ``torchrun`` each rank computes some of a step's batches; rank 0 alone writes, but
for the shards of a sharded model.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import random
import time
from typing import Any

import torch

from drt_engine.errors import ConfigError
from drt_engine.model.protocol import LanguageModel
from drt_engine.model.weights import pack_reader, save_model
from drt_engine.progress import report
from drt_engine.runtime import fast_bf16
from drt_engine.text.tokenizer import Tokenizer
from drt_lab.config.load import dump
from drt_lab.config.train import TrainConfig
from drt_lab.train.average import averaged
from drt_lab.train.checkpoint import find_state, read_extra
from drt_lab.train.interrupt import waiting_interrupt
from drt_lab.train.metrics import Metrics, plot
from drt_lab.train.mixture import TaskMixture
from drt_lab.train.optim import make_optimizer, set_rate
from drt_lab.train.parallel import make_parallel
from drt_lab.train.prefetch import Prefetcher
from drt_lab.train.ranks import OneRank, Ranks
from drt_lab.train.resume import expect_resumable, settings_of


class Loop:
    """One training stage in its run folder; every rank has a loop of its own.

    ``model`` is as ``config.run.parallel`` says, whole or in shards. Raises ``ConfigError`` for
    batches that the ranks cannot share, or ranks whose parameters differ.
    """

    _began = _saved = 0.0  # when a call of ``run`` and the last checkpoint were, by the clock
    _in_update = False  # where parameters may be of the next step already

    def __init__(
        self,
        config: TrainConfig,
        model: LanguageModel,
        tokenizer: Tokenizer,
        *,
        ranks: Ranks | None = None,
    ) -> None:
        self.config, self.model, self.tokenizer = config, model, tokenizer
        self.ranks = ranks or OneRank()
        self.parallel = make_parallel(config, model, self.ranks)
        self.device = next(model.parameters()).device
        # A processor without bf16 emulates it: a step takes ten times as long as in fp32.
        self.bf16 = config.run.bf16 and (self.device.type != "cpu" or fast_bf16())
        model.set_recompute(config.run.recompute)
        self.folder = config.run.out
        state = find_state(self.folder)
        if state is not None:
            expect_resumable(state, read_extra(state).get("settings", {}), self._settings())
        self.optimizer = make_optimizer(model, config.optim)
        self.tasks = TaskMixture(
            config, model.config, tokenizer, device=self.device, ranks=self.ranks
        )
        self.prefetcher = Prefetcher(self.tasks, config.run.workers)
        self.metrics = Metrics(self.folder)
        self.step = 0
        self._tasks_before: dict[str, Any] = {}
        if state is not None:
            extra = self.parallel.load(state, self.optimizer)
            self.step = int(extra["step"])
            self.tasks.load(extra["tasks"])
        self._expect_equal_ranks()
        # Only now is it certain that the configuration is that of the run in this folder.
        if self.ranks.rank == 0:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "config.json").write_text(dump(config), encoding="utf-8")

    def run(self, *, until: int | None = None) -> list[float]:
        """Train to the last step, to ``until`` or to the limit in minutes, with checkpoints.

        Returns the losses of these steps. What was measured since is a line on stderr every
        ``run.log_every`` steps. Ctrl-C ends it after a step, whose state is saved.
        """
        last = min(until or self.config.optim.steps, self.config.optim.steps)
        losses: list[float] = []
        self._began = self._saved = time.monotonic()
        whole = False
        # Ranks that end after different steps would wait for each other.
        alone = self.ranks.world == 1
        waiting = waiting_interrupt() if alone else contextlib.nullcontext(lambda: False)
        with waiting as interrupted:
            try:
                while self.step < last and not self._out_of_time() and not interrupted():
                    self._tasks_before = self.tasks.state()
                    loss, is_due = self._one_step()
                    losses.append(loss)
                    if self.step % self.config.run.log_every == 0:
                        self._log()
                    if is_due:
                        self.save()
                whole = True
            finally:
                self.prefetcher.close()
                # A step that failed is taken again from its first batch. Other ranks may be gone,
                # which shards cannot be saved without.
                if whole:
                    self.save(with_model=True)
                elif not (self._in_update or self.parallel.saves_together):
                    self.save(with_model=True, tasks=self._tasks_before)
        if interrupted():
            raise KeyboardInterrupt
        self.ranks.gather(None)  # the next stage begins with what rank 0 has saved
        return losses

    def save(self, *, with_model: bool = False, tasks: dict[str, Any] | None = None) -> None:
        """Write the train state, the model as it would be shipped, and the plot of the losses.

        The model of a sharded run only where ``with_model`` is true. ``tasks`` is the state of the
        tasks, where it is not that of now. Where the ranks do not save together, nothing here waits
        for others, which may have failed.
        """
        tasks = self.tasks.state() if tasks is None else tasks
        extra = {"step": self.step, "tasks": tasks, "settings": self._settings()}
        self.parallel.save(self.folder / "state", self.optimizer, extra)
        if with_model:
            self.parallel.finish()
        if with_model or not self.parallel.saves_together:
            self._save_model()
        if self.ranks.rank == 0 and self.metrics.path.exists():
            plot(self.folder)
        self._saved = time.monotonic()

    def _save_model(self) -> None:
        model = self.parallel.whole_model()
        if model is None:
            return
        if self.config.optim.average and self.step >= self.config.optim.steps:
            model = averaged(model, self.config.optim.average)
        save_model(model, self.tokenizer, self.folder / "model")
        if self.config.run.reader_bits and self.step >= self.config.optim.steps:
            pack_reader(self.folder / "model", self.config.run.reader_bits)

    def _out_of_time(self) -> bool:
        """Return whether the limit in minutes is over, by the clock of rank 0.

        All ranks must stop before the same step.
        """
        limit = self.config.run.limit_minutes
        if limit is None:
            return False
        return bool(self.ranks.gather(time.monotonic() - self._began)[0] > limit * 60)

    def _settings(self) -> dict[str, Any]:
        """Return what a resumed run is compared by."""
        settings = settings_of(self.config)
        del settings["model"]  # as it was written; compared is what it was resolved to
        return settings | settings_of(self.model.config, "model.")

    def _one_step(self) -> tuple[float, bool]:
        """Take a step on the mean gradient of ``optim.accumulate`` batches; return their loss.

        The second result is whether a checkpoint is due on all ranks.
        """
        config = self.config.optim
        self.rate = set_rate(self.optimizer, config, self.step)
        total = torch.zeros(2, dtype=torch.float64, device=self.device)  # loss, whether to save
        self.parallel.begin_step()
        for part in range(config.accumulate):
            number = self.step * config.accumulate + part
            if part % self.ranks.world != self.ranks.rank:
                self.tasks.skip(random.Random(self._seed(number)))
                continue
            seeds = self._seeds(number)
            drawn = self.prefetcher.draw(seeds[0], seeds[1:])
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
                loss, values = self.tasks.loss(self.model, drawn)
            (loss / config.accumulate).backward()
            self.metrics.add(**values)
            total[0] += float(loss.detach()) / config.accumulate
        # The clock of rank 0 counts: ranks that save together must do it before the same step.
        if self.ranks.rank == 0:
            total[1] = time.monotonic() - self._saved > self.config.run.minutes * 60
        self.ranks.add(total)
        self.parallel.reduce_gradients(self.optimizer)
        norm = self.parallel.clip(self.optimizer, config.clip)
        self._in_update = True
        if math.isfinite(norm):  # else the step is left out, and the norm in the log says so
            self.optimizer.step()
        self.step += 1
        self._tasks_before = self.tasks.state()
        self._in_update = False
        self.metrics.add(norm=norm)
        self.optimizer.zero_grad(set_to_none=True)
        return float(total[0]), bool(total[1])

    def _log(self) -> None:
        """Write the means over all ranks since the last line, and print them on stderr."""
        self.metrics.merge(self.ranks.gather(self.metrics.sums))
        if self.ranks.rank:
            self.metrics.clear()
            return
        row = self.metrics.write(self.step, lr=self.rate)
        report(" ".join(f"{k}={v:.4g}" for k, v in row.items()))

    def _seeds(self, first: int) -> list[str]:
        """Return the seeds of batch number ``first`` of the stage and of those to make ahead.

        Only of this rank's batches: those whose number in their step is ``rank``, ``rank + world``
        and so on.
        """
        parts = self.config.optim.accumulate
        numbers = (
            number
            for number in itertools.count(first)
            if number % parts % self.ranks.world == self.ranks.rank
        )
        following = itertools.islice(numbers, self.prefetcher.depth + 1)
        last = self.config.optim.steps * parts
        return [self._seed(number) for number in following if number == first or number < last]

    def _seed(self, number: int) -> str:
        """Return the seed of a batch by its number in the stage."""
        parts = self.config.optim.accumulate
        return f"{self.config.run.seed}/{number // parts}/{number % parts}"

    def _expect_equal_ranks(self) -> None:
        states = self.ranks.gather((self.step, self.parallel.check_sums()))
        for rank, state in enumerate(states):
            if state != states[0]:
                raise ConfigError(
                    f"rank {rank} starts from other parameters or another step than rank 0; "
                    "every rank must see the same files and the same run.out"
                )
