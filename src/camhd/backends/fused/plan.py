"""The plan of a fused step: where everything lies in memory, and who does what.

Made once for an optimizer and kept as long as its tree stays as it is; each step only looks up addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...combine import Combination, Fixed, Normalized, Softmax
from ...hyper import Additive, LongHorizon, Multiplicative
from ...tree import RateTree
from . import block as at
from . import kernels, learning, tables
from .block import Block
from .core import OPTIONS
from .entries import Entry, entry
from .threads import Team

# A work item: large enough that taking it costs nothing, small enough that no thread waits long for another.
SMALLEST_ITEM, LARGEST_ITEM, ITEMS = 2048, 131_072, 32
FEW_SCALARS = 500_000
COMBINATIONS: dict[type[Combination], int] = {
    Fixed: learning.FIXED,
    Normalized: learning.NORMALIZED,
    Softmax: learning.SOFTMAX,
}


def why_not(tree: RateTree, params: Sequence[Tensor]) -> str | None:
    """What keeps these parameters and this tree from the fused kernels, if anything does."""
    dtypes = {param.dtype for param in params}
    if any(param.device.type != "cpu" for param in params):
        return "the parameters are not on the CPU"
    if dtypes not in ({torch.float32}, {torch.float64}):
        return f"the parameters are {' and '.join(sorted(str(d).removeprefix('torch.') for d in dtypes))}"
    if not any(param.numel() for param in params):
        return "there are no scalars"
    for slot, param, cells in zip(tree.layout.slots, params, tree.layout.cell_shapes, strict=True):
        if not _is_dense(param):
            return f"the memory of {slot.name!r} has gaps"
        if not _cells_are_runs(param, cells):
            return f"the groups of {slot.name!r} are not contiguous in memory"
    if tree.layout.leaf is not None and not learns_in_kernels(tree):
        return f"the level {tree.layout.leaf.name!r} with this combination or hyper rule"
    return None


def learns_in_kernels(tree: RateTree) -> bool:
    """Whether the kernels know this tree's way of learning; otherwise the tree does it itself."""
    config = tree.config
    return (
        type(config.combine) in COMBINATIONS
        and type(config.hyper_rule) in (Additive, Multiplicative, LongHorizon)
        and config.schedule == "all"
        and all(ratio is None for ratio in tree.cells.ratios)
    )


def _is_dense(param: Tensor) -> bool:
    """Whether the scalars fill their memory, with the first dimension outermost."""
    strides = [(stride, size) for stride, size in zip(param.stride(), param.shape, strict=True) if size > 1]
    expected = 1
    for stride, size in sorted(strides):
        if stride != expected:
            return False
        expected *= size
    return not strides or param.shape[0] <= 1 or max(strides) == (param.stride(0), param.shape[0])


def _cells_are_runs(param: Tensor, cells: Sequence[int]) -> bool:
    """Whether each cell is one stretch of memory: whole leading dimensions, nothing of the others."""
    split = len(cells)
    while split and cells[split - 1] == 1:
        split -= 1
    return tuple(cells[:split]) == tuple(param.shape[:split]) and (split <= 1 or param.is_contiguous())


