"""Which chunks a DRT reads in an evaluation: its own choice, or another that it is compared with.

``oracle`` reads the chunks that share most rare trigrams with the next one, which it looks ahead
for; what a model loses with it beside its own choice is lost in choosing, and the rest in reading.
A model's scores weigh the chunks of every choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

from drt_engine.errors import ConfigError
from drt_engine.model.frozen import Ranking, random_ranking, recent_ranking
from drt_lab.data.far_copies import SharedTrigrams

Choice = Literal["own", "none", "random", "recent", "oracle"]
OWN: Choice = "own"
BASELINES: tuple[Choice, ...] = ("none", "random", "recent", "oracle")
NAMES: dict[Choice, str] = {
    "own": "own choice",
    "none": "no retrieval",
    "random": "random chunks",
    "recent": "recent chunks",
    "oracle": "oracle chunks",
}


@dataclass(frozen=True)
class Reading:
    """How a DRT reads a stream: ``ranking`` chooses in place of its scores."""

    retrieval: bool = True
    ranking: Ranking | None = None


def reading(choice: Choice, ids: Sequence[int], chunk: int) -> Reading:
    """Return how the stream of token ``ids`` is read by a choice; the oracle has seen all of it."""
    if choice == "oracle":
        return Reading(ranking=SharedTrigrams(ids, chunk).ranking)
    rankings: dict[Choice, Ranking] = {"random": random_ranking, "recent": recent_ranking}
    return Reading(retrieval=choice != "none", ranking=rankings.get(choice))


def as_choices(names: Sequence[str]) -> tuple[Choice, ...]:
    """Return choices by name; ``ConfigError`` for one that there is not, or twice."""
    for name in names:
        if name not in get_args(Choice):
            raise ConfigError(
                f"choices has {name!r}, expected some of {', '.join(get_args(Choice))}"
            )
    if len(set(names)) < len(names):
        raise ConfigError(f"choices are {', '.join(names)}, expected each once")
    return cast("tuple[Choice, ...]", tuple(names))
