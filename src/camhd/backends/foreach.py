"""One step in plain torch operations: any device, any dtype, any feature.

The whole of Algorithm 1 in order; `camhd.tree` and `camhd.rules` hold the lines themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..rules import Batch, Rule
from ..tree import GroupRates, RateTree


def step(rule: Rule, tree: RateTree, batches: Sequence[Batch], groups: Sequence[GroupRates]) -> None:
    """One step of CAM-HD over the parameters that have a gradient.

    The gradients of this step meet the directions of the last one before the rule's state moves on,
    because that state is where the last direction is read from. On a CPU, the parameters go by in pieces
    that its caches hold, once before the rates learn and once after: memory is read and written twice,
    whatever the number of torch operations.
    """
    moved = tree.begin()
    pieces = [piece for batch in batches for piece in batch.pieces(rule.state_names(batch.options))]
    last_kappa = None
    if any(rule.needs_kappa(batch.last) for batch in batches if batch.among(moved)):
        last_kappa = tree.last_kappa(groups)
    observer = tree.observer(groups)
    for piece in pieces:
        g = rule.gradients(piece)  # g_t
        places = piece.among(moved)
        if places:
            back = piece if len(places) == len(piece) else piece.pick(places)
            s = rule.sensitivity(back, last_kappa)  # s_{t−1}
            observer.see(back.slots, back.rows, [g[i] for i in places], s.tensors, s.scales, s.fresh)  # line 1: h
        rule.advance(piece, g)
    rule.turn(batches)
    kappas = tree.advance(observer.signal(), groups)  # lines 2 to 5: rates, γ, κ
    for piece in pieces:
        rule.move(piece, kappas)  # line 6: θ ← θ − U(κ)
    tree.end(slot for batch in batches for slot in batch.slots)
