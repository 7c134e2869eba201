"""The plan of a fused step: where everything lies in memory, and who does what.

Made once for an optimizer and kept as long as its tree stays as it is; each step only looks up addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...combine import Combination, Fixed, Normalized, Softmax
from ...hyper import Additive, Multiplicative
from ...tree import RateTree
from . import kernels, passes
from .learning import FIXED, NORMALIZED, SOFTMAX

ITEM = 16_384  # scalars of a work item at the most
COMBINATIONS: dict[type[Combination], int] = {Fixed: FIXED, Normalized: NORMALIZED, Softmax: SOFTMAX}


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
        and type(config.hyper_rule) in (Additive, Multiplicative)
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
    """Addresses, work items and index arrays for one optimizer, and the arrays it works in.

    Args:
        tree: the tree of rates.
        params: the parameters in the order of the slots.
    """

    def __init__(self, tree: RateTree, params: Sequence[Tensor]) -> None:
        layout, counts = tree.layout, tree.layout.cell_counts
        self.like = np.empty(0, dtype=np.float64 if params[0].dtype == torch.float64 else np.float32)
        self.leaf, self.scalars = layout.leaf is not None, sum(param.numel() for param in params)
        self.places = np.zeros((len(params), 9), dtype=np.int64)
        self.places[:, passes.INNER] = [p.numel() // max(count, 1) for p, count in zip(params, counts, strict=True)]
        self.places[:, passes.CELL] = np.cumsum([0, *counts[:-1]])
        self.group_of_slot = np.array([slot.group for slot in layout.slots], dtype=np.int64)
        self.group_of_cell = np.repeat(self.group_of_slot, counts)
        self.items = _items(params, counts)
        self.sums = np.zeros((int((self.items[:, passes.LAST] - self.items[:, passes.FIRST]).sum()), 3))
        self.slopes = np.zeros(len(self.items))
        self.cell_sums = np.zeros((3, sum(counts)))
        self.kappa, self.last_kappa = np.zeros((2, sum(counts))), np.zeros((2, sum(counts)))
        self.constants = np.zeros((len(params), kernels.CONSTANTS), dtype=self.like.dtype)
        self.constants[:, kernels.ONE] = 1
        self._share_rates(tree)

    def _share_rates(self, tree: RateTree) -> None:
        """All levels' rates in one array that the kernels and the tree's own tensors look at."""
        levels, config = tree.state.levels, tree.config
        self.firsts = np.cumsum([0, *(len(level.rates) for level in levels)])
        flat = torch.cat([level.rates for level in levels]) if levels else torch.zeros(0, dtype=tree.cells.dtype)
        self.rates = flat.numpy()
        for level, first, last in zip(levels, self.firsts, self.firsts[1:], strict=False):
            level.rates = flat[first:last]
        self.index = np.zeros((len(levels), len(self.group_of_cell)), dtype=np.int32)
        self.scales = np.ones(len(self.rates))
        for i, groups in enumerate(tree.cells.groups):
            self.index[i] = groups.numpy()
            if config.hyper_scale != "sum":
                sizes = np.maximum(tree.cells.sizes(i).double().numpy(), 1)
                self.scales[self.firsts[i] : self.firsts[i + 1]] = sizes if config.hyper_scale == "size" else 1 / sizes
        self.combine = COMBINATIONS.get(type(config.combine), FIXED)
        self.cosine = type(config.hyper_rule) is Multiplicative
        self.slope = np.zeros(len(levels) + self.leaf)
        self.bounds = np.array([config.min_lr, np.inf if config.max_lr is None else config.max_lr])


def _items(params: Sequence[Tensor], counts: Sequence[int]) -> np.ndarray[Any, Any]:
    """Work items: as many whole runs as make up `ITEM` scalars, or pieces of a run that is longer."""
    rows: list[tuple[int, ...]] = []
    out = 0
    for slot, (param, count) in enumerate(zip(params, counts, strict=True)):
        inner = param.numel() // max(count, 1)
        if inner > ITEM:
            pieces = -(-inner // ITEM)
            size = -(-inner // (pieces * 64)) * 64  # whole cache lines
            for run in range(count):
                for start in range(0, inner, size):
                    rows.append((slot, run, run + 1, start, min(start + size, inner), out))
                    out += 1
            continue
        several = max(1, ITEM // max(inner, 1))
        for run in range(0, count, several):
            last = min(run + several, count)
            rows.append((slot, run, last, 0, inner, out))
            out += last - run
    return np.array(rows, dtype=np.int64).reshape(-1, 6)
