"""Ways of dividing parameters under which a learning rate that they share would not be one."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from torch import Tensor


def refuse_zero(owner: str) -> None:
    """Refuse to be built by torch's ZeroRedundancyOptimizer, which shows each process some of the parameters."""
    module: Any = sys.modules.get("torch.distributed.optim.zero_redundancy_optimizer")
    frame = None if module is None else sys._getframe(1)
    while frame is not None:
        if isinstance(frame.f_locals.get("self"), module.ZeroRedundancyOptimizer):
            raise ValueError(
                f"ZeroRedundancyOptimizer builds a camhd.{owner} in every process for some of the parameters, so that "
                "a learning rate that they share would be another one in every process; divide the model with "
                f"torch.distributed.fsdp.fully_shard, or use camhd.{owner} itself."
            )
        frame = frame.f_back


def refuse_flattened(params: Iterable[Tensor], owner: str) -> None:
    """Refuse the parameters of FSDP's first version, which have lost their rows."""
    for param in params:
        if getattr(param, "_fsdp_flattened", False):
            raise ValueError(
                f"camhd.{owner} needs to know the rows of a layer, but FullyShardedDataParallel has flattened its "
                "parameters; use torch.distributed.fsdp.fully_shard (FSDP2), which keeps them."
            )
