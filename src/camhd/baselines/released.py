"""Adam-HD as its authors released it: the same formulas, carried out tensor by tensor.

Two things in that code change the numbers. ε is added to √v and not to √v̂. And the rate is changed inside the
loop over tensors: each tensor's part of the hypergradient has moved the rate before the tensor itself
moves, so that the result depends on the order of the tensors.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..backends import Backend
from ..backends.foreach import note_options
from ..rules import Adam, Batch, Rule
from ..rules.base import Options
from ..tree import Commit, GroupRates, Number, RateTree


class ReleasedAdam(Adam):
    """d = m̂ / ((√v + ε) / √(1−β₂ᵗ)): ε before the correction of the bias."""

    name = "Adam of the released HD code"

    def _epsilon(self, options: Options, step: Number) -> Number:
        epsilon: Number = options["eps"]
        return epsilon


class TensorByTensor(Backend):
    """A step in which a tree of one level learns from one tensor after the other, and each moves at once."""

    def __init__(self) -> None:
        super().__init__("foreach")

    @torch.no_grad()
    def step(
        self,
        rule: Rule,
        tree: RateTree,
        groups: Sequence[dict[str, Any]],
        states: MutableMapping[Tensor, Any],
        rates: Callable[[], Sequence[GroupRates]],
        batches: Callable[[], Sequence[Batch]],
    ) -> None:
        """One step over the tensors that have a gradient, in the order of the param groups."""
        found, said = batches(), rates()
        ahead, state, looks_back = tree.look_ahead(said), tree.state, bool(tree.moved)
        tree.begin()
        tree.promise(Commit(state, state.draft()))  # the rate as it was, should the loop not come to its end
        state.step, state.last_moves = state.step + 1, ahead.moves
        for batch in found:
            for i in range(len(batch)):
                self._step_one(rule, tree, replace(batch.pick([i]), last=batch.options), said, looks_back)
        note_options(rule, found)
        tree.promise(None)
        tree.end(slot for batch in found for slot in batch.slots)

    def _step_one(self, rule: Rule, tree: RateTree, one: Batch, said: Sequence[GroupRates], looks_back: bool) -> None:
        (slot,), state = one.slots, tree.unsettled
        rate = state.levels[0].rates[tree.layout.partitions[0].family_of_slot[slot].run]  # a view of one number
        grads = rule.gradients(one)
        if looks_back and float(one.states[0]["step"]) > 0:
            back = rule.sensitivity(one, None)
            beta = said[one.group].beta(tree.layout.names[0])
            pull = beta * (grads[0] * back.tensors[0]).sum().to(rate) * back.scales[0] * one.last_factor
            finite = pull.isfinite()
            rate += torch.where(finite, pull, 0)
            state.skipped += ~finite
        rule.advance(one, grads)
        rule.turn([one])
        rule.move(one, tree.last_kappa(said))  # from the rate as it is by now

    def describe(
        self, rule: Rule, tree: RateTree, groups: Sequence[dict[str, Any]], states: MutableMapping[Tensor, Any]
    ) -> str:
        return "foreach, tensor by tensor as in the released HD code"
