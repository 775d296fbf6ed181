"""The engine's error tree; every message is one sentence: what was seen, what was expected, what to
do.

Knows nothing of the SDK or the command line, which map these to their own errors and exit codes.
"""

from __future__ import annotations


class EngineError(Exception):
    """Anything the engine refuses to do."""


class ConfigError(EngineError):
    """A configuration value or key is not allowed."""


class TokenizerError(EngineError):
    """A tokenizer file is missing, broken, or lacks what the engine needs."""


class WeightsError(EngineError):
    """A model folder is missing, broken, or does not fit its configuration."""


class StoreError(EngineError):
    """A library on disk cannot be used as asked."""


class FingerprintMismatch(StoreError):
    """A library was made with another model."""


class LockTimeout(StoreError):
    """Another process writes to the library."""


class CorruptStore(StoreError):
    """A file of the library does not hold what the catalogue says."""


class StorageFull(StoreError):
    """The disk has no room left."""


class DocumentError(EngineError):
    """A document cannot be read."""


class UnsupportedFormat(DocumentError):
    """No reader knows this type of file."""


class MissingExtra(DocumentError):
    """A reader needs a package that is not installed."""


class EmptyDocument(DocumentError):
    """A document holds no words."""


class UnreadableDocument(DocumentError):
    """A file is missing, unreadable, or not what its name says."""


class QuestionError(EngineError):
    """A question cannot be asked as it stands."""


class SessionError(EngineError):
    """A session cannot be restored or continued."""


class NotFound(EngineError):
    """No document or session has this name."""
