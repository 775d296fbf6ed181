"""Kernels run in Triton's interpreter, unless tests for a GPU are asked for (``-m gpu``)."""

from __future__ import annotations

import importlib.util
import os
import sys

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # Triton reads this when a kernel is decorated, so before any test imports one.
    wanted = config.getoption("markexpr")
    if "gpu" in wanted and "not gpu" not in wanted:
        return
    if "triton" in sys.modules and "TRITON_INTERPRET" not in os.environ:
        raise pytest.UsageError(
            "triton was imported before tests/kernels/conftest.py could choose its interpreter: "
            "set TRITON_INTERPRET=1"
        )
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(autouse=True, scope="session")
def repaired_interpreter() -> None:
    """bf16 in the interpreter as on a GPU, for the tests that launch kernels directly."""
    from drt_kernels.interpreter import interpreting, repair_interpreter

    if interpreting() and importlib.util.find_spec("triton") is not None:
        repair_interpreter()
