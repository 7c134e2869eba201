"""Real processes for tests of what is divided over several: gloo on loopback, met through a file."""

from __future__ import annotations

import os
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def in_processes(count: int, function: Callable[..., None], *args: Any) -> list[Any]:
    """Call `function(folder, *args)` in so many processes that form a group; give what each returned.

    An exception in one of them is raised here, with its traceback.
    """
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_enter, (count, folder, function, args), nprocs=count, join=True)
        results = []
        for rank in range(count):
            result = torch.load(Path(folder) / f"result{rank}", weights_only=False)
            if isinstance(result, _Failure):
                raise AssertionError(f"process {rank} of {count}:\n{result.text}")
            results.append(result)
        return results


class _Failure:
    def __init__(self, text: str) -> None:
        self.text = text


def _enter(rank: int, count: int, folder: str, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    # Torch's own, when FSDP is told to use a mesh of CPUs.
    warnings.filterwarnings("ignore", message=".*barrier.*")
    store = dist.FileStore(os.path.join(folder, "store"), count)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=count)
    try:
        result = function(Path(folder), *args)
    except BaseException:
        result = _Failure(traceback.format_exc())
        torch.save(result, os.path.join(folder, f"result{rank}"))
        os._exit(0)  # whoever waits for this one is told by the parent, which reads the result
    torch.save(result, os.path.join(folder, f"result{rank}"))
    dist.barrier()
    dist.destroy_process_group()
