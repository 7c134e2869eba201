"""Threads of our own for the passes: as many as torch uses, safe beside it, in threads and after a fork.

Numba's own thread pools are none of these at once (one does not survive a fork, one no second thread), and a
step needs only this: the same function over several ranges, with the GIL released, and a wait.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

import torch

# Below this many scalars a second thread costs more than it saves.
WORTH_A_THREAD = 60_000


class _Task:
    """One range of a pass, given to another thread."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function, self.arguments = function, arguments
        self.error: BaseException | None = None
        self.done = threading.Lock()
        self.done.acquire()

    def run(self) -> None:
        try:
            self.function(*self.arguments)
        except BaseException as error:
            self.error = error
        finally:
            self.done.release()


class _Workers:
    """Idle threads that take tasks from one queue. They end with the process."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[_Task] = SimpleQueue()
        self.count, self.process, self.lock = 0, os.getpid(), threading.Lock()

    def ensure(self, count: int) -> None:
        with self.lock:
            while self.count < count:
                threading.Thread(target=self._work, name=f"camhd-{self.count}", daemon=True).start()
                self.count += 1

    def _work(self) -> None:
        queue = self.queue
        while True:
            queue.get().run()


_workers = _Workers()


def how_many(scalars: int) -> int:
    """How many threads a pass over so many scalars should have."""
    return max(1, min(torch.get_num_threads(), scalars // WORTH_A_THREAD))


def run(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> None:
    """Call the function with each tuple of arguments, side by side; the first in this thread."""
    if len(calls) == 1:
        function(*calls[0])
        return
    global _workers
    if _workers.process != os.getpid():  # a child of a fork has the object but not the threads
        _workers = _Workers()
    _workers.ensure(len(calls) - 1)
    tasks = [_Task(function, arguments) for arguments in calls[1:]]
    for task in tasks:
        _workers.queue.put(task)
    try:
        function(*calls[0])
    finally:
        for task in tasks:
            task.done.acquire()
    for task in tasks:
        if task.error is not None:
            raise task.error
