"""The error for more work than the server takes."""

from __future__ import annotations

from .. import _errors as errors


class OverloadedError(errors.DrtError):
    """More work waits than the server takes; ``retry_after`` seconds later there may be room."""

    def __init__(self, message: str, *, retry_after: int = 5) -> None:
        super().__init__(message)
        self.retry_after = retry_after
