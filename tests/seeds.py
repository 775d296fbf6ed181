"""The same random numbers for every test."""

from __future__ import annotations

import random
import sys


def seed() -> None:
    """Begin the random numbers of Python and, where it was imported, of torch."""
    random.seed(0)
    torch = sys.modules.get("torch")  # tests that need no torch do not pay for it
    if torch is not None:
        # torch.manual_seed keeps a stack of frames for each device, which takes longer than most.
        torch.default_generator.manual_seed(0)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(0)
