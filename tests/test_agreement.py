"""The shipped model answers alike in fp32 and in bf16; ``tests/agreement.py`` tries more settings.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from tests import agreement


@pytest.mark.slow
def test_both_compute_types_answer_alike() -> None:
    arguments = ["--questions", "40", "--only", "bf16, 1 thread"]
    done = subprocess.run(
        [sys.executable, agreement.__file__, *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("of 40") == 2


def test_every_setting_of_the_table_has_a_name_of_its_own() -> None:
    names = [setting.name for setting in agreement.SETTINGS]
    assert len(set(names)) == len(names) == 14


def test_what_disagrees() -> None:
    first = agreement.Outcome(["a"] * 100, inexact=0, seconds=0.5)
    assert not agreement.disagrees(replace(first, answers=["b"] * 3 + ["a"] * 97), first)
    assert agreement.disagrees(replace(first, answers=["b"] * 4 + ["a"] * 96), first)
    assert agreement.disagrees(replace(first, inexact=1), first)