class Plan:
    """Work items, index arrays and all that a step works in, for one optimizer; laid down in one block.

    Args:
        tree: the tree of rates.
        params: the parameters in the order of the slots.
        kind: which of the kinds of `tables` the rule is.
        groups: how many param groups there are.
    """

    def __init__(self, tree: RateTree, params: Sequence[Tensor], kind: int, groups: int) -> None:
        layout, counts = tree.layout, tree.layout.cell_counts
        real = np.float64 if params[0].dtype == torch.float64 else np.float32
        self.block = Block()
        self.leaf, self.scalars = layout.leaf is not None, sum(param.numel() for param in params)
        self.items = self.block.put(at.ITEMS, _items(params, counts, self.scalars))
        self.places = self.block.put(at.PLACES, self._places(tree, params))
        slots, cells = len(params), sum(counts)
        rows = int(self.places[-1, tables.ROW] + counts[-1] * self.places[-1, tables.ROWS])
        put, zeros = self.block.put, np.zeros
        self.sums, self.cell_sums = put(at.SUMS, zeros((3, rows))), put(at.CELLS, zeros((3, cells)))
        put(at.SLOPES, zeros(len(self.items)))
        self._kappas = {array.ctypes.data: array for array in (zeros((2, cells)), zeros((2, cells)))}
        self.block.numbers[[at.KAPPA, at.LAST_KAPPA]] = list(self._kappas)
        constants = put(at.CONSTANTS, zeros((slots, kernels.CONSTANTS), dtype=real))
        constants[:, kernels.ONE], constants[:, kernels.LARGEST] = 1, np.finfo(real).max
        self.steps = put(at.STEPS, zeros(slots, dtype=np.float32))
        self.moved, self.first = (put(place, zeros(slots, dtype=np.uint8)) for place in (at.MOVED, at.FIRST))
        self.now, self.last = put(at.NOW, zeros((groups, OPTIONS))), put(at.LAST, zeros((groups, OPTIONS)))
        self._share_rates(tree, groups)
        numbers = self.block.numbers
        numbers[at.KIND], numbers[at.LEAF], numbers[at.LEARNS_HERE] = kind, self.leaf, learns_in_kernels(tree)
        numbers[at.ITEM_COUNT], numbers[at.ROW_COUNT], numbers[at.SLOT_COUNT] = len(self.items), rows, slots
        numbers[at.CELL_COUNT], numbers[at.GROUP_COUNT] = cells, groups
        # Large tensors all begin at the same place of a page: their chunks compete for the same places in the cache.
        numbers[at.CHUNK] = kernels.LARGEST_CHUNK // (2 if self.scalars > FEW_SCALARS else 1)
        self.team = Team(self.block, self.items, self._entry(real), self._kappas)

    def _entry(self, real: Any) -> Entry:
        return entry(real)

    def kappa(self) -> np.ndarray[Any, Any]:
        """κ's two parts for each cell, as they were at the last move or are to be at this one."""
        return self._kappas[int(self.block.numbers[at.KAPPA])]

    def _places(self, tree: RateTree, params: Sequence[Tensor]) -> np.ndarray[Any, Any]:
        counts = tree.layout.cell_counts
        places = np.zeros((len(params), tables.PLACE_COLUMNS), dtype=np.int64)
        places[:, tables.INNER] = [p.numel() // max(count, 1) for p, count in zip(params, counts, strict=True)]
        places[:, tables.CELL] = np.cumsum([0, *counts[:-1]])
        places[:, tables.GROUP] = [slot.group for slot in tree.layout.slots]
        first_runs = self.items[self.items[:, tables.RUN] == 0, tables.SLOT]
        places[:, tables.ROWS] = np.maximum(1, np.bincount(first_runs, minlength=len(params)))  # pieces of a long run
        rows = places[:, tables.ROWS] * np.array(counts)
        places[:, tables.ROW] = np.cumsum(rows) - rows
        return places

    def _share_rates(self, tree: RateTree, groups: int) -> None:
        """All levels' rates in one array that the kernels and the tree's own tensors look at."""
        levels, config, put = tree.state.levels, tree.config, self.block.put
        firsts = np.cumsum([0, *(len(level.rates) for level in levels)])
        flat = torch.cat([level.rates for level in levels]) if levels else torch.zeros(0, dtype=tree.cells.dtype)
        self.rates = put(at.RATES, flat.numpy())
        for level, first, last in zip(levels, firsts, firsts[1:], strict=False):
            level.rates = flat[first:last]
        cells, slots = sum(tree.layout.cell_counts), len(self.places)
        self.index = put(at.INDEX, np.zeros((len(levels), cells), dtype=np.int64))
        self.form = put(at.FORM, np.zeros((len(levels), slots), dtype=np.int64))
        self.base = put(at.BASE, np.zeros((len(levels), slots), dtype=np.int64))
        scales = put(at.SCALES, np.ones(len(self.rates)))
        for i, of_cells in enumerate(tree.cells.groups):
            self.index[i] = of_cells.numpy()
            self._find_forms(i, int(firsts[i]))
            if config.hyper_scale != "sum":
                sizes = np.maximum(tree.cells.sizes(i).double().numpy(), 1)
                scales[firsts[i] : firsts[i + 1]] = sizes if config.hyper_scale == "size" else 1 / sizes
        put(at.WORK, np.zeros((4, len(self.rates))))
        self.slope = put(at.SLOPE, np.zeros(len(levels) + self.leaf))
        self.beta = put(at.BETA, np.zeros((len(levels), groups)))
        caps = put(at.CAPS, np.full(len(self.rates), np.inf))
        self.caps = [caps[first:last] for first, last in pairwise(firsts)]
        high = np.inf if config.max_lr is None else config.max_lr
        self.settings = put(at.SETTINGS, np.array([config.min_lr, high, config.combine_lr, 0.0]))
        self.combine = COMBINATIONS.get(type(config.combine), learning.FIXED)
        numbers = self.block.numbers
        numbers[at.COMBINE], numbers[at.COSINE] = self.combine, type(config.hyper_rule) is Multiplicative
        numbers[at.LEVEL_COUNT], numbers[at.RATE_COUNT] = len(levels), len(self.rates)
        for place, kept in ((at.WEIGHTS, tree.state.weights), (at.LAST_WEIGHTS, tree.state.last_weights)):
            put(place, next(iter(kept.values()), torch.zeros(0)).numpy())

    def _find_forms(self, level: int, first_rate: int) -> None:
        """How each slot's cells map to the groups of a level."""
        ends = [*self.places[1:, tables.CELL], self.index.shape[1]]
        for slot, (first, end) in enumerate(zip(self.places[:, tables.CELL], ends, strict=True)):
            index = self.index[level, first:end]
            self.base[level, slot] = first_rate
            if not len(index) or (index == index[0]).all():
                self.form[level, slot] = learning.ONE_GROUP
                self.base[level, slot] += index[0] if len(index) else 0
            elif (np.diff(index) == 1).all():
                self.form[level, slot] = learning.ROW_BY_ROW
                self.base[level, slot] += index[0]
            else:
                self.form[level, slot] = learning.BY_INDEX


def _items(params: Sequence[Tensor], counts: Sequence[int], scalars: int) -> np.ndarray[Any, Any]:
    """Work items: as many whole runs as make up the size of one, or pieces of a run that is longer."""
    largest = min(LARGEST_ITEM, max(SMALLEST_ITEM, scalars // ITEMS // kernels.LARGEST_CHUNK * kernels.LARGEST_CHUNK))
    rows: list[tuple[int, ...]] = []
    out = 0
    for slot, (param, count) in enumerate(zip(params, counts, strict=True)):
        inner = param.numel() // max(count, 1)
        if inner > largest:
            pieces = -(-inner // largest)
            size = -(-inner // (pieces * 64)) * 64  # whole cache lines
            for run in range(count):
                for start in range(0, inner, size):
                    rows.append((slot, run, run + 1, start, min(start + size, inner), out))
                    out += 1
            continue
        several = max(1, largest // max(inner, 1))
        for run in range(0, count, several):
            last = min(run + several, count)
            rows.append((slot, run, last, 0, inner, out))
            out += last - run
    return np.array(rows, dtype=np.int64).reshape(-1, tables.ITEM_COLUMNS)
