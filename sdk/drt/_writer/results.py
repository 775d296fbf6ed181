"""What a writer is, and what it wrote: frozen dataclasses of plain values.

Annotations are evaluated here: they are resolved in the namespace of ``drt``.
"""

from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit

from .._errors import ConfigError
from .._plugins import plugin_names
from .._types import Answer, Citation, WritingState, WrittenSentence, WrittenText

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
        return self.writing.text

    @property
    def writing(self) -> WrittenText:
        """What was written, without the answer: as the turn of a conversation keeps it."""
        values = {name: getattr(self, name) for name in _WRITTEN}
        return WrittenText(**values)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as in the JSON of ``ask``, with ``writing``."""
        return self.answer.to_dict() | {"writing": self.writing.to_dict()}


_WRITTEN = tuple(field.name for field in fields(WrittenText))
for _value in (WriterOptions, WrittenAnswer):
    _value.__module__ = "drt"  # where users import them from
