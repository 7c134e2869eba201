"""What a step's threads have to know, as one table of numbers: sizes, switches, and the addresses of all arrays.

One pointer can be handed to any thread of any pool, and a table that is made once costs nothing at a step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Sizes and switches.
KIND, LEAF, COSINE, COMBINE, THREADS, DO, LOOKS_BACK, LEARNS_HERE, OUTCOME = range(9)
ITEM_COUNT, ROW_COUNT, SLOT_COUNT, CELL_COUNT, GROUP_COUNT, LEVEL_COUNT, RATE_COUNT = range(9, 16)
CHUNK, WHO = 16, 17  # scalars of a chunk; who reads this
THREAD_NUMBER, PAUSE = 18, 19  # addresses of C functions: which thread of its team calls; let another thread run
# Addresses of arrays.
CONTROL, RANGES, ITEMS, PLACES, CONSTANTS, STEPS, MOVED, FIRST, NOW, LAST, SETTINGS = range(20, 31)
KAPPA, LAST_KAPPA, SUMS, SLOPES, CELLS, RATES, SCALES, BETA, WEIGHTS, LAST_WEIGHTS, SLOPE = range(31, 42)
FORM, BASE, INDEX, WORK, CAPS = range(42, 47)
# With a trace of directions.
SIZES, STALE, LAST_ALPHA, MEMORY, LAYER_OF, LAYERS, RULE_STATE, PARENTS, HORIZON, LAYER_COUNT, USUAL = range(47, 58)
LENGTH = 58

OBSERVE, LEARN, MOVE = 1, 2, 4  # what to do, in `DO`
LEADER, HELPER, ONE_OF_A_TEAM = 0, 1, 2  # in `WHO`


class Block:
    """The table, which keeps alive the arrays whose addresses are in it."""

    def __init__(self) -> None:
        self.numbers = np.zeros(LENGTH, dtype=np.int64)
        self.address = self.numbers.ctypes.data
        self._arrays: dict[int, np.ndarray[Any, Any]] = {}

    def put(self, place: int, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Note an array. The same array comes back."""
        assert array.flags.c_contiguous
        self._arrays[place] = array
        self.numbers[place] = array.ctypes.data
        return array
