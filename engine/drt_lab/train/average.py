"""The mean of a model's parameters and those of other runs of the same shape.

Runs that began at the same weights lie in one valley, and the mean of two of them is often better
than either (model soups, Wortsman et al. 2022).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

from drt_engine.errors import ConfigError
from drt_engine.model.protocol import LanguageModel
from drt_lab.lm.build import load_language_model


def averaged(model: LanguageModel, folders: Sequence[Path]) -> LanguageModel:
    """Return a copy of ``model`` whose parameters are the mean over it and the model folders.

    Raises ``ConfigError`` for a folder with other parameters, ``WeightsError`` for one that cannot
    be read.
    """
    mean = copy.deepcopy(model)
    parameters = mean.state_dict()
    for folder in folders:
        other = load_language_model(folder)[0].state_dict()
        for name, tensor in parameters.items():
            if name not in other or other[name].shape != tensor.shape:
                raise ConfigError(
                    f"{folder} lacks {name} {tuple(tensor.shape)}, so optim.average cannot take it"
                )
            if tensor.is_floating_point():
                tensor.add_(other[name].to(tensor.device, tensor.dtype))
    for tensor in parameters.values():
        if tensor.is_floating_point():
            tensor.div_(1 + len(folders))
    return mean
