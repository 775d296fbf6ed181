"""Cross-encoder that reads a question and a passage together and points at the answer.

A BERT-like encoder over ``begin question separator passage separator`` (Devlin et al. 2019, section
4.2), where ``context separator`` may stand before the passage: the title and the headings above it.
The logits of all passages of one question are normalised together, with one null logit for
each passage (Clark and Gardner 2018), so passages compete and "not here" is one of the choices.
Knows nothing of text or libraries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from drt_engine.config.model import ANSWER_TYPES, ModelConfig, ReaderConfig
from drt_engine.model.chunk_encoder import BertBlock

_PAIRS = 16  # encoded at a time: their activations stay in the processor's cache
_PAIRS_ON_GPU = 512  # enough to fill it
_FARTHEST = 128  # tokens: distances beyond share a bucket


@dataclass(frozen=True)
class PairTokens:
    """Pairs of question and passage as token ids, each array [P, T].

    ``segments``: 0 for the question, 1 for context and passage; ``valid``: not padding;
    ``passage``: the tokens that an answer may hold.
    """

    ids: Tensor
    segments: Tensor
    valid: Tensor
    passage: Tensor

    def to(self, device: torch.device) -> PairTokens:
        """Return the same on ``device``."""
        return PairTokens(*(t.to(device) for t in vars(self).values()))


@dataclass(frozen=True)
class PairLogits:
    """Logits of P pairs, in fp32.

    ``start``, ``end`` [P, T] are -inf outside the passage; ``null`` [P, 2]: logits of no start and
    of no end in this passage; ``types`` [P, len(ANSWER_TYPES)]; ``verdict`` [P, 2]: no, yes.
    """

    start: Tensor
    end: Tensor
    null: Tensor
    types: Tensor
    verdict: Tensor


class LogitMap(nn.Linear):
    """Linear map to logits, in fp32 whatever the compute type."""

    keeps_fp32 = True

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__(width, outputs)
        nn.init.normal_(self.weight, std=0.3 * width**-0.5)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map [.., E] to logits [.., outputs], fp32."""
        with torch.autocast(x.device.type, enabled=False):
            return F.linear(x.float(), self.weight, self.bias)


class DistanceBias(nn.Module):
    """Biases of attention by the distance of tokens, as in MPNet and T5 (arXiv 1910.10683, 2.1).

    Half of the buckets are for tokens behind, half for those before; of each half again the first
    half are single distances, and the others grow with the distance, up to 128 tokens. Nothing is
    learnt here: the gradient of such a bias needs as much memory as all attention weights.
    """

    def __init__(self, buckets: int, heads: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(buckets, heads), requires_grad=False)

    def forward(self, length: int) -> Tensor:
        """Return what is added to attention scores of ``length`` tokens, [1, heads, T, T]."""
        table = self.table.detach()
        places = torch.arange(length, device=table.device)
        ahead = places[None, :] - places[:, None]  # [T, T], from query to key
        half = len(table) // 2
        single = half // 2
        distance = ahead.abs().clamp(min=1).float()
        grown = (distance / single).log() / math.log(_FARTHEST / single) * (half - single)
        bucket = torch.where(ahead.abs() < single, ahead.abs(), single + grown.long())
        bucket = bucket.clamp(max=half - 1) + (ahead > 0) * half
        return table[bucket].permute(2, 0, 1)[None]


