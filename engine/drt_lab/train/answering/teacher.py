"""Landmarks of the warm start's own model, which ours are held near while the encoder learns.

Training for reading moves the encoder's states, and few questions teach retrieval in general:
without this, landmarks of unseen documents get worse while the losses fall (examples/LOG.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from drt_engine.config.model import ModelConfig
from drt_engine.model.drt import DRT
from drt_engine.model.warm_start import warm_start


class LandmarkTeacher:
    """The frozen warm start, reading ``[CLS] tokens [SEP]`` as it was trained to."""

    def __init__(self, folder: Path, config: ModelConfig) -> None:
        self.config = replace(config, lower_layers=0, upper_layers=config.groups)
        self.model = DRT(self.config).eval().requires_grad_(False)
        warm_start(self.model, folder)

    @torch.no_grad()
    def landmarks(self, ids: Tensor, valid: Tensor) -> Tensor:
        """Return mean encoder states [N, E], fp32, of token ids and which exist [N, S]."""
        # The warm start put [CLS] into the answer token and [SEP] into the landmark.
        first = torch.full_like(ids[:, :1], self.config.answer_id)
        last = torch.full_like(ids[:, :1], self.config.landmark_id)
        ids = torch.cat([first, ids, last], dim=1)
        valid = F.pad(valid, (1, 1), value=True)
        states: Tensor = self.model.encoder(self.model.embed(ids), valid)  # [N, S + 2, E]
        weight = valid[..., None].float()
        return (states.float() * weight).sum(dim=1) / weight.sum(dim=1)

    def questions(self, questions: Sequence[Sequence[int]]) -> Tensor:
        """Return the same for questions of token ids, [N, E]."""
        longest = max(len(q) for q in questions)
        ids = torch.full((len(questions), longest), self.config.pad_id)
        for row, question in enumerate(questions):
            ids[row, : len(question)] = torch.tensor(list(question))
        lengths = torch.tensor([len(q) for q in questions])
        valid = torch.arange(longest)[None] < lengths[:, None]
        device = self.model.embedding.weight.device
        return self.landmarks(ids.to(device), valid.to(device))


def distance(landmarks: Tensor, targets: Tensor) -> Tensor:
    """Return the mean of ``1 - cosine`` between landmarks and the teacher's, both [N, E]."""
    return 1 - F.cosine_similarity(landmarks.float(), targets, dim=-1).mean()
