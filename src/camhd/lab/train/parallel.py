"""One run over several processes, started by torchrun: DDP, or FSDP2.

Every process takes its part of each batch, and the run is that of one process on the joined batch. `Alone` is a
run in one process: the loop asks it what it asks a `Team`, and it answers without doing anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ...optim import Optimizer as Learning
from ..choices import choose
from ..optimizers import Driver
from .tasks import Tally

KINDS = ("ddp", "fsdp")
AGREE_SECONDS = 0.5  # between two questions whether one of them is to stop
LAUNCH = "torchrun --nproc-per-node=2 -m camhd train …"


class Alone:
    """A run in one process."""

    kind: str | None = None
    rank, world = 0, 1

    @property
    def leads(self) -> bool:
        """Whether this process writes the record."""
        return self.rank == 0

    def device(self, name: str) -> torch.device:
        """Where this process computes."""
        return torch.device(name)

    def divide(self, model: nn.Module) -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
        """The model for the optimizer, and what gives its outputs in training."""
        return model, model

    def check(self, driver: Driver) -> None:
        """Refuse an optimizer that several processes cannot share."""

    def agree(self, stop: bool, save: bool) -> tuple[bool, bool]:
        """Whether to stop, and whether to keep a checkpoint: what any of them wants."""
        return stop, save

    def joined(self, tally: Tally, fresh: Tally) -> Tally:
        """The sums of all processes; `fresh` is an empty one to fill."""
        return tally

    def summed(self, total: Tensor, count: int) -> tuple[float, int]:
        """A sum over examples, and their number, of all processes."""
        return total.item(), count

    def gather(self, value: Any) -> list[Any]:
        """What each process has."""
        return [value]

    def tell(self, value: Any) -> Any:
        """What the leading process has."""
        return value

    def whole(self, state: Any) -> Any:
        """A state that can be saved by one process."""
        return state

    def load(self, model: nn.Module, driver: Driver, saved: Mapping[str, Any]) -> None:
        """Go on from a saved model and optimizer."""
        model.load_state_dict(saved["model"])
        driver.load_state_dict(saved["driver"])


class Team(Alone):
    """A run over the processes of torch's default group.

    Args:
        kind: "ddp" or "fsdp".
        device: as torch calls it; a GPU without a number is the one of this process's own.
    """

    def __init__(self, kind: str, device: str) -> None:
        choose("parallel", kind, KINDS)
        self.kind, self.rank, self.world = kind, dist.get_rank(), dist.get_world_size()
        self._device = torch.device(device)
        if self._device.type == "cuda":
            self._device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", self.rank)))
            torch.cuda.set_device(self._device)
        self._calls, self._pause, self._asked = 0, 1, perf_counter()

    def device(self, name: str) -> torch.device:
        return self._device

    def divide(self, model: nn.Module) -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
        model = _joined_norms(model, self._device)
        if self.kind == "fsdp":
            fully_shard(model, self._device)
            return model, model
        ids = [self._device.index] if self._device.type == "cuda" else None
        return model, nn.parallel.DistributedDataParallel(model, device_ids=ids)

    def check(self, driver: Driver) -> None:
        optimizer = driver.optimizer
        kind = type(optimizer).__name__
        if type(driver) is not Driver or getattr(optimizer, "needs_loss", False):
            raise ValueError(
                f"'parallel' needs an optimizer that steps from gradients alone, but {kind} also takes the loss or "
                "the model, of which each process has a part; train it in one process."
            )
        known = isinstance(optimizer, Learning) or type(optimizer).__module__.startswith("torch.optim")
        if self.kind == "fsdp" and not known:
            raise ValueError(
                f"'parallel' fsdp divides every parameter, which {kind} may not know; take ddp, or an optimizer of "
                "camhd or torch.optim."
            )

    def agree(self, stop: bool, save: bool) -> tuple[bool, bool]:
        self._calls += 1
        if self._calls < self._pause:
            return False, False
        now = perf_counter()
        found = torch.tensor([stop, save, now - self._asked], dtype=torch.float64).to(self._device)
        dist.all_reduce(found, op=dist.ReduceOp.MAX)
        wants_stop, wants_save, seconds = found.tolist()
        # All of them have the same numbers here, and so ask again at the same step.
        self._pause = max(1, min(int(self._calls * AGREE_SECONDS / max(seconds, 1e-9)), 2 * self._calls))
        self._calls, self._asked = 0, now
        return wants_stop > 0, wants_save > 0

    def joined(self, tally: Tally, fresh: Tally) -> Tally:
        found: dict[str, Tensor] = {}
        for state in self.gather({name: value.cpu() for name, value in tally.state().items()}):
            for name, value in state.items():
                if value.numel():  # a process that has had no example yet has no sums
                    found[name] = found[name] + value if name in found and found[name].numel() else value
                else:
                    found.setdefault(name, value)
        fresh.load(found)
        return fresh

    def summed(self, total: Tensor, count: int) -> tuple[float, int]:
        found = torch.stack([total, total.new_full((), count)])
        dist.all_reduce(found)
        return found[0].item(), int(found[1])

    def gather(self, value: Any) -> list[Any]:
        found: list[Any] = [None] * self.world
        dist.all_gather_object(found, value)
        return found

    def tell(self, value: Any) -> Any:
        found = [value if self.leads else None]
        dist.broadcast_object_list(found, device=self._device)
        return found[0]

    def whole(self, state: Any) -> Any:
        if isinstance(state, Mapping):
            return {name: self.whole(value) for name, value in state.items()}
        if isinstance(state, (list, tuple)):
            return type(state)(self.whole(value) for value in state)
        if hasattr(state, "full_tensor"):
            state = state.full_tensor()  # all of them take part; the leading one keeps it
            return state.cpu() if self.leads else None
        return state

    def load(self, model: nn.Module, driver: Driver, saved: Mapping[str, Any]) -> None:
        likes = model.state_dict()
        model.load_state_dict({name: _divided(value, likes.get(name)) for name, value in saved["model"].items()})
        state = dict(saved["driver"])
        if driver.optimizer is not None and "state" in state:
            params = [p for group in driver.optimizer.param_groups for p in group["params"]]
            state["state"] = {
                at: {name: _divided(value, params[at]) for name, value in entries.items()}
                for at, entries in state["state"].items()
            }
        driver.load_state_dict(state)


def leads(kind: str | None) -> bool:
    """Whether this process is the one that writes and prints; the first, if several share a run."""
    return kind is None or int(os.environ.get("RANK", "0")) == 0


def check_started(kind: str | None) -> None:
    """Refuse to train the same run in each of several processes."""
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if kind is None and started > 1 and "LOCAL_RANK" in os.environ:
        raise ValueError(
            f"torchrun has started {started} processes, but 'parallel' does not say how they share the run; "
            "give ddp or fsdp, or start one process."
        )


@contextmanager
def team(kind: str | None, device: str) -> Iterator[Alone]:
    """The processes that share a run; a context manager, at the end of which they part.

    Args:
        kind: None for a run in one process, "ddp" or "fsdp".
        device: as torch calls it.
    """
    if kind is None:
        yield Alone()
        return
    choose("parallel", kind, KINDS)
    there = dist.is_initialized()
    if not there and "RANK" not in os.environ:
        raise ValueError(f"'parallel' needs several processes, but there is one; start it as {LAUNCH}")
    if not there:
        dist.init_process_group("nccl" if torch.device(device).type == "cuda" else "gloo")
    try:
        yield Team(kind, device)
    finally:
        if not there:
            dist.destroy_process_group()


def fully_shard(model: nn.Module, device: torch.device) -> None:
    """FSDP2: every part of the model is gathered when it is needed; tensors that parts share stay with the whole."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard as shard

    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    names = [id(p) for _, p in model.named_parameters(remove_duplicate=False)]
    if len(names) == len(set(names)):
        for part in _parts(model):
            shard(part, mesh=mesh)
    shard(model, mesh=mesh)


def _parts(model: nn.Module) -> Iterator[nn.Module]:
    for child in model.children():
        if isinstance(child, (nn.ModuleList, nn.ModuleDict)):
            yield from _parts(child)
        elif any(True for _ in child.parameters()):
            yield child


def _joined_norms(model: nn.Module, device: torch.device) -> nn.Module:
    """A model whose batch normalisation sees the whole batch."""
    found = [name for name, part in model.named_modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    if not found:
        return model
    if device.type != "cuda":
        raise ValueError(
            f"'parallel' would give batch normalisation ({found[0]!r}) the statistics of each process's part of a "
            "batch, and torch joins them on GPUs only; train this model in one process, or one without it."
        )
    synced: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    return synced


def _divided(value: Any, like: Any) -> Any:
    """A saved tensor, divided as its like is."""
    if not isinstance(value, Tensor) or not hasattr(like, "placements") or value.shape != like.shape:
        return value
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements, src_data_rank=None)
