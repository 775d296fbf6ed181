"""The engine's errors, as a tree; the docstring of each says when it is raised.

Every message is one sentence: what was seen, what was expected, what to do. Knows nothing of the
SDK or the command line, which map these to their own errors and exit codes.
"""

from __future__ import annotations

from pathlib import Path


class EngineError(Exception):
    """Base class of all errors that the engine raises on purpose."""


class ConfigError(EngineError):
    """Raised when an option, configuration key or value is unknown, out of range or conflicting."""


class TokenizerError(EngineError):
    """Raised when a tokenizer file is missing or broken, or cannot encode a text within limits."""


class WeightsError(EngineError):
    """Raised when a model folder is missing, broken, or does not fit its own configuration."""


class StoreError(EngineError):
    """Raised when a library cannot be opened, read or changed as asked; base of the six below."""


class FingerprintMismatch(StoreError):
    """Raised when a library or archive was made with another model, or is encoded differently."""


class LockTimeout(StoreError):
    """Raised when another process holds the library's lock for longer than the caller waits."""


class CorruptStore(StoreError):
    """Raised when a file of the library does not hold what the catalogue or its checksum says."""


class LibraryUnavailable(StoreError):
    """Raised when one of several libraries, at ``path``, cannot be read."""

    def __init__(self, message: str, path: Path | None = None) -> None:
        super().__init__(message)
        self.path = path


class StorageFull(StoreError):
    """Raised when a write to the library fails because the disk or the quota is full."""


class TooManyOpenFiles(StoreError):
    """Raised when a file of the library cannot be opened for want of a file descriptor."""


class DocumentError(EngineError):
    """Base class of the errors that are raised when a file cannot be read as a document."""


class UnsupportedFormat(DocumentError):
    """Raised when no reader takes this type of file."""


class MissingExtra(DocumentError):
    """Raised when the reader of a file needs a package that is not installed."""


class EmptyDocument(DocumentError):
    """Raised when a document has no words to read, or no sentences to summarise."""


class UnreadableDocument(DocumentError):
    """Raised when a file is missing, damaged, over a limit, or not what its name says."""


class ScannedPages(UnreadableDocument):
    """Raised by a reader that could recognise text in pictures, if it were started for that."""


class QuestionError(EngineError):
    """Raised when a question has no words or too many, or when there is no document to ask."""


class SessionError(EngineError):
    """Raised when a session cannot be named, saved, restored or continued."""


class NotFound(EngineError):
    """Raised when no document, section or session has this name, or when several documents do."""
