"""Saves a library with a damaged catalogue into a new one: what ``Library.repair`` does then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from . import _engine
from ._errors import DrtError, engine_errors
from ._types import Finding

if TYPE_CHECKING:
    from drt_engine.runtime import Runtime


def saved_beside(
    path: Path, load_runtime: Callable[[], Runtime], *, lock_timeout: float
) -> list[Finding]:
    """Save what can be saved of the library at ``path``; return where it is and what is missing.

    The model is loaded only where documents have to be read again from their texts.
    """
    with engine_errors():
        target = _engine.free_name(path)
        salvage = _engine.salvage(path, target, lock_timeout=lock_timeout)
    if salvage.unread:
        try:
            runtime = load_runtime()
            with (
                engine_errors(),
                _engine.open_library(target, runtime, lock_timeout=lock_timeout) as store,
            ):
                _engine.read_salvaged(runtime, store, salvage)
        except DrtError as error:
            salvage.note_unread(str(error))
    return [salvage.summary(), *salvage.lost]
