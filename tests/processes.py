"""Real processes for tests of what is divided over several: gloo on loopback, met through a file.

The processes are forked from a server that has imported torch once, because importing it takes longer than any of
these tests.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import traceback
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

PRELOAD = [
    "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel",
    "torch.distributed.checkpoint.state_dict",
    "torch.distributed.optim",
    "torch.nn.parallel",
    "camhd.lab.train",
]


def in_processes(count: int, function: Callable[..., Any], *args: Any) -> list[Any]:
    """Call `function(folder, *args)` in so many processes that form a group; give what each returned.

    An exception in one of them is raised here, with its traceback.
    """
    multiprocessing.set_forkserver_preload(PRELOAD)
    with tempfile.TemporaryDirectory() as folder:
        where = (count, folder, function, args)
        try:
            mp.start_processes(_enter, where, nprocs=count, start_method="forkserver")
        except mp.ProcessExitedException:
            told = [file.read_text() for file in sorted(Path(folder).glob("failure*"))]
            raise AssertionError("\n".join(told) or "a process ended without a word") from None
        return [torch.load(Path(folder) / f"result{rank}", weights_only=False) for rank in range(count)]


def _enter(rank: int, count: int, folder: str, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    store = dist.FileStore(os.path.join(folder, "store"), count)
    patience = timedelta(minutes=5)  # for another process; a test must not hang
    dist.init_process_group("gloo", store=store, rank=rank, world_size=count, timeout=patience)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = function(Path(folder), *args)
    except BaseException:
        Path(folder, f"failure{rank}").write_text(f"process {rank}: {traceback.format_exc()}")
        os._exit(1)  # at once, without waiting for messages that will not come
    torch.save(result, os.path.join(folder, f"result{rank}"))
    dist.barrier()
    dist.destroy_process_group()
