"""The step loop: tokens go through the lower and upper stacks with window caches; retrieval happens
at chunk borders.

Computes what ``DRT.forward`` computes, a few tokens at a time. Knows nothing of text or libraries:
a ``Source`` finds chunks.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from drt_engine.model.cache import WindowCache
from drt_engine.model.drt import DRT, Encoded, Span
from drt_engine.retrieval.sources import Found, Source

_TOKENS_AT_ONCE = 128  # room for new tokens in the ring buffers, beyond the window


class Decoder:
    """One stream of tokens being read and written, in chunks that are closed by a landmark."""

    def __init__(self, model: DRT, source: Source, *, dtype: torch.dtype = torch.float32) -> None:
        config = model.config
        self.model, self.source = model, source
        self.device = model.embedding.weight.device
        self.found: list[Found | None] = [None] * config.groups
        self.position = 0
        self._states: list[Tensor] = []  # lower-stack states of the open chunk
        sizes = (config.kv_heads, config.head_size)
        self.lower, self.upper = (
            WindowCache(
                layers,
                *sizes,
                window=config.window,
                room=max(_TOKENS_AT_ONCE, config.chunk),
                dtype=dtype,
                device=self.device,
            )
            for layers in (max(config.lower_layers, 1), config.upper_layers)
        )

    @property
    def open_tokens(self) -> int:
        """Tokens in the chunk that is being filled."""
        return sum(s.shape[1] for s in self._states)

    def feed(self, ids: Sequence[int], added: Tensor | None = None) -> Tensor:
        """Add tokens, closing every chunk that fills up before the next token; return upper states
        [T, E].

        ``added`` [T, E] is added to the tokens' states at the entry of the upper stack.
        """
        size, done, out = self.model.config.chunk, 0, []
        while done < len(ids):
            if self.open_tokens == size:
                self.close()
            count = min(size - self.open_tokens, len(ids) - done)
            part = None if added is None else added[done : done + count]
            out.append(self._advance(ids[done : done + count], part))
            done += count
        return torch.cat(out)

    def close(self, *, retrieve: bool = True) -> Encoded:
        """End the open chunk with a landmark: encode it, retrieve for the next chunk (unless told
        not to), and make it retrievable.
        """
        model, config = self.model, self.model.config
        lower = self._lower([config.landmark_id])
        states = torch.cat([*self._states, lower], dim=1)
        encoded = model.encode(
            states, torch.ones(states.shape[:2], dtype=torch.bool, device=self.device)
        )
        found: list[Found | None] = []

        def look(group: int, x: Tensor) -> None:
            query = model.scorer.queries(x[0, -1:], encoded.landmarks, group)[0]
            found.append(self.source.find(query, model.scorer) if retrieve else None)

        self._upper(lower, look)
        self.found = found
        self.source.add(model.remember(encoded))
        self._states = []
        return encoded

    def logits(self, states: Tensor) -> Tensor:
        """Upper states [T, E] -> next-token logits [T, V], fp32."""
        return self.model.logits(states).float()

    def _advance(self, ids: Sequence[int], added: Tensor | None) -> Tensor:
        lower = self._lower(ids)
        self._states.append(lower)
        x = lower if added is None else lower + added[None].to(lower.dtype)
        return self._upper(x, None)[0]

    def _lower(self, ids: Sequence[int]) -> Tensor:
        x = self.model.embed(torch.tensor([list(ids)], device=self.device))
        positions = torch.arange(self.position, self.position + len(ids), device=self.device)[None]
        self.position += len(ids)
        self.lower.begin(positions, torch.ones_like(positions, dtype=torch.bool))
        for number, layer in enumerate(self.model.lower):
            x = layer.step(x, positions, self.lower, number)  # type: ignore[operator]
        return x

    def _upper(self, x: Tensor, look: object) -> Tensor:
        config = self.model.config
        last = self.position
        positions = torch.arange(last - x.shape[1], last, device=self.device)[None]
        self.upper.begin(positions, torch.ones_like(positions, dtype=torch.bool))
        per_group = config.upper_layers // config.groups
        for group in range(config.groups):
            if callable(look):
                look(group, x)
            found = self.found[group]
            spans = [] if found is None else [Span(0, x.shape[1], found.retrieved)]
            for number in range(group * per_group, (group + 1) * per_group):
                layer = self.model.upper[number]
                x = layer.step(x, positions, self.upper, number, spans)  # type: ignore[operator]
        return self.model.norm(x)

    def state(self) -> dict[str, Tensor]:
        """Return the window, the open chunk and the position as tensors; retrieved memory is the
        session's to keep.
        """
        out = {f"lower.{k}": v for k, v in self.lower.state().items()}
        out |= {f"upper.{k}": v for k, v in self.upper.state().items()}
        out["position"] = torch.tensor(self.position)
        if self._states:
            out["open"] = torch.cat(self._states, dim=1)
        return out

    def load(self, state: dict[str, Tensor]) -> None:
        """Continue from what ``state`` returned."""
        for cache, name in ((self.lower, "lower."), (self.upper, "upper.")):
            cache.load({k.removeprefix(name): v for k, v in state.items() if k.startswith(name)})
        self.position = int(state["position"])
        self._states = [state["open"]] if "open" in state else []
