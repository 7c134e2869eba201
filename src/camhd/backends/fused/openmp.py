"""The passes on torch's own threads.

Torch brings an OpenMP runtime, and its worker threads are awake when a step comes: a backward pass has
just ended. Handing them a pass costs two microseconds, and no core has two owners. Where the runtime
cannot be found, or after a fork, which it does not survive, `camhd.backends.fused.threads` helps instead.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np
from numba import carray, cfunc, types

from . import kernels, passes
from .jit import FINGERPRINT, pointer

# Where the arrays of a pass are noted in `block`: addresses and lengths.
KIND, LEAF, ITEMS, ITEM_COUNT, CONTROL, PLACES, SLOT_COUNT, CONSTANTS = 0, 1, 2, 3, 4, 5, 6, 7
LAST, KAPPA, CELL_COUNT, SUMS, RUN_COUNT, SLOPES = 8, 9, 10, 11, 12, 13
BLOCK = 14

_ENTRY = types.void(types.CPointer(types.int64))


def _entries(real, fingerprint=FINGERPRINT):
    """The two passes as C functions of one pointer, for one dtype.

    Numba looks at what a function closes over before it takes machine code from the disk: hence the fingerprint.
    """

    def observe(address):
        block, _ = carray(address, BLOCK), fingerprint
        whole, number, like = np.empty(0, np.int64), np.empty(0, np.float64), np.empty(0, real)
        slots, cells = block[SLOT_COUNT], block[CELL_COUNT]
        last = carray(pointer(block[LAST], number), (2, cells))
        passes.observe(
            block[KIND], block[LEAF] != 0, carray(pointer(block[ITEMS], whole), (block[ITEM_COUNT], 6)),
            carray(pointer(block[CONTROL], whole), passes.CONTROL), carray(pointer(block[PLACES], whole), (slots, 9)),
            carray(pointer(block[CONSTANTS], like), (slots, kernels.CONSTANTS)), last[0], last[1],
            carray(pointer(block[SUMS], number), (block[RUN_COUNT], 3)), like,
        )  # fmt: skip

    def move(address):
        block, _ = carray(address, BLOCK), fingerprint
        whole, number, like = np.empty(0, np.int64), np.empty(0, np.float64), np.empty(0, real)
        slots, cells = block[SLOT_COUNT], block[CELL_COUNT]
        passes.move(
            block[KIND], block[LEAF] != 0, carray(pointer(block[ITEMS], whole), (block[ITEM_COUNT], 6)),
            carray(pointer(block[CONTROL], whole), passes.CONTROL), carray(pointer(block[PLACES], whole), (slots, 9)),
            carray(pointer(block[CONSTANTS], like), (slots, kernels.CONSTANTS)),
            carray(pointer(block[LAST], number), (2, cells)), carray(pointer(block[KAPPA], number), (2, cells)),
            carray(pointer(block[SLOPES], number), block[ITEM_COUNT]), like,
        )  # fmt: skip

    return tuple(_compiled(function) for function in (observe, move))


def _compiled(function):
    try:
        return cfunc(_ENTRY, cache=True)(function)
    except RuntimeError:  # no folder to write to
        return cfunc(_ENTRY)(function)


def _find() -> Any:
    """The runtime's call that runs a function on all threads of a team, if there is one in this process."""
    try:
        found = ctypes.CDLL(None).GOMP_parallel
    except (OSError, AttributeError, TypeError):
        return None
    found.argtypes, found.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], None
    return found


_parallel, _process = _find(), os.getpid()
_compiled_for: dict[Any, Any] = {}


def usable() -> bool:
    """Whether torch's threads can be had here and now."""
    return _parallel is not None and os.getpid() == _process


class Team:
    """The two passes of one plan, on torch's threads."""

    def __init__(self, kind: int, plan: Any) -> None:
        dtype = plan.like.dtype
        if dtype not in _compiled_for:
            _compiled_for[dtype] = _entries(np.float32 if dtype == np.float32 else np.float64)
        self.entries, self.plan = _compiled_for[dtype], plan
        self.control = np.zeros(passes.CONTROL, dtype=np.int64)
        self.block = np.array([
            kind, plan.leaf, plan.items.ctypes.data, len(plan.items), self.control.ctypes.data, plan.places.ctypes.data,
            len(plan.places), plan.constants.ctypes.data, 0, 0, len(plan.group_of_cell), plan.sums.ctypes.data,
            len(plan.sums), plan.slopes.ctypes.data,
        ], dtype=np.int64)  # fmt: skip
        self.address = self.block.ctypes.data

    def begin(self) -> None:
        """Note where κ lies at this step, and that no item has been taken."""
        self.control[:] = 0
        self.block[LAST], self.block[KAPPA] = self.plan.last_kappa.ctypes.data, self.plan.kappa.ctypes.data

    def run(self, which: int, threads: int) -> None:
        """A pass: 0 observes, 1 moves. Returns when all threads are done."""
        _parallel(self.entries[which].address, self.address, threads, 0)
