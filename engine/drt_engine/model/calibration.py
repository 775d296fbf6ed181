"""From evidence features of the model to a calibrated confidence.

Plain numbers; knows nothing of tensors or documents.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

_EXTREME = 60.0  # scores beyond are all alike, and infinite ones cannot be fitted


class Signals(NamedTuple):
    """Evidence features for answerability: log-odds and scores from the model.

    ``span``: best span against the null; ``retrieval``: best retrieval score of a chunk;
    ``relevance``: best reranker score of the reader pass; ``null``: minus the null logit;
    ``each``: minus the mean of the per-chunk null logits.
    """

    span: float
    retrieval: float = 0.0
    relevance: float = 0.0
    null: float = 0.0
    each: float = 0.0

    def bounded(self) -> Signals:
        """Return the features clipped to the range that can be fitted."""
        return Signals(*(max(-_EXTREME, min(_EXTREME, value)) for value in self))


NO_EVIDENCE = Signals(float("-inf"))


@dataclass(frozen=True)
class Calibration:
    """Logistic regression over ``Signals``.

    ``scale`` is the weight of the span, ``shift`` the bias. An answer counts as
    found from the confidence ``threshold`` on.
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
