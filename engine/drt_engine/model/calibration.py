"""How sure an answer is: what the model said about it, and the map from that to a confidence.

Plain numbers; knows nothing of tensors or documents.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

_EXTREME = 60.0  # scores beyond are all alike, and infinite ones cannot be fitted


class Signals(NamedTuple):
    """What speaks for "the document says it", each a log-odds or a score of the model.

    ``span``: best span against the null; ``retrieval``: best score of a chunk; ``relevance``: best
    score once the chunks were read again; ``null``: minus the null logit; ``each``: minus the mean
    of what the chunks that were read again add to it, each by itself.
    """

    span: float
    retrieval: float = 0.0
    relevance: float = 0.0
    null: float = 0.0
    each: float = 0.0

    def bounded(self) -> Signals:
        """The same within what can be fitted."""
        return Signals(*(max(-_EXTREME, min(_EXTREME, value)) for value in self))


NOTHING = Signals(float("-inf"))


@dataclass(frozen=True)
class Calibration:
    """Turns signals into a confidence, the sigmoid of their weighted sum; ``scale`` weighs the
    span.

    From ``threshold`` on, an answer counts as found.
    """

    scale: float = 1.0
    shift: float = 0.0
    threshold: float = 0.5
    retrieval: float = 0.0
    relevance: float = 0.0
    null: float = 0.0
    each: float = 0.0

    def confidence(self, signals: Signals) -> float:
        """Return the confidence, in 0..1."""
        span, retrieval, relevance, null, each = signals.bounded()
        z = self.scale * span + self.retrieval * retrieval + self.relevance * relevance
        z += self.null * null + self.each * each + self.shift
        return 1 / (1 + math.exp(-max(-_EXTREME, min(_EXTREME, z))))
