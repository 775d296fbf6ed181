"""What the SDK takes and returns: frozen dataclasses of plain values, with documented JSON shapes.

Those that the engine makes as they are come from ``drt_engine.results``; ``_convert.py`` fills in
the others. Annotations are evaluated here: they are resolved in the namespace of ``drt``.
"""

import dataclasses

from drt_engine.results import (
    AnswerGroup,
    AnswerState,
    Backup,
    Change,
    Citation,
    DoctorCheck,
    Finding,
    FoundTurn,
    IndexInfo,
    IndexRecall,
    IngestProgress,
    ReadingStep,
    ScanInfo,
    SearchHit,
    SessionInfo,
    ShardsProgress,
    TraceCandidate,
    TraceDocument,
    TraceEntry,
    TraceGroup,
    TraceToken,
    UnreadLibrary,
)

from .answers import (
    AllAnswers,
    Answer,
    AskProgress,
    PageImage,
    Passage,
    SearchResult,
    Summary,
    Trace,
    Turn,
)
from .documents import DocumentInfo, IngestReport, IngestResult, Progress, WatchEvent
from .machine import DoctorReport, FormatInfo, ModelInfo
from .options import (
    AnswerMode,
    AskOptions,
    FilterOptions,
    PartOptions,
    Retriever,
    SearchOptions,
    SummaryLength,
    SummaryMode,
)
from .written import WritingState, WrittenSentence, WrittenText

__all__ = [
    "AllAnswers",
    "Answer",
    "AnswerGroup",
    "AnswerMode",
    "AnswerState",
    "AskOptions",
    "AskProgress",
    "Backup",
    "Change",
    "Citation",
    "DoctorCheck",
    "DoctorReport",
    "DocumentInfo",
    "FilterOptions",
    "Finding",
    "FormatInfo",
    "FoundTurn",
    "IndexInfo",
    "IndexRecall",
    "IngestProgress",
    "IngestReport",
    "IngestResult",
    "ModelInfo",
    "PageImage",
    "PartOptions",
    "Passage",
    "Progress",
    "ReadingStep",
    "Retriever",
    "ScanInfo",
    "SearchHit",
    "SearchOptions",
    "SearchResult",
    "SessionInfo",
    "ShardsProgress",
    "Summary",
    "SummaryLength",
    "SummaryMode",
    "Trace",
    "TraceCandidate",
    "TraceDocument",
    "TraceEntry",
    "TraceGroup",
    "TraceToken",
    "Turn",
    "UnreadLibrary",
    "WatchEvent",
    "WritingState",
    "WrittenSentence",
    "WrittenText",
]

# Pickles and error messages name a result where users import it from.
for _value in tuple(vars().values()):
    if dataclasses.is_dataclass(_value):
        _value.__module__ = "drt"
