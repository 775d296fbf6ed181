"""The same random numbers for every test."""

from __future__ import annotations

import os
import random
import sys

import hypothesis
import pytest

# Slow machines are no failure.
hypothesis.settings.register_profile("drt", deadline=None)
hypothesis.settings.load_profile("drt")

# Processes that run tests side by side would wait for each other's threads.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def seeds() -> None:
    random.seed(0)
    torch = sys.modules.get("torch")  # tests that need no torch do not pay for it
    if torch is not None:
        torch.manual_seed(0)
