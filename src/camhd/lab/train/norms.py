"""Batch norm where a model is judged at other weights than it is trained at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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
    norms = _norms(model)
    if not norms:
        return
    for norm in norms:
        norm.train()
    for inputs, _ in islice(batches, BATCHES):
        model(inputs)
    for norm in norms:
        norm.eval()


@contextmanager
def kept(model: nn.Module) -> Iterator[None]:
    """Whatever the batch norms of a model learn in the meantime, afterwards they know what they knew before."""
    known = [(buffer, buffer.clone()) for norm in _norms(model) for buffer in norm.buffers()]
    try:
        yield
    finally:
        for buffer, before in known:
            buffer.copy_(before)


def _norms(model: nn.Module) -> list[_BatchNorm]:
    return [part for part in model.modules() if isinstance(part, _BatchNorm) and part.track_running_stats]
