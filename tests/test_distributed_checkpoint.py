"""Checkpoints of divided parameters: torch.distributed.checkpoint between 1, 2 and 4 processes, and state dicts."""

from __future__ import annotations

import copy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from camhd import Adam, Optimizer
from processes import in_processes
from sharded import alone, assert_close, here, learned, network, train
from sharded_cases import CASES, LEARNING, UNITS, foreach, shard_at_once

pytestmark = [
    pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed"),
    pytest.mark.slow,
]

NAMES = ("sgd", "adamw", "five levels", "multiplicative", "groups", "network", "default, units")
BEFORE, AFTER = 6, 12


def sharded() -> nn.Module:
    model = network()
    shard_at_once(model)
    return model


def fresh(name: str) -> tuple[nn.Module, Optimizer]:
    """Divided over the group, if there is one, with other weights than at the start."""
    model = network()
    if dist.is_initialized():
        shard_at_once(model)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(1)
    return model, CASES[name](model)


def dcp_state(model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    from torch.distributed.checkpoint.state_dict import get_state_dict

    weights, state = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": state}


def dcp_load(path: Path, model: nn.Module, optimizer: Optimizer) -> None:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import set_state_dict

    state = dcp_state(model, optimizer)
    dcp.load(state, checkpoint_id=path)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])


def goes_on(path: Path, name: str) -> dict[str, Any]:
    """From a checkpoint, in as many processes as there are."""
    model, optimizer = fresh(name)
    dcp_load(path / name, model, optimizer)
    rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    for _ in train(model, optimizer, range(BEFORE, AFTER), rank, world):
        pass
    return learned(model, optimizer)


def two(folder: Path, path: Path) -> None:
    import torch.distributed.checkpoint as dcp

    for name in NAMES:
        model = sharded()
        optimizer = CASES[name](model)
        here(model, optimizer, range(BEFORE))
        dcp.save(dcp_state(model, optimizer), checkpoint_id=path / name)
        state_dicts_go_on(name, model, optimizer)
        here(model, optimizer, range(BEFORE, AFTER))
        unbroken = learned(model, optimizer)
        assert_close(goes_on(path, name), unbroken, 0.0)  # the same processes: exact to the bit
        if dist.get_rank() == 0:
            torch.save(unbroken, path / f"{name}.pt")
    full_state_dicts()
    flattened()


def state_dicts_go_on(name: str, model: nn.Module, optimizer: Optimizer) -> None:
    """`state_dict` and `load_state_dict` of one process's part, and a deep copy of the optimizer's state."""
    saved = copy.deepcopy(optimizer.state_dict())
    other = CASES[name](model)
    other.load_state_dict(saved)
    assert_close(learned(model, other), learned(model, optimizer), 0.0)


def full_state_dicts() -> None:
    """What one process saved, every process of a group can load; and the other way round through torch's helpers."""
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions,
        get_optimizer_state_dict,
        set_optimizer_state_dict,
    )

    reference, single = alone(partial(foreach, CASES["five levels"]), BEFORE)
    model = sharded()
    optimizer = CASES["five levels"](model)
    optimizer.load_state_dict(single.state_dict())
    found, wanted = learned(model, optimizer), learned(reference, single)
    for part in ("rates", "combination", "state"):
        assert_close(found[part], wanted[part], 0.0)
    assert all(hasattr(v, "full_tensor") for p in model.parameters() for v in optimizer.state[p].values() if v.dim())
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    gathered = get_optimizer_state_dict(model, optimizer, options=options)
    assert ("state" in gathered) == (dist.get_rank() == 0)
    other = CASES["five levels"](model)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_optimizer_state_dict(model, other, gathered, options=options)
    assert_close(learned(model, other), found, 0.0)


def resumed(folder: Path, path: Path) -> None:
    for name in NAMES:
        wanted = torch.load(path / f"{name}.pt")
        assert_close(goes_on(path, name), wanted, 1e-10)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled, unavailable or uninitialized")  # of the one process
def test_what_two_processes_saved_goes_on_in_one_two_and_four(tmp_path: Path) -> None:
    in_processes(2, two, tmp_path)
    in_processes(4, resumed, tmp_path)
    resumed(tmp_path, tmp_path)


def flattened() -> None:
    """Torch leaves out what an optimizer does not have between two steps."""
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions,
        get_optimizer_state_dict,
        set_optimizer_state_dict,
    )

    model = sharded()
    optimizer = Adam(model, levels=UNITS, **LEARNING)
    here(model, optimizer, range(2))
    options = StateDictOptions(flatten_optimizer_state_dict=True)
    state = get_optimizer_state_dict(model, optimizer, options=options)
    with pytest.raises(ValueError, match="not flattened"):
        set_optimizer_state_dict(model, optimizer, state, options=options)
