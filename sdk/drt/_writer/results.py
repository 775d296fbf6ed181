"""What a writer is, and what it wrote: frozen dataclasses of plain values.

Annotations are evaluated here: they are resolved in the namespace of ``drt``.
"""

from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from .._errors import ConfigError
from .._plugins import plugin_names
from .._types import Answer, Citation

WritingState = Literal["written", "partly", "unsupported", "no answer", "failed"]
NO_ANSWER = "NO ANSWER"  # what a writer is asked to write where there is none


class WriterError(Exception):
    """A writer gave no text, or not all of it; the message is the end of a sentence."""


@dataclass(frozen=True)
class WriterOptions:
    """An endpoint that speaks OpenAI's chat completions, and how it is used.

    url: such as ``http://localhost:11434/v1``, or the name of a plug-in's writer. model: the name
    that it knows its model by; a plug-in may need none. key: sent as the bearer token. strict:
    leave out sentences that the passages do not support, instead of marking them. timeout: seconds
    for the whole answer. sentences: how many retrieved sentences it is given.
    """

    url: str
    model: str = ""
    key: str | None = field(default=None, repr=False)
    strict: bool = False
    timeout: float = 60.0
    sentences: int = 24

    def __post_init__(self) -> None:
        try:
            place = urlsplit(self.url)
            is_address = place.scheme in ("http", "https") and bool(place.hostname)
        except ValueError:
            is_address = False
        if not is_address and (not self.plugin or self.plugin not in plugin_names("writer")):
            raise ConfigError(
                f"the writer is {self.url!r}, expected an address such as"
                " http://localhost:11434/v1, or the name of a plug-in that drt plugins lists."
            )
        if is_address and not self.model:
            raise ConfigError("the writer's model has no name; give the one that it is known by.")
        if self.timeout <= 0 or not 1 <= self.sentences <= 200:
            raise ConfigError(
                f"the writer's timeout is {self.timeout:g} and it gets {self.sentences} sentences;"
                " expected more than 0, and 1 to 200."
            )

    @property
    def plugin(self) -> str:
        """The name of a plug-in's writer; empty for an address."""
        return "" if ":" in self.url or "/" in self.url else self.url

    @property
    def host(self) -> str:
        """The machine that text is sent to, or the plug-in that gets it."""
        if self.plugin:
            return f"plug-in {self.plugin}"
        return urlsplit(self.url).netloc.rpartition("@")[2]


@dataclass(frozen=True)
class WrittenSentence:
    """A sentence of the writer: ``problem`` says why it is not supported, empty where it is.

    ``sources`` are the numbers that it names, of the ``sources`` of its ``WrittenAnswer``.
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
class WrittenAnswer:
    """What a writer made of an answer; ``answer`` is drt's own, with its quotes.

    ``state``: "written" (every sentence is supported), "partly", "unsupported" (none is), "no
    answer" (the writer says that the passages hold none) or "failed", of which ``problem`` says
    why. ``sources`` are citations by the numbers that the sentences name.
    """

    answer: Answer
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
        """Return the answer as in the JSON of ``ask``, with ``writing``."""
        writing = {
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
        return self.answer.to_dict() | {"writing": writing}


for _value in (WriterOptions, WrittenSentence, WrittenAnswer):
    _value.__module__ = "drt"  # where users import them from
