"""What a writer wrote for one question: verified sentences, and the citations that they name."""

from dataclasses import dataclass
from typing import Any, Literal

from drt_engine.results import Citation

WritingState = Literal["written", "partly", "unsupported", "no answer", "failed"]


@dataclass(frozen=True)
class WrittenSentence:
    """A sentence of the writer: ``problem`` says why it is not supported, empty where it is.

    ``sources`` are the numbers that it names, of the ``sources`` of its ``WrittenText``.
    """

    text: str
    sources: tuple[int, ...]
    problem: str = ""

    @property
    def supported(self) -> bool:
        """Whether the passages that it names support it."""
        return not self.problem

    def to_dict(self) -> dict[str, Any]:
        """Return the sentence as plain values."""
        return {
            "text": self.text,
            "supported": self.supported,
            "sources": list(self.sources),
            "problem": self.problem,
        }


@dataclass(frozen=True)
class WrittenText:
    """What a writer wrote for one question, as the turn of a conversation keeps it.

    ``state``: "written" (every sentence is supported), "partly", "unsupported" (none is), "no
    answer" (the writer says that the passages hold none) or "failed", of which ``problem`` says
    why. ``sources`` are citations by the numbers that the sentences name.
    """

    state: WritingState
    sentences: tuple[WrittenSentence, ...]
    sources: dict[int, Citation]
    host: str
    model: str
    seconds: float
    problem: str = ""

    @property
    def text(self) -> str:
        """The sentences that are shown, joined."""
        return " ".join(sentence.text for sentence in self.sentences)

    def to_dict(self) -> dict[str, Any]:
        """Return the text as plain values."""
        return {
            "state": self.state,
            "text": self.text,
            "sentences": [sentence.to_dict() for sentence in self.sentences],
            "sources": [
                {"number": number} | citation.to_dict()
                for number, citation in sorted(self.sources.items())
            ],
            "host": self.host,
            "model": self.model,
            "seconds": self.seconds,
            "problem": self.problem,
        }
