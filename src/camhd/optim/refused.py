"""What is refused at the door: a wrong lr, gradients that no rule takes, parameters whose rates could not be shared."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import Any

from torch import Tensor

from ..tree import check_number


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


def check_params(params: object, owner: str) -> None:
    """Refuse what cannot be parameters at all; what is in it, torch looks at."""
    if isinstance(params, (set, frozenset)):
        raise TypeError(
            f"camhd.{owner} needs parameters in an order that is the same in every run, got a set; pass a list."
        )
    if isinstance(params, str) or not isinstance(params, (Iterable, Tensor)):
        raise TypeError(
            f"camhd.{owner} needs a module, parameters, named parameters or param-group dicts, got {params!r}."
        )


def check_group(group: object, owner: str) -> None:
    """Refuse a param group without parameters, or with names that are none."""
    if not isinstance(group, dict):
        return  # torch says it
    if "params" not in group:
        raise ValueError(f"a param group of camhd.{owner} must have 'params', got {sorted(map(str, group))}.")
    params = group["params"]
    if isinstance(params, (list, tuple)):
        for one in params:
            if isinstance(one, tuple) and one and not isinstance(one[0], str):
                raise TypeError(f"the name of a parameter must be a string, got {one[0]!r}.")


def check_gradient(grad: Tensor, name: str, owner: str) -> None:
    """Refuse a gradient that no rule can take."""
    if grad.is_sparse:
        raise RuntimeError(
            f"camhd.{owner} does not support sparse gradients, but that of {name!r} is sparse; use "
            "torch.optim.SparseAdam for it, or make the gradient dense (sparse=False in the embedding)."
        )
    if not (grad.is_floating_point() or grad.is_complex()):
        raise RuntimeError(
            f"camhd.{owner} needs gradients of real or complex numbers, but that of {name!r} is {grad.dtype}; leave "
            "the parameter out, or make it floating-point."
        )


def check_lr(lr: float | Tensor) -> None:
    """Refuse an lr that is no learning rate."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError(f"Tensor lr must be 1-element, got shape {tuple(lr.shape)}.")
    if not isinstance(lr, Tensor):
        check_number("lr", lr)
    if not 0 <= float(lr) < math.inf:
        raise ValueError(f"Invalid learning rate: {float(lr)}; 'lr' must be 0 or more and finite.")


def check_start(lr: float | Tensor) -> None:
    """Refuse an lr to start from that a schedule could not multiply."""
    if isinstance(lr, Tensor) and float(lr) == 0:
        raise ValueError(
            "A Tensor lr must start above 0, because a schedule acts as a multiple of the first lr; start from the "
            "lr it should reach and let the schedule begin at 0."
        )
