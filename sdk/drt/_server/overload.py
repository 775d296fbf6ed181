"""The error of a server that has more work than it takes."""

from __future__ import annotations

from .._errors import DrtError


class OverloadedError(DrtError):
    """More work waits than the server takes."""
