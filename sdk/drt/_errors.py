"""The SDK's error tree and the one place where engine errors become SDK errors.

    DrtError
    |-- ConfigError                  a setting is not allowed
    |-- ModelError                   a model is missing, broken, or not what its files say
    |-- LibraryError                 a library cannot be used as asked
    |   |-- LibraryBusyError         another process writes to it
    |   |-- LibraryCorruptError      a file does not hold what the catalogue says
    |   |-- LibraryModelMismatchError  it was made with another model
    |   |-- StorageFullError         the disk has no room left
    |   `-- TooManyOpenFilesError    the process or the system has no file descriptor left
    |-- DocumentError                a document cannot be read
    |   |-- UnsupportedFormatError   no reader knows this type of file
    |   |-- MissingExtraError        a reader needs a package that is not installed
    |   |-- EmptyDocumentError       it holds no words
    |   `-- UnreadableDocumentError  it is missing, unreadable, or not what its name says
    |-- QuestionError                a question cannot be asked as it stands
    |-- SessionError                 a session cannot be restored or continued
    |   `-- SessionNotSavedError     a turn was answered, but could not be stored
    `-- NotFoundError                no document or session has this name

Every message is one sentence: what was seen, what was expected, what to do.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from drt_engine import errors as engine
from drt_engine.files import OUT_OF_DESCRIPTORS

if TYPE_CHECKING:
    from ._types import Answer


class DrtError(Exception):
    """The base of all errors of drt; the text is one sentence for the user."""


class ConfigError(DrtError):
    """A setting is not allowed."""


class ModelError(DrtError):
    """A model is missing, broken, or not what its files say."""


class LibraryError(DrtError):
    """A library cannot be used as asked."""


class LibraryBusyError(LibraryError):
    """Another process writes to the library."""


class LibraryCorruptError(LibraryError):
    """A file of the library does not match its catalogue."""


class LibraryModelMismatchError(LibraryError):
    """The library was made with another model."""


class StorageFullError(LibraryError):
    """The disk has no room left."""


class TooManyOpenFilesError(LibraryError):
    """The process or the system has no file descriptor left."""


class DocumentError(DrtError):
    """A document cannot be read."""


class UnsupportedFormatError(DocumentError):
    """No reader knows this type of file."""


class MissingExtraError(DocumentError):
    """A reader needs a package that is not installed."""


class EmptyDocumentError(DocumentError):
    """A document contains no words."""


class UnreadableDocumentError(DocumentError):
    """A file is missing, unreadable, or not what its name says."""


class QuestionError(DrtError):
    """A question cannot be asked in this form."""


class SessionError(DrtError):
    """A session cannot be restored or continued."""


class SessionNotSavedError(SessionError):
    """A question was answered, but the conversation could not be stored; its cause says why.

    ``answer`` is the whole answer. The turn is part of the open conversation, and is stored with
    the next one that can be.
    """

    def __init__(self, message: str, answer: Answer) -> None:
        super().__init__(message)
        self.answer = answer


class NotFoundError(DrtError):
    """No document or session has this name."""


ENGINE_TO_SDK: dict[type[engine.EngineError], type[DrtError]] = {
    engine.EngineError: DrtError,
    engine.ConfigError: ConfigError,
    engine.TokenizerError: ModelError,
    engine.WeightsError: ModelError,
    engine.StoreError: LibraryError,
    engine.FingerprintMismatch: LibraryModelMismatchError,
    engine.LockTimeout: LibraryBusyError,
    engine.CorruptStore: LibraryCorruptError,
    engine.LibraryUnavailable: LibraryError,
    engine.StorageFull: StorageFullError,
    engine.TooManyOpenFiles: TooManyOpenFilesError,
    engine.DocumentError: DocumentError,
    engine.UnsupportedFormat: UnsupportedFormatError,
    engine.MissingExtra: MissingExtraError,
    engine.EmptyDocument: EmptyDocumentError,
    engine.UnreadableDocument: UnreadableDocumentError,
    engine.ScannedPages: UnreadableDocumentError,
    engine.QuestionError: QuestionError,
    engine.SessionError: SessionError,
    engine.NotFound: NotFoundError,
}


def translate(error: engine.EngineError) -> DrtError:
    """Return the SDK error for ``error``, by its nearest mapped class, with the same sentence."""
    for kind in type(error).__mro__:
        if kind in ENGINE_TO_SDK:
            return ENGINE_TO_SDK[kind](str(error))
    return DrtError(str(error))


def lacks_descriptors(error: BaseException | None) -> bool:
    """Return whether an error has the lack of a file descriptor among its causes.

    SQLite only says that it cannot open a file: so it is tried whether a descriptor can be had.
    """
    while error is not None:
        if isinstance(error, TooManyOpenFilesError):
            return True
        if isinstance(error, OSError) and error.errno in OUT_OF_DESCRIPTORS:
            return True
        if isinstance(error, sqlite3.OperationalError) and not _can_open():
            return True
        error = error.__cause__ or error.__context__
    return False


def _can_open() -> bool:
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno not in OUT_OF_DESCRIPTORS
    return True


def expect_text(subject: str, text: str, error: type[DrtError]) -> None:
    """Raise ``error`` for lone surrogates: a command line makes them of bytes that are no text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise error(f"{subject} is not text in UTF-8; write it in UTF-8.") from None


@contextmanager
def engine_errors() -> Iterator[None]:
    """Turn any engine error raised inside into its SDK error, keeping it as the cause."""
    try:
        yield
    except engine.EngineError as error:
        raise translate(error) from error
