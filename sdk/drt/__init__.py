"""Ask documents of any length and get quotes exact to the character.

Cheap to import: the engine is opened on first use.
"""

import typing

from ._assistant import Assistant
from ._doctor import doctor
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
    SessionNotSavedError,
    StorageFullError,
    TooManyOpenFilesError,
    UnreadableDocumentError,
    UnsupportedFormatError,
)
from ._evaluation import bench, evaluate, report_table, stream_view, trace_stream
from ._export import export_answer
from ._formats import formats
from ._library import Library
from ._log import LogEntry, QuestionLog
from ._models import convert_model, model_info, models, verify_model
from ._passages import page_image, passage
from ._paths import default_library
from ._reading import watch_reading
from ._session import Session
from ._stream import AnswerStream
from ._training import study, train, train_tokenizer
from ._types import (
    AllAnswers,
    Answer,
    AnswerGroup,
    AskOptions,
    AskProgress,
    Backup,
    Change,
    Citation,
    DoctorCheck,
    DoctorReport,
    DocumentInfo,
    FilterOptions,
    Finding,
    FormatInfo,
    FoundTurn,
    IndexInfo,
    IndexRecall,
    IngestProgress,
    IngestReport,
    IngestResult,
    ModelInfo,
    PageImage,
    PartOptions,
    Passage,
    ReadingStep,
    ScanInfo,
    SearchHit,
    SearchOptions,
    SearchResult,
    SessionInfo,
    ShardsProgress,
    Summary,
    Trace,
    TraceCandidate,
    TraceDocument,
    TraceEntry,
    TraceGroup,
    TraceToken,
    Turn,
    UnreadLibrary,
    WatchEvent,
    WrittenSentence,
    WrittenText,
)
from ._version import __version__
from ._watch import Watch

if typing.TYPE_CHECKING:
    from ._async import AsyncAnswerStream, AsyncAssistant, AsyncSession, AsyncWriting
    from ._plugins import PluginInfo, plugins
    from ._schemas import schema, schemas
    from ._server.options import ServeOptions
    from ._serving import asgi_app, mcp_server, serve
    from ._writer.local import LocalWriter, local_writers
    from ._writer.results import WriterOptions, WrittenAnswer
    from ._writer.write import Writing
    from ._writing import write

__all__ = [
    "AllAnswers",
    "Answer",
    "AnswerGroup",
    "AnswerStream",
    "AskOptions",
    "AskProgress",
    "Assistant",
    "AsyncAnswerStream",
    "AsyncAssistant",
    "AsyncSession",
    "AsyncWriting",
    "Backup",
    "Change",
    "Citation",
    "ConfigError",
    "DoctorCheck",
    "DoctorReport",
    "DocumentError",
    "DocumentInfo",
    "DrtError",
    "EmptyDocumentError",
    "FilterOptions",
    "Finding",
    "FormatInfo",
    "FoundTurn",
    "IndexInfo",
    "IndexRecall",
    "IngestProgress",
    "IngestReport",
    "IngestResult",
    "Library",
    "LibraryBusyError",
    "LibraryCorruptError",
    "LibraryError",
    "LibraryModelMismatchError",
    "LocalWriter",
    "LogEntry",
    "MissingExtraError",
    "ModelError",
    "ModelInfo",
    "NotFoundError",
    "PageImage",
    "PartOptions",
    "Passage",
    "PluginInfo",
    "QuestionError",
    "QuestionLog",
    "ReadingStep",
    "ScanInfo",
    "SearchHit",
    "SearchOptions",
    "SearchResult",
    "ServeOptions",
    "Session",
    "SessionError",
    "SessionInfo",
    "SessionNotSavedError",
    "ShardsProgress",
    "StorageFullError",
    "Summary",
    "TooManyOpenFilesError",
    "Trace",
    "TraceCandidate",
    "TraceDocument",
    "TraceEntry",
    "TraceGroup",
    "TraceToken",
    "Turn",
    "UnreadLibrary",
    "UnreadableDocumentError",
    "UnsupportedFormatError",
    "Watch",
    "WatchEvent",
    "WriterOptions",
    "Writing",
    "WrittenAnswer",
    "WrittenSentence",
    "WrittenText",
    "__version__",
    "asgi_app",
    "bench",
    "convert_model",
    "default_library",
    "doctor",
    "evaluate",
    "export_answer",
    "formats",
    "local_writers",
    "mcp_server",
    "model_info",
    "models",
    "page_image",
    "passage",
    "plugins",
    "report_table",
    "schema",
    "schemas",
    "serve",
    "stream_view",
    "study",
    "trace_stream",
    "train",
    "train_tokenizer",
    "verify_model",
    "watch_reading",
    "write",
]


_LATE = {
    "AsyncAnswerStream": "_async",
    "AsyncWriting": "_async",
    "AsyncAssistant": "_async",
    "AsyncSession": "_async",
    "PluginInfo": "_plugins",
    "ServeOptions": "_server.options",
    "LocalWriter": "_writer.local",
    "WriterOptions": "_writer.results",
    "Writing": "_writer.write",
    "WrittenAnswer": "_writer.results",
    "asgi_app": "_serving",
    "local_writers": "_writer.local",
    "mcp_server": "_serving",
    "plugins": "_plugins",
    "schema": "_schemas",
    "schemas": "_schemas",
    "serve": "_serving",
    "write": "_writing",
}


def __getattr__(name: str) -> object:
    """Load on first use what few programs need."""
    if name not in _LATE:
        raise AttributeError(f"module 'drt' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f".{_LATE[name]}", __name__), name)
    globals()[name] = value
    return value
