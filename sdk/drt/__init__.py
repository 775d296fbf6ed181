"""Ask documents of any length and get quotes exact to the character.

Cheap to import: the engine is opened on first use.
"""

from ._assistant import Assistant
from ._errors import (
    ConfigError,
    DocumentError,
    DrtError,
    EmptyDocumentError,
    LibraryBusyError,
    LibraryCorruptError,
    LibraryError,
    LibraryModelMismatchError,
    MissingExtraError,
    ModelError,
    NotFoundError,
    QuestionError,
    SessionError,
    StorageFullError,
    UnreadableDocumentError,
    UnsupportedFormatError,
)
from ._evaluation import bench, evaluate, report_table
from ._library import Library
from ._models import model_info, models, verify_model
from ._paths import default_library
from ._session import Session
from ._stream import AnswerStream
from ._training import train, train_tokenizer
from ._types import (
    Answer,
    AskOptions,
    Citation,
    DocumentInfo,
    Finding,
    IngestProgress,
    IngestReport,
    ModelInfo,
    SessionInfo,
    Summary,
    Trace,
    TraceEntry,
    TraceGroup,
    Turn,
)
from ._version import __version__

__all__ = [
    "Answer",
    "AnswerStream",
    "AskOptions",
    "Assistant",
    "Citation",
    "ConfigError",
    "DocumentError",
    "DocumentInfo",
    "DrtError",
    "EmptyDocumentError",
    "Finding",
    "IngestProgress",
    "IngestReport",
    "Library",
    "LibraryBusyError",
    "LibraryCorruptError",
    "LibraryError",
    "LibraryModelMismatchError",
    "MissingExtraError",
    "ModelError",
    "ModelInfo",
    "NotFoundError",
    "QuestionError",
    "Session",
    "SessionError",
    "SessionInfo",
    "StorageFullError",
    "Summary",
    "Trace",
    "TraceEntry",
    "TraceGroup",
    "Turn",
    "UnreadableDocumentError",
    "UnsupportedFormatError",
    "__version__",
    "bench",
    "default_library",
    "evaluate",
    "model_info",
    "models",
    "report_table",
    "train",
    "train_tokenizer",
    "verify_model",
]
