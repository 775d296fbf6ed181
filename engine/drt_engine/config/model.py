"""Shape and options of one model, and the presets by name; knows no tensors."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass, field, replace
from typing import Literal

from drt_engine.errors import ConfigError


@dataclass(frozen=True)
class EncoderConfig:
    """Shape of the chunk encoder.

    ``bert`` is post-norm LayerNorm and GELU with biases and learnt positions.
    """

    kind: Literal["llama", "bert"] = "llama"
    layers: int = 2
    heads: int = 12
    mlp: int = 2048
    positions: int = 512

    def __post_init__(self) -> None:
        _positive(
            "encoder", layers=self.layers, heads=self.heads, mlp=self.mlp, positions=self.positions
        )
        if self.kind not in ("llama", "bert"):
            raise ConfigError(f"encoder.kind is {self.kind!r}, expected 'llama' or 'bert'")


# What a question expects as its answer: the types that the reader is taught.
ANSWER_TYPES = (
    "who",
    "where",
    "when",
    "number",
    "what",
    "which",
    "definition",
    "why",
    "how",
    "yesno",
    "list",
    "compare",
)


@dataclass(frozen=True)
class ReaderConfig:
    """Shape of the cross-encoder that reads quotes off retrieved passages.

    ``margin``: tokens of each neighbouring chunk that a passage holds besides its own chunk;
    ``longest_question``: tokens of a question that are read, the last ones where it is longer;
    ``prior``: what the logarithm of a passage's retrieval probability counts beside its logits;
    ``context``: tokens of its document's title and section path in front of a passage (0: none);
    ``width``: of a reader with word embeddings of its own (0: the model's width and embeddings);
    ``buckets``: of distances between tokens, with a bias for each head, as MPNet has (0: none).
    """

    layers: int = 6
    heads: int = 12
    mlp: int = 1536
    positions: int = 512
    margin: int = 32
    longest_question: int = 64
    prior: float = 0.0
    context: int = 0
    width: int = 0
    buckets: int = 0
    begin_id: int = 101
    separator_id: int = 102

    def __post_init__(self) -> None:
        _positive(
            "reader",
            layers=self.layers,
            heads=self.heads,
            mlp=self.mlp,
            positions=self.positions,
            longest_question=self.longest_question,
        )
        values = (self.margin, self.context, self.width, self.begin_id, self.separator_id)
        if min(values) < 0:
            raise ConfigError(
                "reader.margin, context, width, begin_id and separator_id must be 0 or more"
            )
        if self.buckets and self.buckets < 8:
            raise ConfigError(f"reader.buckets is {self.buckets}, expected 0, or 8 or more")


@dataclass(frozen=True)
class ModelConfig:
    """Everything that fixes the parameters and the computation of one model (DESIGN: the model).

    ``architecture``: ``drt``, or a model that it is compared with: ``base`` is sliding-window
    attention alone, with ``lower_layers + upper_layers`` layers; ``landmark``, Landmark Attention
    to ``retrieved`` blocks, trained at ``window`` tokens; ``block-recurrent``, with a state of
    ``state_tokens`` vectors; ``rpt``, cross-attention without retrieval weights.
    ``retriever``: how chunks are chosen, by learnt landmarks, at random, or by the frozen encoder
    of ``retriever_model``, a model's name or folder. ``query_norm``: an RMSNorm for each group
    before a landmark's state becomes a query. Sizes are in elements, lengths in tokens.

    Raises ``ConfigError`` for values that do not fit together.
    """

    name: str = "drt-128m"
    architecture: Literal["drt", "base", "landmark", "block-recurrent", "rpt"] = "drt"
    vocab: int = 16384
    width: int = 768
    lower_layers: int = 6
    upper_layers: int = 6
    groups: int = 1
    heads: int = 12
    kv_heads: int = 12
    mlp: int = 2048
    chunk: int = 64
    retrieved: int = 8
    window: int = 512
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    landmark_pooling: Literal["token", "mean"] = "token"
    landmark_query: Literal["state", "state+landmark"] = "state"
    normalised_scores: bool = False
    lexical_scores: bool = False
    lexical_neighbours: float = 0.0
    late_interaction: bool = False
    late_candidates: int = 64
    gca_output: Literal["mlp", "residual"] = "mlp"
    gca_softmax: Literal["off-by-one", "plain"] = "off-by-one"
    retriever: Literal["landmark", "random", "fixed"] = "landmark"
    retriever_model: str = "drt-small-en"
    query_norm: bool = False
    state_tokens: int = 512
    question_states: bool = False
    quote_head: bool = False
    reread: bool = False
    reread_relevance: bool = False
    reread_margin: int = 0
    reread_layers: int = 0
    reader: ReaderConfig | None = None
    zero_lower: bool = False
    pad_id: int = 0
    landmark_id: int = 1
    answer_id: int = 2
    end_id: int = 3

    def __post_init__(self) -> None:
        self._check_architecture()
        _positive(
            "model",
            vocab=self.vocab,
            width=self.width,
            upper_layers=self.upper_layers,
            groups=self.groups,
            heads=self.heads,
            kv_heads=self.kv_heads,
            mlp=self.mlp,
            chunk=self.chunk,
            retrieved=self.retrieved,
            window=self.window,
            late_candidates=self.late_candidates,
            state_tokens=self.state_tokens,
        )
        if self.lower_layers < 0 or self.reread_margin < 0:
            raise ConfigError("lower_layers and reread_margin must be 0 or more")
        _at_most("model.lower_layers", self.lower_layers, _MOST_LAYERS)
        encoder_heads = self.encoder.heads if self.architecture in ("drt", "rpt") else 1
        if self.width % self.heads or self.width % encoder_heads:
            raise ConfigError(
                f"width {self.width} must be a multiple of heads and of encoder.heads"
            )
        if self.heads % self.kv_heads:
            raise ConfigError(f"heads {self.heads} must be a multiple of kv_heads {self.kv_heads}")
        if self.upper_layers % self.groups:
            raise ConfigError(
                f"upper_layers {self.upper_layers} must be a multiple of groups {self.groups}"
            )
        if self.reread and not self.quote_head:
            raise ConfigError("reread needs quote_head = true, which reads the spans off")
        if not 0 <= self.reread_layers <= (self.encoder.layers if self.reread else 0):
            raise ConfigError(
                f"reread_layers is {self.reread_layers}, expected 0, or with reread = true at most "
                f"the encoder's {self.encoder.layers}"
            )
        if self.reread_relevance and not self.reread:
            raise ConfigError("reread_relevance judges chunks read again: it needs reread = true")
        if self.reader is not None:
            self._check_reader(self.reader)
        if self.late_interaction and self.late_candidates < self.retrieved:
            raise ConfigError(
                f"late_candidates is {self.late_candidates}, expected at least the "
                f"{self.retrieved} chunks that are retrieved"
            )
        if not 0 <= self.lexical_neighbours <= 1:
            raise ConfigError(
                f"lexical_neighbours is {self.lexical_neighbours}, expected a share in 0..1"
            )
        for key, allowed in _CHOICES.items():
            if getattr(self, key) not in allowed:
                raise ConfigError(f"{key} is {getattr(self, key)!r}, expected one of {allowed}")

    def _check_architecture(self) -> None:
        """Refuse parts of the product's model where there is nothing to retrieve."""
        if self.architecture not in ARCHITECTURES:
            raise ConfigError(
                f"model.architecture is {self.architecture!r}, expected one of {ARCHITECTURES}"
            )
        if self.architecture == "rpt" and self.retriever == "landmark":
            raise ConfigError(
                "model.retriever is 'landmark', but the architecture 'rpt' teaches no retriever; "
                "expected 'fixed' or 'random'"
            )
        if self.retriever != "landmark" and (self.quote_head or self.reader is not None):
            raise ConfigError(
                f"model.retriever is {self.retriever!r}, expected 'landmark' for a model that "
                "answers questions"
            )
        parts = [key for key in _DRT_ONLY if self.architecture != "drt" and getattr(self, key)]
        if parts:
            raise ConfigError(
                f"model.{parts[0]} is a part of the architecture 'drt', not of "
                f"{self.architecture!r}; leave it out"
            )

    def _check_reader(self, reader: ReaderConfig) -> None:
        width = reader.width or self.width
        if width % reader.heads:
            raise ConfigError(f"the reader's width {width} must be a multiple of reader.heads")
        pair = reader.longest_question + self.chunk + 2 * reader.margin + 3
        if pair > reader.positions:
            raise ConfigError(
                f"reader.positions is {reader.positions}, expected at least {pair}: the longest "
                "question, a passage and three special tokens"
            )
        if max(reader.begin_id, reader.separator_id) >= self.vocab:
            raise ConfigError(
                f"reader.begin_id and separator_id must be tokens of the {self.vocab}"
            )

    @property
    def head_size(self) -> int:
        """Elements per attention head."""
        return self.width // self.heads

    @property
    def layers(self) -> int:
        """Layers of the decoder, lower and upper."""
        return self.lower_layers + self.upper_layers

    @property
    def reads_passages(self) -> bool:
        """Whether the model can read retrieved passages together with the question."""
        return self.reread or self.reader is not None

    @property
    def passage_margin(self) -> int:
        """Tokens of each neighbouring chunk in a passage that is read with the question."""
        return self.reread_margin if self.reader is None else self.reader.margin

    @property
    def slots(self) -> int:
        """Positions of one chunk in a stream: its tokens and the landmark."""
        return self.chunk + 1

    @property
    def warm_up_chunks(self) -> int:
        """Chunks before a segment that its lower-stack states can depend on."""
        return -(-self.lower_layers * self.window // self.slots)


ARCHITECTURES = ("drt", "base", "landmark", "block-recurrent", "rpt")
_DRT_ONLY = (
    "lexical_scores",
    "late_interaction",
    "question_states",
    "quote_head",
    "reread",
    "reader",
    "zero_lower",
)
_CHOICES: dict[str, tuple[str, ...]] = {
    "landmark_pooling": ("token", "mean"),
    "landmark_query": ("state", "state+landmark"),
    "gca_output": ("mlp", "residual"),
    "gca_softmax": ("off-by-one", "plain"),
    "retriever": ("landmark", "random", "fixed"),
}


def _positive(where: str, **values: int) -> None:
    for key, value in values.items():
        if value < 1:
            raise ConfigError(f"{where}.{key} is {value}, expected 1 or more")
        _at_most(f"{where}.{key}", value, _MOST_LAYERS if key.endswith("layers") else _LARGEST)


# A configuration may come with a model from anywhere, and modules are made for each layer before
# the weights are compared with it.
_MOST_LAYERS = 512
_LARGEST = 1 << 24


def _at_most(name: str, value: int, limit: int) -> None:
    if value > limit:
        raise ConfigError(f"{name} is {reprlib.repr(value)}, expected at most {limit:,}")


def _scaled(name: str, width: int, heads: int, layers: int, mlp: int) -> ModelConfig:
    return ModelConfig(
        name=name,
        width=width,
        heads=heads,
        kv_heads=heads,
        mlp=mlp,
        lower_layers=layers // 2,
        upper_layers=layers // 2,
        encoder=EncoderConfig(layers=2, heads=heads, mlp=mlp),
    )


_SMALL = ModelConfig(
    name="drt-small-en",
    vocab=30522,
    width=384,
    lower_layers=2,
    upper_layers=4,
    heads=6,
    kv_heads=2,
    mlp=1024,
    encoder=EncoderConfig(kind="bert", layers=6, heads=12, mlp=1536),
    landmark_pooling="mean",
    landmark_query="state+landmark",
    normalised_scores=True,
    lexical_scores=True,
    lexical_neighbours=0.3,
    late_interaction=True,
    gca_output="residual",
    question_states=True,
    quote_head=True,
    reread=True,
    reread_relevance=True,
    reread_margin=16,
    reread_layers=3,
    zero_lower=True,
)

_TINY = ModelConfig(
    name="drt-tiny",
    vocab=300,
    width=32,
    lower_layers=2,
    upper_layers=2,
    heads=4,
    kv_heads=2,
    mlp=48,
    chunk=8,
    retrieved=2,
    window=16,
    encoder=EncoderConfig(layers=1, heads=4, mlp=48, positions=64),
)

PRESETS: dict[str, ModelConfig] = {
    "drt-128m": ModelConfig(),
    "drt-350m": _scaled("drt-350m", 1024, 16, 24, 2816),
    "drt-760m": _scaled("drt-760m", 1536, 16, 24, 4096),
    "drt-1.5b": _scaled("drt-1.5b", 2048, 32, 24, 5504),
    "drt-3b": _scaled("drt-3b", 2560, 32, 32, 6912),
    # As many tokens as the paper's models have, which are GPT-2's; positions of one chunk.
    "paper-128m": ModelConfig(name="paper-128m", vocab=50257, encoder=EncoderConfig(positions=66)),
    "drt-small-en": _SMALL,
    "drt-tiny": _TINY,
}


def preset(name: str, /, **changes: object) -> ModelConfig:
    """Return the preset of this name with some fields changed.

    Raises ``ConfigError`` for an unknown name.
    """
    if name not in PRESETS:
        raise ConfigError(f"no preset is called {name!r}; the presets are {', '.join(PRESETS)}")
    return replace(PRESETS[name], **changes)  # type: ignore[arg-type]
