"""Where the default library is; creates nothing."""

from __future__ import annotations

import os
from pathlib import Path


def default_library() -> Path:
    """Return ``DRT_LIBRARY`` if set, else a folder under the platform's data directory."""
    named = os.environ.get("DRT_LIBRARY")
    if named:
        return Path(named)
    from platformdirs import user_data_dir

    return Path(user_data_dir("drt", appauthor=False)) / "library"
