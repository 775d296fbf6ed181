"""Models in shards (FSDP2): each rank holds a part of every parameter, gradient and moment.

Where all batches run the layers alike, a layer is gathered when it runs, and its gradients are
summed and cut again as soon as they are there. Ranks whose batches run different layers would wait
for one another forever: there, all parameters are gathered once for each step, and the gradients
are summed after its last batch. Only moments, and parameters between steps, are then in shards.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from drt_engine.model.chunk_encoder import BertBlock, LlamaBlock
from drt_engine.model.drt import LowerLayer, UpperLayer
from drt_engine.model.protocol import LanguageModel
from drt_engine.model.weights import empty_model
from drt_lab.lm.block_recurrent import RecurrentLayer
from drt_lab.lm.build import make_model
from drt_lab.lm.landmark_attention import LandmarkLayer
from drt_lab.train.optim import clip_by_norms
from drt_lab.train.ranks import Ranks, add_gradients, trained_parameters
from drt_lab.train.sharded_checkpoint import AsyncCheckpoints, load_into_shards

# Each is gathered and freed as a whole; what is in none of them belongs to the model itself, and
# stays gathered throughout a batch: embeddings are needed at both of its ends.
BLOCKS = (LowerLayer, UpperLayer, RecurrentLayer, LandmarkLayer, BertBlock, LlamaBlock)


def shard_model(model: nn.Module, device: torch.device, *, by_layer: bool) -> None:
    """Cut the parameters of a model into shards, in place, whether it has memory or not.

    Scalars stay whole on every rank. All ranks must call this together.
    """
    # Streams come out as views of the flat sequence, and nothing writes into them.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    scalars = {parameter for parameter in model.parameters() if parameter.dim() == 0}
    blocks = [module for module in model.modules() if by_layer and isinstance(module, BLOCKS)]
    for module in [*blocks, model]:
        sharded = fully_shard(module, mesh=mesh, ignored_params=scalars & set(module.parameters()))
        # Losses are divided by the number of batches of all ranks: gradients are added up.
        sharded.set_gradient_divide_factor(1.0)
        sharded.set_force_sum_reduction_for_comms(True)  # Gloo knows no other


def fill(model: nn.Module, tensors: dict[str, Tensor] | None) -> None:
    """Fill a sharded model from the whole ``tensors`` of rank 0; other ranks give ``None``."""
    for name, target in model.state_dict().items():
        whole = torch.empty(target.shape, dtype=target.dtype, device=target.device)
        if tensors is not None:
            whole.copy_(tensors[name])
        dist.broadcast(whole, 0)  # one parameter at a time is whole on every rank
        _local(target).copy_(_local(_cut(whole, target)))


class Shards:
    """A sharded model on the ranks of the default process group; a ``Parallel``."""

    saves_together = True

    def __init__(self, model: LanguageModel, ranks: Ranks, *, by_layer: bool) -> None:
        assert isinstance(model, FSDPModule)
        self._model, self._ranks, self._by_layer = model, ranks, by_layer
        self._checkpoints = AsyncCheckpoints(ranks)
        if not by_layer:
            model.set_requires_gradient_sync(False)
            model.set_reshard_after_backward(False)

    def begin_step(self) -> None:
        """Gather all parameters, unless layers gather their own; look after the last checkpoint."""
        self._checkpoints.poll()
        if not self._by_layer:
            self._model.unshard()

    def reduce_gradients(self, optimizer: torch.optim.AdamW) -> None:
        """Sum what the layers have not: all gradients, or those of the scalars, which are whole."""
        if self._by_layer:
            whole = [p for p in trained_parameters(optimizer) if not isinstance(p, DTensor)]
            add_gradients(self._ranks, whole)
            return
        trained = [p for p in self._model.parameters() if p.requires_grad]
        add_gradients(self._ranks, trained)
        gradients = [p.grad for p in trained]
        for parameter in trained:
            parameter.grad = None
        self._model.reshard()  # from here on, the model's parameters are its shards
        shards = [p for p in self._model.parameters() if p.requires_grad]
        for parameter, gradient in zip(shards, gradients, strict=True):
            parameter.grad = None if gradient is None else _cut(gradient, parameter)

    def clip(self, optimizer: torch.optim.AdamW, max_norm: float) -> float:
        """Clip the shards by norms over all ranks."""
        groups = [
            [p.grad for p in group["params"] if p.grad is not None]
            for group in optimizer.param_groups
        ]
        # What is whole on every rank counts once.
        squares = [self._squares(g for g in group if self._counts(g)) for group in groups]
        total = torch.stack(squares)
        self._ranks.add(total)
        return clip_by_norms(
            [[_local(g) for g in group] for group in groups], total.sqrt(), max_norm
        )

    def load(self, state: Path, optimizer: torch.optim.AdamW) -> dict[str, Any]:
        """Restore the shards of this rank."""
        return load_into_shards(state, self._model, optimizer)

    def save(self, state: Path, optimizer: torch.optim.AdamW, extra: dict[str, Any]) -> None:
        """Copy the shards, and write them while training goes on."""
        self._checkpoints.begin(state, self._model, optimizer, extra)

    def finish(self) -> None:
        """Wait until the last checkpoint is on the disk."""
        self._checkpoints.finish()

    def whole_model(self) -> LanguageModel | None:
        """Gather the parameters in the memory of rank 0's processor, one at a time."""
        tensors: dict[str, Tensor] = {}
        for name, tensor in self._model.state_dict().items():
            whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
            if self._ranks.rank == 0:
                tensors[name] = whole.detach().cpu().clone()
        if self._ranks.rank:
            return None
        model = empty_model(make_model, self._model.config)
        model.load_state_dict(tensors, assign=True)
        return model

    def check_sums(self) -> list[float]:
        """Return the sums of the scalars: no other parameter is on all ranks."""
        parameters = self._model.parameters()
        return [float(p.detach()) for p in parameters if not isinstance(p, DTensor)]

    def _counts(self, gradient: Tensor) -> bool:
        return isinstance(gradient, DTensor) or self._ranks.rank == 0

    def _squares(self, gradients: Iterable[Tensor]) -> Tensor:
        device = next(self._model.parameters()).device
        total = torch.zeros((), dtype=torch.float64, device=device)
        for gradient in gradients:
            total += _local(gradient).double().square().sum()
        return total


def _cut(whole: Tensor, like: Tensor) -> Tensor:
    """Return this rank's shard of a tensor that every rank has whole, cut as ``like``."""
    if not isinstance(like, DTensor):
        return whole
    return distribute_tensor(whole, like.device_mesh, like.placements, src_data_rank=None)


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
