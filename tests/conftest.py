"""The same random numbers for every test."""

from __future__ import annotations

import random
import sys

import hypothesis
import pytest

# Slow machines are no failure.
hypothesis.settings.register_profile("drt", deadline=None)
hypothesis.settings.load_profile("drt")


@pytest.fixture(autouse=True)
def seeds() -> None:
    random.seed(0)
    torch = sys.modules.get("torch")  # tests that need no torch do not pay for it
    if torch is not None:
        torch.manual_seed(0)
