"""The parameters that take part in a step, and what a rule has to know of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..rules import TRACE, Batch, new_trace
from ..tree import LocalState, Shards, local, local_grad
from .refused import check_gradient

if TYPE_CHECKING:
    from .optimizer import Optimizer

Numbered = Sequence[tuple[int, Tensor]]  # parameters with their slots


def batches(optimizer: Optimizer) -> list[Batch]:
    """The parameters that have a gradient, by param group. Raises before any state is made."""
    tree, slot, found = optimizer._tree, 0, []
    for index, group in enumerate(optimizer.param_groups):
        numbered = list(enumerate(group["params"], slot))
        slot += len(numbered)
        active = [(at, p) for at, p in numbered if p.grad is not None]
        for at, p in active:
            check_gradient(p.grad, tree.layout.slots[at].name, type(optimizer).__name__)
        if active:
            idle = [(at, p) for at, p in numbered if p.grad is None and optimizer.state.get(p)]
            found.append((index, group, active, idle))
    return [_batch(optimizer, *each) for each in found]


def _batch(optimizer: Optimizer, index: int, group: dict[str, Any], active: Numbered, idle: Numbered) -> Batch:
    tree, states = optimizer._tree, optimizer.state
    for _, p in active:
        if not states[p]:
            states[p] = optimizer.rule.start(real(p), group)
        if optimizer.config.hyper_rule.traced and TRACE not in states[p]:
            states[p][TRACE] = new_trace(real(p))
    spread = optimizer.config.schedule == "all"
    batch = Batch(
        group=index,
        options=group,
        last=group["last_move"] or {},
        factor=tree.factor(optimizer._rates_of(group)) if spread else 1.0,
        last_factor=tree.state.last_moves[index].factor if spread else 1.0,
        slots=[slot for slot, _ in active],
        params=[real(p) for _, p in active],
        grads=[real(p.grad) for _, p in active if p.grad is not None],
        states=[states[p] for _, p in active],
        squares=tree.square_weight(),
    )
    if idle:
        slots, params = [slot for slot, _ in idle], [real(p) for _, p in idle]
        batch = replace(
            batch, idle=replace(batch, slots=slots, params=params, grads=(), states=[states[p] for _, p in idle])
        )
    shards = optimizer._shards
    return batch if shards is None else _parts_of(batch, shards)


def _parts_of(batch: Batch, shards: Shards) -> Batch:
    """This process's parts of parameters, gradients and states that are divided over several."""
    return replace(
        batch,
        params=[local(p) for p in batch.params],
        grads=[local_grad(g, p) for g, p in zip(batch.grads, batch.params, strict=bool(batch.grads))],
        states=[LocalState(state, slot, shards) for state, slot in zip(batch.states, batch.slots, strict=True)],
        idle=None if batch.idle is None else _parts_of(batch.idle, shards),
    )


def real(tensor: Tensor) -> Tensor:
    """A complex tensor as pairs of reals, as torch.optim treats it."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor
