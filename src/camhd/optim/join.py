"""Uneven inputs under DDP: torch's `Join`, with the optimizer taking part.

    with Join([model, JoinedState(optimizer, model)]):
        for inputs, targets in shares_of_different_length:
            ...

`Join` keeps a process that has run out of inputs from holding up the others, and gives it their final weights. An
optimizer has state, too: rates, γ and moments of the process that stopped early are those of its last step. With
`JoinedState` it gets the state of those that went on, so that all are alike to the bit when the next epoch begins.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join, Joinable, JoinHook
from torch.nn.parallel import DistributedDataParallel


class JoinedState(Joinable):
    """An optimizer that takes part in `torch.distributed.algorithms.Join`.

    Args:
        optimizer: of the model's parameters; any torch optimizer.
        model: the model in DDP, whose processes these are.

    >>> issubclass(JoinedState, Joinable)
    True
    """

    def __init__(self, optimizer: torch.optim.Optimizer, model: DistributedDataParallel) -> None:
        super().__init__()
        self.optimizer, self._model = optimizer, model

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What happens at the end."""
        return _GiveState(self)

    @property
    def join_device(self) -> torch.device:
        """Where messages are sent from."""
        device: torch.device = self._model.join_device
        return device

    @property
    def join_process_group(self) -> Any:
        """The processes."""
        return self._model.join_process_group


class _GiveState(JoinHook):
    """A step sends no messages, so there is nothing to stand in for; at the end, the last one's state goes to all."""

    def __init__(self, joined: JoinedState) -> None:
        self.joined = joined

    def post_hook(self, is_last_joiner: bool) -> None:
        joined, group = self.joined, self.joined.join_process_group
        rank = dist.get_rank(group)
        last = torch.tensor([rank if is_last_joiner else -1], device=joined.join_device)
        dist.all_reduce(last, op=dist.ReduceOp.MAX, group=group)
        state = [joined.optimizer.state_dict() if rank == int(last) else None]
        source = dist.get_global_rank(group, int(last))
        dist.broadcast_object_list(state, src=source, group=group, device=joined.join_device)
        if not is_last_joiner:
            assert state[0] is not None
            joined.optimizer.load_state_dict(state[0])


__all__ = ["Join", "JoinedState"]
