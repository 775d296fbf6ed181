"""Passkeys in token space: contexts of random symbols whose question asks for hidden symbols."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_engine.model.protocol import LanguageModel
from drt_lab.data.passkeys import PasskeyContext, PasskeyLayout, stack_contexts
from drt_lab.lm.losses import next_token_targets, stream_loss, token_losses
from drt_lab.train.tasks.base import Task, TaskSetup

_LIKELY = 0.693  # nats of loss below which a token has more than half of the probability


@dataclass(frozen=True)
class PasskeyBatch:
    """Token ids ``chunks`` [B, C, S]; each row's last chunk begins with its answer."""

    chunks: Tensor

    def to(self, device: torch.device) -> PasskeyBatch:
        """Return the batch on a device."""
        return PasskeyBatch(self.chunks.to(device))


class PasskeyTask(Task[PasskeyBatch]):
    """Passkeys in contexts of some chunks (``config.passkey``)."""

    any_model = True

    def __init__(self, setup: TaskSetup) -> None:
        self.config = setup.config.passkey
        self.share = self.config.share
        self.layout = PasskeyLayout(
            vocab=setup.model.vocab,
            chunk=setup.model.chunk,
            answer=self.config.answer,
            hops=2 if self.config.two_hops else 1,
            noise=self.config.noise,
            offset=self.config.offset,
            asks=2 if self.config.landmark else 1,
        )
        if self.config.landmark and setup.model.architecture != "drt":
            raise ConfigError(
                f"passkey.landmark is {self.config.landmark}, expected 0 for the architecture "
                f"{setup.model.architecture!r}, whose landmarks retrieve nothing"
            )

    def draw(self, rng: random.Random) -> PasskeyBatch:
        """Draw a length and ``config.batch`` contexts of it."""
        chunks = rng.choice(self.config.chunks)
        return PasskeyBatch(
            stack_contexts(
                [
                    PasskeyContext(self._drawn_layout(rng), chunks, seed=rng.getrandbits(62))
                    for _ in range(self.config.batch)
                ]
            )
        )

    def _drawn_layout(self, rng: random.Random) -> PasskeyLayout:
        """Return the layout of one context, of two hops or of links for their shares."""
        layout = self.layout
        if layout.hops == 2 and rng.random() >= self.config.two_hops:
            # Named, as all passkeys of a stage with two hops are.
            layout = replace(layout, hops=1, noise=max(1, layout.noise))
        if layout.hops == 1 and self.config.links:
            return replace(layout, links=rng.random() < self.config.links)
        return layout

    def loss(
        self, model: LanguageModel, batch: PasskeyBatch, generator: torch.Generator | None
    ) -> tuple[Tensor, dict[str, float]]:
        """Return the loss of the answers, with that of all other tokens at ``config.lm_loss``."""
        chunks = batch.chunks
        valid = torch.ones_like(chunks, dtype=torch.bool)
        about_landmark = None
        if self.config.landmark:
            states = model(chunks, valid, generator=generator)
            targets, mask = next_token_targets(chunks, valid)
            losses = token_losses(states[mask], model.embedding.weight, targets[mask])
            last = states[:, -2, -1]
            about_landmark = token_losses(last, model.embedding.weight, chunks[:, -1, 1]).mean()
        else:
            losses, mask = stream_loss(model, chunks, valid, generator=generator)
        # The token before each symbol of the answer predicts it; the first is the key marker.
        is_answer = torch.zeros_like(mask)
        is_answer[:, -1, : self.layout.answer] = True
        answers = losses[is_answer[mask]].view(-1, self.layout.answer)
        loss = answers.mean()
        likely = (answers.detach() < _LIKELY).all(dim=1).float().mean()
        values = {"passkey": float(loss.detach()), "passkey_likely": float(likely)}
        if about_landmark is not None:
            loss = loss + self.config.landmark * about_landmark
            values["passkey_landmark"] = float(about_landmark.detach())
        if self.config.lm_loss:
            loss = loss + self.config.lm_loss * losses[~is_answer[mask]].mean()
        return loss, values