class SpanReader(nn.Module):
    """Encoder and output maps of the reader.

    Word embeddings are the model's, or with ``config.width`` its own.
    """

    def __init__(self, config: ReaderConfig, model: ModelConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width or model.width
        self.words: nn.Embedding | None = None
        if config.width:
            self.words = nn.Embedding(model.vocab, width)
            nn.init.normal_(self.words.weight, std=0.02)
        self.distances = DistanceBias(config.buckets, config.heads) if config.buckets else None
        self.positions = nn.Embedding(config.positions, width)
        self.segments = nn.Embedding(2, width)
        for table in (self.positions, self.segments):
            nn.init.normal_(table.weight, std=0.02)
        self.input_norm = nn.LayerNorm(width, 1e-12)
        self.blocks = nn.ModuleList(
            BertBlock(width, config.heads, config.mlp) for _ in range(config.layers)
        )
        self.span = LogitMap(width, 2)
        self.types = LogitMap(width, len(ANSWER_TYPES))
        self.verdict = LogitMap(width, 2)

    def forward(
        self,
        words: nn.Embedding,
        pairs: PairTokens,
        *,
        dropout: float = 0.0,
        note_batch: Callable[[list[int]], None] | None = None,
    ) -> PairLogits:
        """Read P pairs with the model's word embeddings ``words``; ``dropout`` is for training.

        ``note_batch`` is called after each batch, with the numbers of its pairs.
        """
        words = words if self.words is None else self.words
        # Pairs of like length are encoded together, so that little of the work is padding.
        lengths = pairs.valid.sum(dim=1)
        order = lengths.argsort(stable=True)
        spans: list[Tensor] = []  # span logits [rows, T, 2] of each batch of pairs
        firsts: list[Tensor] = []  # states of the begin token [rows, E], which represent the pair
        total = pairs.ids.shape[1]
        for rows in order.split(_PAIRS_ON_GPU if order.is_cuda else _PAIRS):
            longest = int(lengths[rows].max())
            states = self._encode(
                words,
                pairs.ids[rows, :longest],
                pairs.segments[rows, :longest],
                pairs.valid[rows, :longest],
                dropout,
            )
            span = self.span(states)  # [rows, longest, 2]
            spans.append(F.pad(span, (0, 0, 0, total - longest)))
            firsts.append(states[:, 0])
            if note_batch is not None:
                note_batch(rows.tolist())
        back = order.argsort()
        logits, first = torch.cat(spans)[back], torch.cat(firsts)[back]
        # An answer may hold only passage tokens; the begin token's own logits are the null logits.
        hidden = ~pairs.passage
        return PairLogits(
            logits[..., 0].masked_fill(hidden, float("-inf")),
            logits[..., 1].masked_fill(hidden, float("-inf")),
            logits[:, 0],
            self.types(first),
            self.verdict(first),
        )

    def _encode(
        self, words: nn.Embedding, ids: Tensor, segments: Tensor, valid: Tensor, dropout: float
    ) -> Tensor:
        """Encode token ids [N, T] -> states [N, T, E]."""
        x: Tensor = words(ids) + self.positions.weight[: ids.shape[1]] + self.segments(segments)
        x = self.input_norm(x)
        if torch.is_autocast_enabled(x.device.type):  # norms of fp32 weights give fp32
            x = x.to(torch.get_autocast_dtype(x.device.type))
        bias = torch.zeros(valid.shape, dtype=x.dtype, device=x.device)
        bias = bias.masked_fill(~valid, torch.finfo(x.dtype).min / 2)[:, None, None, :]
        if self.distances is not None:
            bias = bias + self.distances(ids.shape[1]).to(x.dtype)  # [N, heads, T, T]
        for block in self.blocks:
            x = block(x, bias, dropout=dropout)
        return x


def context_ids(config: ReaderConfig, title: Sequence[int], section: Sequence[int]) -> list[int]:
    """Return what stands in front of a passage: the begin of the title, the end of the section.

    ``title`` and ``section`` are token ids; a third of ``config.context`` is the title's.
    """
    ids = list(title[: config.context // 3])
    room = config.context - len(ids)
    return ids + list(section[-room:] if room else ())


def pack_pairs(
    config: ReaderConfig,
    questions: Sequence[list[int]],
    passages: Sequence[list[int]],
    *,
    contexts: Sequence[list[int]] = (),
    pad_id: int,
) -> tuple[PairTokens, list[int]]:
    """Return pairs of question and passage token ids, and where each passage starts in its row.

    ``contexts`` are token ids in front of the passages, which no answer may hold; none named means
    none anywhere.
    """
    # An empty context needs no separator of its own.
    contexts = contexts or [[]] * len(passages)
    fronts = [[*ids, config.separator_id] if ids else [] for ids in contexts]
    offsets = [len(q) + 2 + len(f) for q, f in zip(questions, fronts, strict=True)]
    lengths = [o + len(p) + 1 for o, p in zip(offsets, passages, strict=True)]
    shape = (len(questions), max(lengths, default=0))
    ids = torch.full(shape, pad_id)
    segments = torch.zeros(shape, dtype=torch.long)
    valid, inside = (torch.zeros(shape, dtype=torch.bool) for _ in range(2))
    for row, (question, front, passage) in enumerate(zip(questions, fronts, passages, strict=True)):
        head = [config.begin_id, *question, config.separator_id]
        tokens = [*head, *front, *passage, config.separator_id]
        ids[row, : len(tokens)] = torch.tensor(tokens)
        segments[row, len(head) : len(tokens)] = 1
        valid[row, : len(tokens)] = True
        inside[row, offsets[row] : len(tokens) - 1] = True
    return PairTokens(ids, segments, valid, inside), offsets
