"""One training stage: model, start, data of each task, optimiser, run folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from drt_engine.errors import ConfigError


@dataclass(frozen=True)
class StartConfig:
    """Where the parameters come from: a BERT-like folder, a model folder (over it), or nothing.

    ``reset_scorer`` starts the maps that score chunks anew. ``reader`` is a folder of a BERT or
    MPNet, or of a model of this project, that the reader starts from; ``without`` names parts of
    ``model`` that are left out, by how their names begin. ``repeat_upper``: upper layers that
    ``model`` had not start as copies of its last; ``repeat_reader``: a deeper reader starts with
    each of its layers repeated in place.
    """

    warm_start: Path | None = None
    model: Path | None = None
    tokenizer: Path | None = None
    reset_scorer: bool = False
    reader: Path | None = None
    without: tuple[str, ...] = ()
    repeat_upper: bool = False
    repeat_reader: bool = False


@dataclass(frozen=True)
class OptimConfig:
    """AdamW with warm-up and cosine; ``clip`` is the largest gradient norm of a parameter group.

    The ``.._scale`` are the shares of the learning rate that parts of the model take: what was
    warm-started, and what feeds it, wants small ones. ``only`` names the parts that learn, by how
    their names begin; nothing named means all. ``average`` are model folders: the model of the
    finished run is the mean of them and of what was trained.
    """

    steps: int = 1000
    lr: float = 3e-4
    encoder_scale: float = 0.25
    embedding_scale: float = 0.25
    lower_scale: float = 1.0
    upper_scale: float = 1.0
    scorer_scale: float = 1.0
    weight_decay: float = 0.01
    betas: tuple[float, ...] = (0.9, 0.95)
    warm_up: float = 0.02
    floor: float = 0.02
    clip: float = 1.0
    accumulate: int = 1
    only: tuple[str, ...] = ()
    average: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if self.steps < 1 or self.accumulate < 1:
            raise ConfigError("optim.steps and optim.accumulate must be 1 or more")
        if not 0 <= self.warm_up < 1 or len(self.betas) != 2:
            raise ConfigError("optim.warm_up must be in 0..1 and optim.betas two numbers")


@dataclass(frozen=True)
class QuestionsConfig:
    """Questions with evidence: files, batch shape, weights of sources and of the parts of the loss.

    ``questions`` a batch, at most ``of_each`` on the same document (0: two thirds of them), about
    windows of ``window`` chunks, ``pool`` chunks together. Where ``within`` is true, a question
    retrieves in its own window alone, whose chunks are also the only ones that BM25 scores; its
    landmark is still told from those of all windows. ``more`` questions a batch only retrieve,
    which costs a tenth of reading for them; where ``read`` is false, all do.
    ``hidden`` is the share of answerable questions whose evidence is hidden, so that they become
    unanswerable. ``teacher`` is a BERT-like folder whose landmarks ours are held near, with weight
    ``teacher_loss``. ``reader_loss`` is the weight of what the model's own reader thinks of the
    retrieved chunks, which retrieval and stored memory then learn. The weights of the parts hold
    for needles and clozes too.
    """

    share: float = 0.0
    qa: tuple[Path, ...] = ()
    docs: tuple[Path, ...] = ()
    questions: int = 16
    of_each: int = 0
    window: int = 32
    pool: int = 64
    within: bool = False
    more: int = 0
    read: bool = True
    retrieved: int = 4
    weights: dict[str, float] = field(default_factory=dict)
    retrieval_loss: float = 0.3
    stored_loss: float = 0.5
    text_loss: float = 0.2
    relevance_loss: float = 0.3
    hidden: float = 0.0
    teacher: Path | None = None
    teacher_loss: float = 2.0
    reader_loss: float = 0.0


@dataclass(frozen=True)
class NeedlesConfig:
    """Needles in pieces of corpus text of ``window`` chunks, each asked for like a question.

    ``two_hops`` is the share of those whose answer needs two statements.
    """

    share: float = 0.0
    corpus: tuple[Path, ...] = ()
    needles: int = 10
    window: int = 6
    retrieved: int = 4
    distractors: int = 2
    two_hops: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.two_hops <= 1:
            raise ConfigError(f"needles.two_hops is {self.two_hops}, expected a share in 0..1")


@dataclass(frozen=True)
class ClozeConfig:
    """Cloze questions made from corpus text.

    A batch has ``windows`` pieces of ``window`` chunks, ``questions`` that are read for and
    ``more`` that only retrieve; a share of them are ``recurring`` spans.
    """

    share: float = 0.0
    corpus: tuple[Path, ...] = ()
    questions: int = 16
    more: int = 32
    windows: int = 2
    window: int = 24
    retrieved: int = 3
    recurring: float = 0.6
    loss: float = 0.5


@dataclass(frozen=True)
class PassagesConfig:
    """Question and passage pairs for the reader.

    ``qa`` and ``docs``: files; ``questions``: questions a batch; ``passages``: passages a question,
    drawn from these numbers; ``margins``: tokens of the neighbours around a chunk, drawn likewise;
    ``candidates``: ranks among which negatives are drawn, by BM25 or, with ``ranks``, by all that
    asking uses: a file of what the model of ``start.model`` ranks best, made once, without
    collections of more chunks than ``ranks_longest`` (0: with all), for questions of the sources
    ``ranks_of`` (none named: of all); ``short``: chunks from which on a document is searched by
    itself; ``collection``: chunks of shorter documents that are searched together, the more the
    harder the negatives; ``hidden``: share of the answerable questions whose evidence is left out;
    ``by_end``: share of the passages chosen by where the evidence ends; ``keywords``: share of the
    questions cut to their key words; ``longest``: tokens of a span from which on only its passage
    is to be found; ``bare``: share of the questions whose passages have no title and sections in
    front, where the model reads them. ``weights`` of ``source``, ``source/type`` or
    ``source/kind``. ``dropout``: share of the reader's states that is left out. ``teachers``: model
    folders whose readers' mean opinion makes up ``taught`` of the loss of spans.
    """

    share: float = 0.0
    qa: tuple[Path, ...] = ()
    docs: tuple[Path, ...] = ()
    questions: int = 32
    passages: tuple[int, ...] = (2, 2, 3)
    margins: tuple[int, ...] = (16, 32, 48)
    candidates: int = 16
    ranks: Path | None = None
    ranks_longest: int = 0
    ranks_of: tuple[str, ...] = ()
    short: int = 48
    collection: int = 48
    hidden: float = 0.08
    by_end: float = 0.3
    keywords: float = 0.1
    longest: int = 72
    bare: float = 0.25
    weights: dict[str, float] = field(default_factory=dict)
    type_loss: float = 0.1
    verdict_loss: float = 0.2
    dropout: float = 0.0
    teachers: tuple[Path, ...] = ()
    taught: float = 0.5

    def __post_init__(self) -> None:
        if not self.passages or min(self.passages) < 1:
            raise ConfigError("passages.passages must name numbers of 1 or more")
        if not self.margins or min(self.margins) < 0:
            raise ConfigError("passages.margins must name numbers of 0 or more")
        if not 0 <= self.dropout < 1 or not 0 <= self.taught <= 1:
            raise ConfigError(
                f"passages.dropout is {self.dropout} and passages.taught {self.taught}, expected "
                "shares in 0..1"
            )


@dataclass(frozen=True)
class ReaderClozeConfig:
    """Cloze questions for the reader, made from corpus text: ``questions`` a batch.

    Up to ``of_each`` are about the same piece of ``window`` chunks; ``passages``, ``margins``,
    ``candidates``, ``hidden``: as of ``PassagesConfig``; ``recurring``: share of the questions
    whose sentence is cut from the text, and whose span stands elsewhere, too; ``loss``: weight.
    """

    share: float = 0.0
    corpus: tuple[Path, ...] = ()
    questions: int = 32
    of_each: int = 12
    window: int = 32
    passages: tuple[int, ...] = (2, 2, 3)
    margins: tuple[int, ...] = (16, 32, 48)
    candidates: int = 8
    hidden: float = 0.08
    recurring: float = 0.7
    loss: float = 0.5

    def __post_init__(self) -> None:
        if not self.passages or min(self.passages) < 1:
            raise ConfigError("reader_cloze.passages must name numbers of 1 or more")
        if not self.margins or min(self.margins) < 0:
            raise ConfigError("reader_cloze.margins must name numbers of 0 or more")


@dataclass(frozen=True)
class StreamConfig:
    """Language modelling on rows of ``chunks`` chunks from shuffled places, ``batch`` at a time.

    The corpus is tokenised once, into ``tokens``, a folder that runs may share; named none, it is
    the run's own. ``far``: weight of far copies, tokens that stood before beyond the window, beside
    1 of all others; ``labels``: weight of the loss that teaches scores which earlier chunks share
    rare trigrams with the next one.
    """

    share: float = 0.0
    corpus: tuple[Path, ...] = ()
    tokens: Path | None = None
    chunks: int = 32
    batch: int = 1
    loss: float = 1.0
    far: float = 1.0
    labels: float = 0.0

    def __post_init__(self) -> None:
        if min(self.far, self.labels) < 0:
            raise ConfigError(
                f"stream.far is {self.far} and stream.labels {self.labels}, expected 0 or more each"
            )


@dataclass(frozen=True)
class PasskeyConfig:
    """Passkeys in token space: ``batch`` contexts, of as many chunks as one of ``chunks`` says.

    ``symbols``: token ids, where ``start`` names no tokenizer; ``answer``: symbols of a passkey;
    ``two_hops``: share of contexts whose question leads to the passkey over a link; ``links``:
    share of the others that ask for a link; ``noise``: passkeys that are not asked for;
    ``lm_loss``: weight of the loss on all other tokens; ``offset``: where in their chunks
    statements begin, anywhere if not named. ``landmark``: weight of a loss on the landmark before
    the answer, which is to know the answer's first symbol, as the query of a second hop must; the
    question is then asked in two chunks.
    """

    share: float = 0.0
    symbols: int = 64
    answer: int = 3
    chunks: tuple[int, ...] = (6, 8, 12, 16)
    batch: int = 16
    two_hops: float = 0.0
    links: float = 0.0
    noise: int = 0
    lm_loss: float = 0.0
    offset: int | None = None
    landmark: float = 0.0

    def __post_init__(self) -> None:
        if not self.chunks or min(self.chunks) < 1 or self.batch < 1:
            raise ConfigError(
                f"passkey.chunks is {list(self.chunks)} and passkey.batch {self.batch}, expected "
                "numbers of 1 or more"
            )
        if not 0 <= self.two_hops <= 1 or not 0 <= self.links <= 1:
            raise ConfigError(
                f"passkey.two_hops is {self.two_hops} and passkey.links {self.links}, expected "
                "shares in 0..1"
            )
        if self.two_hops and self.landmark:
            raise ConfigError(
                f"passkey.landmark is {self.landmark} and passkey.two_hops {self.two_hops}, "
                "expected 0 for one of them: after two hops the landmark is to know the link"
            )


@dataclass(frozen=True)
class RecordsConfig:
    """Rows of records in token space: ``batch`` rows, of as many chunks as one of ``chunks`` says.

    Each chunk is a record of a name and ``values`` values, and ends with the name of the next; a
    row has ``names`` names, and one does not return within ``apart`` chunks. ``symbols``: token
    ids, where ``start`` names no tokenizer. ``rest``: weight of tokens that are no copies of an
    earlier record's; ``labels``: weight of the loss that teaches scores which earlier chunks share
    rare trigrams with the next one.
    """

    share: float = 0.0
    symbols: int = 136
    names: int = 12
    values: int = 3
    apart: int = 2
    chunks: tuple[int, ...] = (16, 24, 32)
    batch: int = 8
    rest: float = 0.0
    labels: float = 0.0

    def __post_init__(self) -> None:
        if not self.chunks or min(self.chunks) < 1 or self.batch < 1:
            raise ConfigError(
                f"records.chunks is {list(self.chunks)} and records.batch {self.batch}, expected "
                "numbers of 1 or more"
            )
        if min(self.rest, self.labels, self.apart) < 0:
            raise ConfigError(
                f"records.rest is {self.rest}, labels {self.labels} and apart {self.apart}, "
                "expected 0 or more each"
            )


@dataclass(frozen=True)
class SummariesConfig:
    """Summaries that came with the documents of ``data``, ``batch`` at a time.

    A document is cut to ``chunks`` chunks, a summary to the ``longest`` number of tokens; the loss
    is on the summary alone.
    """

    share: float = 0.0
    data: tuple[Path, ...] = ()
    chunks: int = 64
    longest: int = 256
    batch: int = 4

    def __post_init__(self) -> None:
        if min(self.chunks, self.batch) < 1 or self.longest < 2:
            raise ConfigError(
                f"summaries.chunks is {self.chunks}, summaries.batch {self.batch} and "
                f"summaries.longest {self.longest}, expected at least 1, 1 and 2"
            )


@dataclass(frozen=True)
class RunConfig:
    """Where and how the run happens; ``minutes`` between checkpoints.

    ``recompute``: what the backward pass computes again, to save memory: the weights of window
    attention, or all of every layer. After ``limit_minutes`` the run stops with a checkpoint; the
    schedule still counts steps. ``workers`` processes make batches ahead, for a device that would
    wait for them. ``reader_bits``: of each number of the finished model's reader, which is then in
    a file of its own (0: as all else). ``bf16``: matrix products in bf16, except on processors that
    are slower at it. ``parallel``: what the processes of ``torchrun`` hold of the model, all of it
    (``ddp``) or a share of every parameter, gradient and moment (``fsdp``). Which settings a
    resumed run may change is in ``train/resume.py``.
    """

    out: Path = Path("runs/run")
    seed: int = 0
    threads: int = 1
    device: Literal["auto", "cpu", "cuda"] = "auto"
    bf16: bool = True
    minutes: float = 5.0
    limit_minutes: float | None = None
    log_every: int = 20
    gumbel: bool = True
    recompute: Literal["nothing", "attention", "layers"] = "nothing"
    workers: int = 0
    reader_bits: int = 0
    parallel: Literal["ddp", "fsdp"] = "ddp"

    def __post_init__(self) -> None:
        if self.workers < 0:
            raise ConfigError(f"run.workers is {self.workers}, expected 0 or more")
        if self.reader_bits not in (0, 4):
            raise ConfigError(f"run.reader_bits is {self.reader_bits}, expected 0 or 4")
        if self.limit_minutes is not None and self.limit_minutes <= 0:
            raise ConfigError(f"run.limit_minutes is {self.limit_minutes}, expected above 0")


@dataclass(frozen=True)
class TrainConfig:
    """One stage. ``model`` holds a preset's name under ``preset`` and changes to it."""

    model: dict[str, Any] = field(default_factory=lambda: {"preset": "drt-tiny"})
    start: StartConfig = field(default_factory=StartConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    questions: QuestionsConfig = field(default_factory=QuestionsConfig)
    needles: NeedlesConfig = field(default_factory=NeedlesConfig)
    cloze: ClozeConfig = field(default_factory=ClozeConfig)
    passages: PassagesConfig = field(default_factory=PassagesConfig)
    stream: StreamConfig = field(default_factory=StreamConfig)
    passkey: PasskeyConfig = field(default_factory=PasskeyConfig)
    summaries: SummariesConfig = field(default_factory=SummariesConfig)
    reader_cloze: ReaderClozeConfig = field(default_factory=ReaderClozeConfig)
    records: RecordsConfig = field(default_factory=RecordsConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        tasks = (
            *(self.questions, self.needles, self.cloze, self.passages),
            *(self.stream, self.passkey, self.summaries, self.reader_cloze, self.records),
        )
        shares = [task.share for task in tasks]
        if min(shares) < 0 or sum(shares) <= 0:
            raise ConfigError(
                "at least one of questions.share, needles.share, cloze.share, passages.share, "
                "stream.share, passkey.share, summaries.share, reader_cloze.share, "
                "records.share must be above 0"
            )
