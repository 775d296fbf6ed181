"""The caller's environment: what tests must not take from it, since it changes what they see.

Variables of drt, numbers of threads, the locale, the time zone and the look of a terminal.
"""

from __future__ import annotations

import os
import time
from collections.abc import MutableMapping

_PREFIXES = (
    *("DRT_", "_DRT_"),
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "VECLIB_", "NUMEXPR_", "RAYON_"),
    "LC_",
)
_NAMES = frozenset(
    {"LANG", "LANGUAGE", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "TERM"}
)
_OURS = frozenset({"DRT_SCREENSHOTS"})  # of the tests of the page
# One thread: the sum of a matrix product depends on how many add it up, in its last digits.
_FIXED = {"OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8", "TZ": "UTC"}


def make_neutral(environment: MutableMapping[str, str] = os.environ) -> None:
    """Make the environment the same whoever runs the tests; to be called before torch's import."""
    for name in list(environment):
        if name in _NAMES or (name.startswith(_PREFIXES) and name not in _OURS):
            del environment[name]
    environment |= _FIXED
    if environment is os.environ and hasattr(time, "tzset"):
        time.tzset()
