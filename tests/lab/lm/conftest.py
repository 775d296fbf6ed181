"""What is fp32 whatever a model's type is double where a test asks for it."""

from __future__ import annotations

import pytest
from torch import Tensor


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tensor, "float", Tensor.double)
