"""DRT as the paper writes it (arXiv 2410.01651, section 3), one token, head and chunk at a time.

Shares nothing with the project but the names of parameters and of settings. Everything is in the
type of the parameters; with float64 it is what the model is measured by. Letters as in the paper:
``h`` hidden state of a landmark token, ``l`` landmark, ``r`` relevance score, ``w`` weight of a
retrieved chunk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from drt_engine.config.model import ModelConfig


@dataclass(frozen=True)
class Memory:
    """What upper layers see of one chunk: ``keys`` and ``values`` [Hk, D] of each token, and the
    ``landmark`` [E].
    """

    keys: list[Tensor]
    values: list[Tensor]
    landmark: Tensor


@dataclass
class Retrievals:
    """By group and chunk t: ``scores`` r of the chunks before t, which of them were ``chosen``,
    best first, and their ``weights``.
    """

    scores: dict[tuple[int, int], list[Tensor]] = field(default_factory=dict)
    chosen: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    weights: dict[tuple[int, int], list[Tensor]] = field(default_factory=dict)


class PaperModel:
    """The equations, on a model's parameters by name."""

    def __init__(self, config: ModelConfig, parameters: Mapping[str, Tensor]) -> None:
        self.config, self.parameters = config, parameters
        # A number for group, query chunk and chunk that replaces the score in the choice, and the
        # scores of a retriever that is not learnt.
        self.ranking: Callable[[int, int, int], float] | None = None
        self.frozen_scores: Tensor | None = None
        self.size = config.width // config.heads

    def weight(self, name: str) -> Tensor:
        return self.parameters[name + ".weight"]

    def states(
        self, chunks: Sequence[Sequence[int]], noise: Tensor | None = None
    ) -> tuple[list[Tensor], Retrievals]:
        """Chunks of token ids, a landmark after each -> the state of every slot, and what was
        retrieved. ``noise`` [G, C, C] is added to the scores for the choice alone.
        """
        config = self.config
        slots = config.chunk + 1
        ids = [token for chunk in chunks for token in [*chunk, config.landmark_id]]
        x = [self.weight("embedding")[token] for token in ids]
        for layer in range(config.lower_layers):
            x = self.lower_layer(x, f"lower.{layer}.")
        memory = [self._encode(x[at : at + slots]) for at in range(0, len(x), slots)]
        retrievals = Retrievals()
        per_group = config.upper_layers // config.groups
        for layer in range(config.upper_layers):
            group = layer // per_group
            if layer % per_group == 0:  # once a group, from the states that enter it
                for t in range(len(chunks)):
                    border = x[t * slots + config.chunk]
                    self._retrieve(retrievals, group, t, border=border, memory=memory, noise=noise)
            x = self._upper_layer(x, f"upper.{layer}.", group, memory, retrievals)
        return [self.norm(state, "norm") for state in x], retrievals

    def loss(self, states: Sequence[Tensor], chunks: Sequence[Sequence[int]]) -> Tensor:
        """The mean loss of every next token; landmarks neither predict nor are predicted."""
        tokens = [token for chunk in chunks for token in chunk]
        losses = []
        for place, target in enumerate(tokens[1:]):
            chunk, slot = divmod(place, self.config.chunk)
            logits = self.weight("embedding") @ states[chunk * (self.config.chunk + 1) + slot]
            losses.append(logits.exp().sum().log() - logits[target])
        return torch.stack(losses).mean()

    def lower_layer(self, x: list[Tensor], name: str) -> list[Tensor]:
        x = self.add_attention(x, name)
        return [state + self.mlp(self.norm(state, name + "norm"), name + "mlp") for state in x]

    def _upper_layer(
        self, x: list[Tensor], name: str, group: int, memory: list[Memory], past: Retrievals
    ) -> list[Tensor]:
        """Self-attention, then grouped cross-attention to what the chunk before retrieved."""
        x = self.add_attention(x, name)
        out = []
        for slot, state in enumerate(x):
            t = slot // (self.config.chunk + 1)
            read = torch.zeros_like(state)
            if t > 0:
                chosen, weights = past.chosen[group, t - 1], past.weights[group, t - 1]
                chunks = [memory[k] for k in chosen]
                read = self.cross_attend(state, name + "gca.", chunks, weights)
            after = state + read
            kept = after if self.config.gca_output == "residual" else state
            out.append(kept + self.mlp(self.norm(after, name + "norm"), name + "mlp"))
        return out

    def _retrieve(
        self,
        past: Retrievals,
        group: int,
        t: int,
        *,
        border: Tensor,
        memory: list[Memory],
        noise: Tensor | None,
    ) -> None:
        """``r_t^k = (W_h h_t)^T (W_l l_k) / sqrt(d)`` for k < t; the best K, softmax over them."""
        if self.config.query_norm:
            border = self.norm(border, f"scorer.query_norm.{group}")
        query = self.weight(f"scorer.state_query.{group}") @ border
        scores = []
        for k, chunk in enumerate(memory[:t]):
            r = query @ (self.weight("scorer.key") @ chunk.landmark) / math.sqrt(self.config.width)
            if self.frozen_scores is not None:
                r = self.frozen_scores[t, k]
            elif r.requires_grad:
                r.retain_grad()
            scores.append(r)
        added = [0.0] * t if noise is None else noise[group, t].tolist()
        order = sorted(range(t), key=lambda k: -(scores[k].item() + added[k]))
        if self.ranking is not None:
            order = sorted(range(t), key=lambda k: -self.ranking(group, t, k))  # type: ignore[misc]
        chosen = order[: self.config.retrieved]
        past.scores[group, t], past.chosen[group, t] = scores, chosen
        past.weights[group, t] = softmax([scores[k] for k in chosen])

    def cross_attend(
        self, state: Tensor, name: str, chunks: list[Memory], weights: list[Tensor]
    ) -> Tensor:
        """``sum_k w_k Softmax+1(Q K_k^T / sqrt(d)) V_k``, a softmax of its own for each chunk."""
        config = self.config
        share = _softmax_plus_one if config.gca_softmax == "off-by-one" else softmax
        query = self.weight(name + "query") @ self.norm(state, name + "norm")
        heads = []
        for head in range(config.heads):
            shared = head // (config.heads // config.kv_heads)
            out = torch.zeros(self.size, dtype=state.dtype)
            for chunk, w in zip(chunks, weights, strict=True):
                keys = [key[shared] for key in chunk.keys]
                values = [value[shared] for value in chunk.values]
                out = out + w * self.attend(self._head(query, head), keys, values, share=share)
            heads.append(out)
        return self.weight(name + "out") @ torch.cat(heads)

    def _encode(self, slots: list[Tensor]) -> Memory:
        """The bidirectional encoder of one chunk with its landmark; positions count from 1."""
        encoder = self.config.encoder
        x = [s + self.weight("encoder.positions")[i + 1] for i, s in enumerate(slots)]
        for layer in range(encoder.layers):
            name = f"encoder.blocks.{layer}."
            thirds = [
                (self.weight(name + "attention.qkv") @ self.norm(s, name + "attention_norm"))
                .view(3, encoder.heads, -1)
                .unbind()
                for s in x
            ]
            added = []
            for query, _, _ in thirds:
                heads = [
                    self.attend(query[h], [k[h] for _, k, _ in thirds], [v[h] for *_, v in thirds])
                    for h in range(encoder.heads)
                ]
                added.append(self.weight(name + "attention.out") @ torch.cat(heads))
            x = [state + more for state, more in zip(x, added, strict=True)]
            x = [s + self.mlp(self.norm(s, name + "mlp_norm"), name + "mlp") for s in x]
        x = [self.norm(state, "encoder.output_norm") for state in x]
        maps = [self.weight("memory_map") @ state for state in x[:-1]]
        both = [m.view(2, self.config.kv_heads, self.size) for m in maps]
        return Memory([keys for keys, _ in both], [values for _, values in both], x[-1])

    def add_attention(self, x: list[Tensor], name: str) -> list[Tensor]:
        """Causal attention to the last W tokens, itself one of them, with ALiBi."""
        config, name = self.config, name + "attention."
        parts = [self.project(state, name) for state in x]
        out = []
        for i, state in enumerate(x):
            window = range(max(0, i - config.window + 1), i + 1)
            heads = []
            for head in range(config.heads):
                shared = head // (config.heads // config.kv_heads)
                slope = 2.0 ** (-8 * (head + 1) / config.heads)
                heads.append(
                    self.attend(
                        parts[i][0][head],
                        [parts[j][1][shared] for j in window],
                        [parts[j][2][shared] for j in window],
                        bias=[-slope * (i - j) for j in window],
                    )
                )
            out.append(state + self.weight(name + "out") @ torch.cat(heads))
        return out

    def project(self, state: Tensor, name: str) -> tuple[Tensor, ...]:
        """Query [H, D], keys and values [Hk, D] of one token."""
        groups = [self.config.heads, self.config.kv_heads, self.config.kv_heads]
        heads = self.weight(name + "qkv") @ self.norm(state, name + "norm")
        return heads.view(-1, self.size).split(groups)

    @staticmethod
    def attend(
        query: Tensor,
        keys: Sequence[Tensor],
        values: Sequence[Tensor],
        *,
        bias: Sequence[float] | None = None,
        share: Callable[[Sequence[Tensor]], list[Tensor]] | None = None,
    ) -> Tensor:
        """One head's query [D] over some keys [D]: the mean of the values by the softmax."""
        added = bias or [0.0] * len(keys)
        scores = [
            query @ key / math.sqrt(len(query)) + b for key, b in zip(keys, added, strict=True)
        ]
        shares = (share or softmax)(scores)
        return torch.stack([a * value for a, value in zip(shares, values, strict=True)]).sum(dim=0)

    def _head(self, x: Tensor, head: int) -> Tensor:
        return x[head * self.size : (head + 1) * self.size]

    def norm(self, x: Tensor, name: str) -> Tensor:
        return x / ((x * x).mean() + 1e-5).sqrt() * self.weight(name)

    def mlp(self, x: Tensor, name: str) -> Tensor:
        gate, up = (self.weight(name + ".gate_up") @ x).chunk(2)
        return self.weight(name + ".down") @ (gate / (1 + (-gate).exp()) * up)


def softmax(scores: Sequence[Tensor]) -> list[Tensor]:
    exponentials = [score.exp() for score in scores]
    return [e / torch.stack(exponentials).sum() for e in exponentials]


def _softmax_plus_one(scores: Sequence[Tensor]) -> list[Tensor]:
    """``exp(s_i) / (1 + sum_j exp(s_j))``: a chunk without anything of use can be left alone."""
    exponentials = [score.exp() for score in scores]
    return [e / (1 + torch.stack(exponentials).sum()) for e in exponentials]
