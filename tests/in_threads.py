"""Threads in place of processes, for tests of what is divided over several: torch's own stand-in for a process group.

Nothing has to be started and nothing is sent, so that such a test takes a hundredth of a second, and a mutation tester
sees what it changed. Real processes (`processes.py`) remain the proof that it works.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist


def in_threads(count: int, function: Callable[[], Any]) -> list[Any]:
    """Call `function()` in so many threads that take each other for processes; give what each returned."""
    from torch.testing._internal.distributed import multi_threaded_pg as threaded

    torch._C._distributed_c10d._set_thread_isolation_mode(True)
    threaded._install_threaded_pg()
    store, found, errors = dist.HashStore(), [None] * count, []

    def live(rank: int) -> None:
        dist.init_process_group(backend="threaded", rank=rank, world_size=count, store=store)
        try:
            found[rank] = function()
        except BaseException as error:
            errors.append(error)
            threaded.ProcessLocalGroup.exception_handle(error)  # nobody need wait for this one any more
        finally:
            dist.destroy_process_group()

    threads = [threading.Thread(target=live, args=(rank,), daemon=True) for rank in range(count)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        stuck = any(thread.is_alive() for thread in threads)
        threaded.ProcessLocalGroup.reset()
    finally:
        threaded._uninstall_threaded_pg()
        torch._C._distributed_c10d._set_thread_isolation_mode(False)
    if errors:
        raise next((error for error in errors if isinstance(error, (AssertionError, ValueError))), errors[0])
    assert not stuck, "a thread waits for a message that never comes"
    return found
