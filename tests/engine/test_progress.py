"""Progress on stderr, unless a caller silences it."""

from __future__ import annotations

import pytest

from drt_engine.progress import is_silenced, report, silenced


def test_a_line_is_reported_unless_silenced(capsys: pytest.CaptureFixture[str]) -> None:
    report("before")
    with silenced():
        report("inside")
        with silenced(False):
            report("asked for")
        assert is_silenced()
    with silenced(False):
        report("after")
    assert capsys.readouterr().err == "before\nasked for\nafter\n"
