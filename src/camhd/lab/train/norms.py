"""Batch norm where a model is judged at other weights than it is trained at."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

BATCHES = 50  # as the authors of Schedule-Free say


@torch.no_grad()
def refresh(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> None:
    """Let the batch norms of a model in `eval` see some batches, so that their means are those of its present weights.

    Nothing is done where there are none. No other layer leaves `eval`, so no random number is drawn.

    Args:
        model: at the weights that it will be judged at.
        batches: to learn from.

    Reference: https://github.com/facebookresearch/schedule_free, "Caveats".
    """
    norms = [part for part in model.modules() if isinstance(part, _BatchNorm) and part.track_running_stats]
    if not norms:
        return
    for norm in norms:
        norm.train()
    for inputs, _ in islice(batches, BATCHES):
        model(inputs)
    for norm in norms:
        norm.eval()
