"""One step in plain torch operations: any device, any dtype, any feature.

The whole of Algorithm 1 in order; `camhd.tree` and `camhd.rules` hold the lines themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import torch
from torch import Tensor

from ..rules import TRACE, Batch, Rule, Sensitivity
from ..tree import GroupRates, Observer, RateTree, times_


def step(rule: Rule, tree: RateTree, batches: Sequence[Batch], groups: Sequence[GroupRates]) -> None:
    """One step of CAM-HD over the parameters that have a gradient.

    The gradients of this step meet the directions of the last one before the rule's state moves on,
    because that state is where the last direction is read from. On a CPU, the parameters go by in pieces
    that its caches hold, once before the rates learn and once after: memory is read and written twice,
    whatever the number of torch operations.
    """
    ahead, moved, traced = tree.look_ahead(groups), tree.moved, tree.config.hyper_rule.traced
    pieces = [piece for batch in batches for piece in batch.pieces(rule.state_names(batch.options))]
    last_kappa = None
    if not traced and any(rule.needs_kappa(batch.last) for batch in batches if batch.among(moved)):
        last_kappa = tree.last_kappa(groups)
    observer = tree.observer(groups)
    for piece in pieces:
        g = rule.gradients(piece)  # g_t
        places = piece.among(moved)
        if traced:
            forget_traces(piece, moved)
            observer.see(piece.slots, piece.rows, g, piece.state(TRACE), [1.0] * len(piece), False)
        elif places:
            back = piece if len(places) == len(piece) else piece.pick(places)
            s = rule.sensitivity(back, last_kappa)  # s_{t−1}
            observer.see(back.slots, back.rows, [g[i] for i in places], s.tensors, s.scales, s.fresh)  # line 1: h
        tree.begin()  # what comes writes to the directions
        rule.advance(piece, g)
    tree.begin()
    rule.turn(batches)
    if traced:
        memories = tree.memories(ahead.restarts)
        for piece in pieces:
            _take_in(rule.direction(piece), piece, observer, memories)
    kappas = tree.advance(observer.signal(), groups, ahead)  # lines 2 to 5: rates, γ, κ
    for piece in pieces:
        rule.move(piece, kappas)  # line 6: θ ← θ − U(κ)
    note_options(rule, batches)
    tree.end([slot for batch in batches for slot in batch.slots], moved)


def note_options(rule: Rule, batches: Sequence[Batch]) -> None:
    """What the next step must know of the groups' options at this one; noted before `end` lets it look back."""
    for batch in batches:
        assert isinstance(batch.options, dict)
        if batch.idle is not None and batch.last and rule.terms(batch.last) != rule.terms(batch.options):
            rule.carry_over(batch.idle)
        batch.options["last_move"] = {name: batch.options[name] for name in rule.remembers}


def forget_traces(piece: Batch, moved: AbstractSet[int]) -> None:
    """A trace that does not count is empty: it has seen no step yet, or one that was cut short while it was written."""
    for slot, state in zip(piece.slots, piece.states, strict=True):
        if slot not in moved:
            state[TRACE].zero_()


def _take_in(direction: Sensitivity, piece: Batch, observer: Observer, memories: Sequence[Tensor]) -> None:
    """The trace D ← φ D + d of a piece, and how far d would go."""
    observer.measure(piece.slots, direction.tensors, direction.scales, piece.params)
    traces, rows = piece.state(TRACE), piece.rows or [None] * len(piece)
    found = zip(piece.slots, rows, piece.params, strict=True)
    kept = [observer.cells.rows(slot, memories[slot], some).to(p.device) for slot, some, p in found]
    torch._foreach_mul_(traces, kept)
    d = direction.tensors if direction.fresh else torch._foreach_clone(direction.tensors)
    times_(d, direction.scales)
    torch._foreach_add_(traces, d)
