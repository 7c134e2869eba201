"""One step in plain torch operations: any device, any dtype, any feature.

The whole of Algorithm 1 in order; `camhd.tree` and `camhd.rules` hold the lines themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..rules import Batch, Rule
from ..tree import GroupRates, RateTree, Signal


def step(rule: Rule, tree: RateTree, batches: Sequence[Batch], groups: Sequence[GroupRates]) -> None:
    """One step of CAM-HD over the parameters that have a gradient.

    The gradients of this step meet the directions of the last one before the rule's state moves on,
    because that state is where the last direction is read from.
    """
    moved = tree.begin()
    look_back = [batch.select(moved) for batch in batches]
    last_kappa = None
    if any(len(batch) and rule.needs_kappa(batch.last) for batch in look_back):
        last_kappa = tree.last_kappa(groups)
    signal, grads = Signal(), []
    for batch, back in zip(batches, look_back, strict=True):
        g = rule.gradients(batch)  # g_t
        grads.append(g)
        if len(back):
            s = rule.sensitivity(back, last_kappa)  # s_{t−1}
            by_slot = dict(zip(batch.slots, g, strict=True))
            for slot, last, scale in zip(back.slots, s.tensors, s.scales, strict=True):
                tree.observe(signal, slot, by_slot[slot], last, scale)  # line 1: h
    rule.advance(batches, grads)
    kappas = tree.advance(signal, groups)  # lines 2 to 5: rates, γ, κ
    for batch in batches:
        rule.move(batch, kappas)  # line 6: θ ← θ − U(κ)
    tree.end(slot for batch in batches for slot in batch.slots)
