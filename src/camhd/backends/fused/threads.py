"""Threads of our own that help with the passes where torch's are not to be had: safe in threads and after a fork.

Numba's own thread pools are not both (one does not survive a fork, one no second caller), and a step
needs less than a pool: somebody to take work items if there is time. Nobody waits for a helper to wake up.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import torch

# Below this many scalars for each thread, another thread costs more than it saves.
WORTH_A_THREAD = 20_000

Task = tuple[Callable[..., Any], tuple[Any, ...]]


class _Helpers:
    """Idle threads that take tasks from one queue. They end with the process."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[Task] = SimpleQueue()
        self.count, self.process, self.lock = 0, os.getpid(), threading.Lock()

    def ensure(self, count: int) -> None:
        with self.lock:
            while self.count < count:
                threading.Thread(target=self._help, name=f"camhd-{self.count}", daemon=True).start()
                self.count += 1

    def _help(self) -> None:
        queue = self.queue
        while True:
            function, arguments = queue.get()
            try:
                function(*arguments)
            except Exception:  # the step does not depend on us: say it and be there for the next one
                sys.excepthook(*sys.exc_info())
            del function, arguments  # arrays of a step must not outlive it here


_helpers = _Helpers()


def how_many(scalars: int) -> int:
    """How many threads a pass over so many scalars should have."""
    return max(1, min(torch.get_num_threads(), scalars // WORTH_A_THREAD))


def ask_for_help(helpers: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Let so many other threads call the function, as soon as they wake up."""
    global _helpers
    if _helpers.process != os.getpid():  # a child of a fork has the object but not the threads
        _helpers = _Helpers()
    if _helpers.count < helpers:
        _helpers.ensure(helpers)
    for _ in range(helpers):
        _helpers.queue.put((function, arguments))
