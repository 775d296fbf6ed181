"""A Ray in this process for the tests of a cluster."""

from __future__ import annotations

import sys

import pytest

from drt_engine.cluster import connection
from tests.engine.cluster.fake_ray import FakeRay


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setitem(sys.modules, "ray._private.ray_constants", fake.constants)  # type: ignore[arg-type]
    monkeypatch.setattr(connection, "_SHARED", connection._SharedConnection())
    monkeypatch.setattr(connection, "_silence", lambda: None)
    return fake
