"""Real processes for tests of what is divided over several: gloo on loopback, met through a file.

The processes are forked from a server that has imported torch once, because importing it takes longer than any of
these tests.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
        where = (count, folder, function, args, _counting())
        try:
            mp.start_processes(_enter, where, nprocs=count, start_method="forkserver")
        except mp.ProcessExitedException as ended:
            files = [file for pattern in ("failure*", "said*") for file in sorted(Path(folder).glob(pattern))]
            told = [file.read_text() for file in files]
            raise AssertionError("\n".join([str(ended), *filter(None, told)])) from None
        return [torch.load(Path(folder) / f"result{rank}", weights_only=False) for rank in range(count)]


def _counting() -> str | None:
    """Where this process writes which lines it reaches; None if nobody asks."""
    coverage = sys.modules.get("coverage")
    active = None if coverage is None else coverage.Coverage.current()
    return None if active is None else str(active.config.data_file)


@contextmanager
def _counted(where: str | None) -> Iterator[None]:
    """Count the lines of a process that was forked from a server, and so was not told to do it."""
    if where is None:
        yield
        return
    from coverage import Coverage

    settings = str(Path(__file__).parents[1] / "pyproject.toml")
    counting = Coverage(where, data_suffix=True, config_file=settings, messages=False)
    counting.set_option("run:disable_warnings", ["module-not-measured", "no-data-collected"])  # it is imported already
    with counting.collect():
        yield
    counting.save()


def _listen(file: Path) -> None:
    """Write what a process says that dies of a signal, and where it was; its server's own stderr is nobody's."""
    said = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(said, 2)
    faulthandler.enable(2)


def _enter(
    rank: int, count: int, folder: str, function: Callable[..., Any], args: tuple[Any, ...], counting: str | None
) -> None:
    _listen(Path(folder, f"said{rank}"))
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    torch.set_num_threads(1)
    store = dist.FileStore(os.path.join(folder, "store"), count)
    patience = timedelta(minutes=5)  # for another process; a test must not hang
    dist.init_process_group("gloo", store=store, rank=rank, world_size=count, timeout=patience)
    try:
        with _counted(counting), warnings.catch_warnings():
            warnings.simplefilter("error")
            result = function(Path(folder), *args)
    except BaseException:
        Path(folder, f"failure{rank}").write_text(f"process {rank}: {traceback.format_exc()}")
        os._exit(1)  # at once, without waiting for messages that will not come
    torch.save(result, os.path.join(folder, f"result{rank}"))
    dist.barrier()
    dist.destroy_process_group()
