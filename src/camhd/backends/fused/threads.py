"""The threads of a step: torch's own where they can be had, otherwise ours; safe in threads and after a fork.

Torch brings an OpenMP runtime, and its worker threads are awake when a step comes: a backward pass has just ended.
Handing them a step costs two microseconds, and no core has two owners. Where the runtime cannot be found, or after a
fork, which it does not survive, threads of our own help. Numba's thread pools would not do: one does not survive a
fork, one no second caller. Nobody waits for a helper of ours to wake up.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch

from . import block as at
from . import passes, tables
from .block import Block
from .entries import Entry

# Below this many scalars for each thread, another thread costs more than it saves.
WORTH_A_THREAD = 20_000


def how_many(scalars: int) -> int:
    """How many threads a pass over so many scalars should have."""
    return max(1, min(torch.get_num_threads(), scalars // WORTH_A_THREAD))


def _function(name: str) -> Any:
    """A C function of this process, if there is one of that name."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):
        return None


def _address(function: Any) -> int:
    return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0


_parallel, _thread_number, _yield = (
    _function("GOMP_parallel"),
    _function("omp_get_thread_num"),
    _function("sched_yield"),
)
_process = os.getpid()
if _parallel is not None:
    _parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    _parallel.restype = None


def torchs_are_there() -> bool:
    """Whether torch's threads can be had here and now."""
    return _parallel is not None and _thread_number is not None and os.getpid() == _process


class _Helpers:
    """Idle threads that take tasks from one queue. They end with the process."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[tuple[Callable[..., Any], int, Any]] = SimpleQueue()
        self.count, self.process, self.lock = 0, os.getpid(), threading.Lock()

    def ensure(self, count: int) -> None:
        with self.lock:
            while self.count < count:
                threading.Thread(target=self._help, name=f"camhd-{self.count}", daemon=True).start()
                self.count += 1

    def _help(self) -> None:
        queue = self.queue
        while True:
            function, address, arrays = queue.get()
            try:
                function(address)
            except Exception:  # the step does not depend on us: say it and be there for the next one
                sys.excepthook(*sys.exc_info())
            del function, address, arrays  # arrays of a step must not outlive it here


_helpers = _Helpers()


def _ask_for_help(helpers: int, function: Callable[..., Any], address: int, arrays: Any) -> None:
    """Let so many other threads call the function, as soon as they wake up, and keep the arrays for them until then."""
    global _helpers
    if _helpers.process != os.getpid():  # a child of a fork has the object but not the threads
        _helpers = _Helpers()
    if _helpers.count < helpers:
        _helpers.ensure(helpers)
    for _ in range(helpers):
        _helpers.queue.put((function, address, arrays))


class Team:
    """Runs the steps of one plan.

    Args:
        block: what its threads have to know.
        items: the work items.
        entry: the compiled step.
        keep: arrays that must stay alive as long as a thread is at work, beside those of the block.
    """

    def __init__(self, block: Block, items: np.ndarray[Any, Any], entry: Entry, keep: Any) -> None:
        self.block, self.items, self.keep = block, items, keep
        self.entry = entry
        self.threads = 0
        block.numbers[at.THREAD_NUMBER], block.numbers[at.PAUSE] = _address(_thread_number), _address(_yield)

    def run(self, do: int, threads: int) -> None:
        """Carry out these parts of a step. Returns when all is done."""
        block = self.block
        if threads != self.threads:
            self._divide(threads)
        block.numbers[at.DO] = do
        if threads == 1:
            self.entry.call(block.address)
        elif torchs_are_there():
            self.control[passes.PHASE], block.numbers[at.WHO] = 0, at.ONE_OF_A_TEAM
            _parallel(self.entry.address, block.address, threads, 0)
        else:
            self._with_help(do, threads)

    def _divide(self, threads: int) -> None:
        """Ranges of items for so many threads, of equal work."""
        work = np.cumsum((self.items[:, tables.LAST_RUN] - self.items[:, tables.RUN]) * np.maximum(
            self.items[:, tables.STOP] - self.items[:, tables.START], 1
        ))  # fmt: skip
        total = work[-1] if len(work) else 0
        self.threads = 0  # until all of it is noted
        inner = np.searchsorted(work, total * np.arange(1, threads) / threads)
        ranges = np.array([0, *inner, len(self.items)], dtype=np.int64)
        self.ranges = self.block.put(at.RANGES, ranges)
        self.control = self.block.put(at.CONTROL, _new_control(threads))
        self.block.numbers[at.THREADS], self.block.numbers[at.WHO] = threads, at.LEADER
        self.threads = threads

    def _with_help(self, do: int, threads: int) -> None:
        """A helper that wakes up late must find the step as it was, and nothing left to do in it."""
        block = self.block
        self.control = block.put(at.CONTROL, _new_control(threads))
        block.numbers[at.WHO] = at.LEADER
        seen = block.numbers.copy()
        seen[at.WHO] = at.HELPER
        if do & at.OBSERVE:  # thread 0 changes them over in its own table
            seen[at.KAPPA], seen[at.LAST_KAPPA] = block.numbers[at.LAST_KAPPA], block.numbers[at.KAPPA]
        arrays = (seen, self.control, self.ranges, block, self.keep)  # the next step may put others into the block
        try:
            _ask_for_help(threads - 1, self.entry.call, seen.ctypes.data, arrays)
            self.entry.call(block.address)
        except BaseException:
            _send_away(self.control)
            raise


def _new_control(threads: int) -> np.ndarray[Any, Any]:
    return np.zeros(passes.COUNTERS + 2 * passes.LINE * threads, dtype=np.int64)


def _send_away(control: np.ndarray[Any, Any]) -> None:
    """Let helpers go that wait for a step which was cut short before it began: nothing is left to be taken."""
    control[passes.COUNTERS :] = np.iinfo(np.int64).max // 2
    control[passes.PHASE] = passes.MOVING
