"""A report on this machine, its packages, a library, and whether drt works here.

Imports neither torch nor a reader: what may crash runs in another process.
"""

from __future__ import annotations

import os
from pathlib import Path

from . import _engine
from ._paths import default_library
from ._types import DoctorReport
from ._version import __version__


def doctor(
    library: str | os.PathLike[str] | None = None,
    *,
    model: str | os.PathLike[str] = "drt-small-en",
    device: str = "auto",
    threads: int | None = None,
    dtype: str = "auto",
) -> DoctorReport:
    """Describe this machine and test drt on it: read a small text, ask, compare the quote.

    Does not raise: a broken package, model or library is a check whose status
    is "problem", with what to do about it.
    """
    checks = _engine.diagnose(
        default_library() if library is None else Path(library),
        version=__version__,
        model=model if isinstance(model, str) else Path(model),
        device=device,
        threads=threads,
        dtype=dtype,
    )
    return DoctorReport(tuple(checks))
