"""The plan of a fused step with a trace of directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...hyper import LongHorizon
from ...tree import RateTree
from . import block as at
from . import horizon, trace_core
from .entries import Entry, entry
from .plan import Plan


class TracedPlan(Plan):
    """A plan, and what the rule and the bounds need besides. The tree's own tensors look at the same memory.

    Args:
        tree: the tree of rates.
        params: the parameters in the order of the slots.
        kind: which of the kinds of `tables` the rule is.
        groups: how many param groups there are.
    """

    def __init__(self, tree: RateTree, params: Sequence[Tensor], kind: int, groups: int) -> None:
        super().__init__(tree, params, kind, groups)
        put, zeros, layout, tracing = self.block.put, np.zeros, tree.layout, tree.state.tracing
        assert tracing is not None
        rows, cells = self.sums.shape[1], self.cell_sums.shape[1]
        self.sums = put(at.SUMS, zeros((trace_core.SUM_ROWS, rows)))
        self.cell_sums = put(at.CELLS, zeros((horizon.CELL_ROWS, cells)))
        self.sizes = put(at.SIZES, zeros(rows))
        self.stale = put(at.STALE, np.ones(len(params), dtype=np.uint8))  # whose Σ θ² is not known
        put(at.LAST_ALPHA, tracing.kappa.numpy())
        put(at.MEMORY, tracing.memory.numpy())
        put(at.USUAL, tracing.usual.numpy())
        put(at.LAYER_OF, np.array(layout.layer_of_slot, dtype=np.int64))
        put(at.LAYERS, zeros((horizon.LAYER_ROWS, len(layout.layers))))
        self.block.numbers[at.LAYER_COUNT] = len(layout.layers)
        put(at.WORK, zeros((horizon.WORK_ROWS, len(self.rates))))
        rule = tree.config.hyper_rule
        if type(rule) is LongHorizon:
            put(at.HORIZON, _settings(rule, layout.names[0] == "global"))
            self._share_state(tree)

    def _entry(self, real: Any) -> Entry:
        return entry(real, traced=True)

    def _share_state(self, tree: RateTree) -> None:
        """What the rule keeps of every rate in one array, and which rate is above it."""
        levels = tree.state.levels
        flat = torch.stack([torch.cat([level.rule[name] for level in levels]) for name in horizon.STATE])
        self.block.put(at.RULE_STATE, flat.numpy())
        parents, first = np.full(len(self.rates), -1, dtype=np.int64), 0
        for i, level in enumerate(levels):
            last = first + len(level.rates)
            for name, row in zip(horizon.STATE, flat, strict=True):
                level.rule[name] = row[first:last]
            if i:
                parents[first:last] = tree.layout.ancestors(i, i - 1).numpy() + first - len(levels[i - 1].rates)
            first = last
        self.block.put(at.PARENTS, parents)


def _settings(rule: LongHorizon, one_root: bool) -> np.ndarray[Any, Any]:
    """By their places in `horizon`; second moments hear of a root that is one for all alone."""
    trace = rule.traced
    assert trace is not None
    return np.array([
        trace.memory, rule.fast, rule.steady, rule.patience, rule.favour, rule.settle, rule.spread,
        rule.boost, rule.small, rule.tie, rule.reach, trace.first, trace.bound, trace.floor, trace.sudden, trace.recent,
        rule.squares if one_root else 0.0,
    ])  # fmt: skip
