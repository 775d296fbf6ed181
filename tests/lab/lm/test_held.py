"""What a state says that it keeps in memory is what the garbage collector finds in it."""

from __future__ import annotations

import gc
from types import FunctionType, ModuleType

import pytest
import torch
from torch import Tensor, nn

from drt_engine.model.drt import DRT
from drt_lab.lm.build import begin_stream, make_model
from drt_lab.lm.chunk_store import Place
from drt_lab.lm.drt_state import DRTState
from drt_lab.lm.held import held_bytes
from tests.engine.model.factories import random_ids, tiny
from tests.sampling import sampled


def collected(*holders: object, without: object = ()) -> int:
    """Return the bytes of all tensors that can be reached, each storage once."""
    storages: dict[int, int] = {}
    seen, parts = {id(without)}, list(holders)
    while parts:
        part = parts.pop()
        if id(part) in seen or isinstance(part, (nn.Module, type, ModuleType, FunctionType)):
            continue
        seen.add(id(part))
        if isinstance(part, Tensor):
            storages[part.untyped_storage().data_ptr()] = part.untyped_storage().nbytes()
        else:
            parts.extend(gc.get_referents(part))
    return sum(storages.values())


def unit_vectors(chunks: Tensor, valid: Tensor) -> Tensor:
    angle = (chunks * valid).sum(dim=-1, keepdim=True)
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("changes", "place"),
    sampled(
        [
            ({}, "device"),
            ({"groups": 2}, "cpu"),
            ({"groups": 2}, "disk"),
            ({"architecture": "rpt", "retriever": "random"}, "device"),
            ({"retriever": "fixed"}, "disk"),
            ({"architecture": "base"}, "device"),
            ({"architecture": "landmark"}, "device"),
            ({"architecture": "block-recurrent", "state_tokens": 3}, "device"),
        ],
        {2, 5, 6},
        thorough={0, 1, 3, 4, 7},
        unpack=True,
    ),
)
def test_everything_that_is_kept_is_counted(changes: dict[str, object], place: Place) -> None:
    model = make_model(tiny(vocab=48, **changes)).eval()
    if isinstance(model, DRT):
        model.chunk_vectors = unit_vectors
    ids = random_ids(model.config, 8 * 20 + 3).tolist()
    state = begin_stream(model, dtype=torch.float32, place=place)
    with torch.no_grad():
        for part in (ids[:3], ids[3:90], ids[:1], ids[:1], ids):
            state.prefill(part)
            away = ()
            if isinstance(state, DRTState) and place != "device":
                away = state._store._memory
            assert state.state_bytes == collected(state, without=away) > 0
    assert (collected(state) > state.state_bytes) == (place == "cpu")


def test_a_storage_counts_once_and_a_model_not() -> None:
    whole = torch.zeros(100)
    holder = {"views": [whole[:3], whole[50:]], "model": nn.Linear(50, 50), "other": (whole[0],)}
    assert held_bytes(holder) == 400
    holder["more"] = {torch.zeros(2, dtype=torch.int64)}
    assert held_bytes(holder) == 416
    assert held_bytes(holder, without=[holder["more"]]) == 400
