"""One fused step with a trace of directions."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from ...rules import TRACE, Rule
from ...tree import Ahead, GroupRates, RateTree, Signal
from . import core, horizon
from .kinds import NAMES, Groups
from .step import Fused
from .trace_plan import TracedPlan

_version = attrgetter("_version")


class Traced(Fused):
    """The fused steps of an optimizer whose hyper rule looks back on a trace of directions.

    Σ θ², which bounds the steps, is known from the last step unless somebody has written to the parameters since.
    Whoever does so through torch leaves a higher version number or another address. (A write through `.data` or a
    NumPy view leaves neither: then the bound of one step is that of the weights before.)
    """

    plan: TracedPlan

    def __init__(self, rule: Rule, tree: RateTree, groups: Groups, states: MutableMapping[Tensor, Any]) -> None:
        super().__init__(rule, tree, groups, states)
        # Versions and addresses of the parameters, as the last step left them.
        self.left: tuple[list[int], list[int]] = ([-1] * len(self.params), [0] * len(self.params))

    def _names(self, kind: int) -> tuple[str, ...]:
        """A direction need not be kept: the gradient is still at hand when the parameters move."""
        first, second, third, _ = NAMES[kind]
        return first, "" if second == "direction" else second, third, TRACE

    def _make_plan(self) -> TracedPlan:
        return TracedPlan(self.tree, self.params, self.kind, len(self.groups))

    def step(self, rates: Callable[[], Sequence[GroupRates]]) -> bool:
        """One step. False if these gradients are not for the kernels; then nothing has been touched."""
        written = list(map(_version, self.params)), list(map(Tensor.data_ptr, self.params))
        if written != self.left:
            known = zip(zip(*written, strict=True), zip(*self.left, strict=True), strict=True)
            self.plan.stale[:] |= [now != then for now, then in known]
        tree = self.tree
        if not self.in_kernels and tree.config.restarts(tree.state.step + 1) and tree.state.tracing is not None:
            tree.state.tracing.memory.zero_()  # the kernels take in this step's directions before the tree hears of it
        if not self.in_kernels:
            self._note_square_weight()
        return super().step(rates)

    def _note_square_weight(self) -> None:
        """What second moments are to be told at this step; kernels in which the rates learn note it for the next."""
        self.plan.settings[core.SQUARES] = self.tree.square_weight()

    def _note_moves(self) -> None:
        super()._note_moves()
        self.left = list(map(_version, self.params)), self.memory.addresses

    def _let_the_tree_learn(self, rates: Sequence[GroupRates], moved: frozenset[int], restarts: bool) -> None:
        """The sums to the tree and its κ back: for combinations and hyper rules that the kernels do not know."""
        plan, signal = self.plan, Signal()
        horizon.gather(plan.places, plan.sums, plan.sizes, plan.cell_sums)
        found = torch.from_numpy(plan.cell_sums).to(self.cells.dtype)
        dots, grads, moves, lengths, sizes = (self.cells.by_slot(row) for row in found)
        for slot in self.memory.actives:
            signal.dots[slot], signal.grads[slot], signal.moves[slot] = dots[slot], grads[slot], moves[slot]
            signal.lengths[slot], signal.sizes[slot] = lengths[slot], sizes[slot]
        self._set_kappa(self.tree.advance(signal, rates, Ahead(self.moves, restarts)))

    def _resume(self, moved: frozenset[int], rates: Sequence[GroupRates]) -> None:
        """Take up from what another backend, another process or a step cut short has left."""
        self._note_last_options(rates)
        self._note_square_weight()
        for slot, param in enumerate(self.params):
            if slot not in moved:  # a trace that does not count is empty, as in `foreach`
                for trace in (self.states.get(param, {}).get(TRACE), self.memory.held_tensors[-1][slot]):
                    if trace is not None:
                        trace.zero_()


def fused(rule: Rule, tree: RateTree, groups: Groups, states: MutableMapping[Tensor, Any]) -> Fused:
    """The fused steps of an optimizer."""
    kind = Traced if tree.config.hyper_rule.traced else Fused
    return kind(rule, tree, groups, states)
