"""One fused step: an optimizer's parameters and states to the kernels and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...rules import Rule
from ...tree import Ahead, Commit, GroupRates, Move, RateTree, Signal, TreeState, Write
from . import block as at
from . import core, learning, tables, threads
from .kinds import NAMES, Groups, kind_of, write_options
from .memory import Memory
from .plan import Plan, learns_in_kernels

_NOT_SETTINGS = ("params", "param_names", "last_move")
_WHOLE_STEP = at.OBSERVE | at.LEARN | at.MOVE


class _Begun(NamedTuple):
    """What is to be noted of a step once the kernels have taken it, or taken back if they have not."""

    step: int
    skipped: Tensor  # as it was before
    undo: TreeState | None  # everything as it was before, if the step is a restart


class Fused:
    """The fused steps of one optimizer, for as long as its tree and its kind of rule stay the same.

    Args:
        rule: the base rule.
        tree: the tree of rates.
        groups: the optimizer's param groups.
        states: the optimizer's state by parameter.
    """

    def __init__(self, rule: Rule, tree: RateTree, groups: Groups, states: MutableMapping[Tensor, Any]) -> None:
        self.rule, self.tree, self.groups, self.states = rule, tree, groups, states
        self.cells, self.state = tree.cells, tree.state
        kind = kind_of(rule, groups)
        assert kind is not None
        self.kind = kind
        self.params = [param for group in groups for param in group["params"]]
        self.plan = self._make_plan()
        self.in_kernels = learns_in_kernels(tree)
        self.memory = Memory(self.params, rule, groups, states, self._names(kind), self.plan, self.state)
        self.known_moved: frozenset[int] | None = None  # None: look, whatever the tree says
        self.looked_back: frozenset[int] = frozenset()  # what there was to look back on at this step
        self.begun: _Begun | None = None
        self.readers = [itemgetter(*(name for name in group if name not in _NOT_SETTINGS)) for group in groups]
        self.settings: list[tuple[Any, ...]] = []
        self.settled = False  # whether the groups say nothing that could change without a sign
        self.changed = True
        self.moves: list[Move] = []
        self.remembered: list[dict[str, Any]] = []

    def _names(self, kind: int) -> tuple[str, ...]:
        """The state tensors in the places of `COLUMNS`."""
        return NAMES[kind]

    def _make_plan(self) -> Plan:
        return Plan(self.tree, self.params, self.kind, len(self.groups))

    def fits(self, groups: Groups, states: MutableMapping[Tensor, Any]) -> bool:
        """Whether the tree, the groups and the states are still those that this was made for."""
        tree = self.tree
        if tree.cells is not self.cells or tree.state is not self.state:
            return False
        if groups is not self.groups or states is not self.states:
            return False
        settings = [read(group) for read, group in zip(self.readers, groups, strict=True)]
        if self.settled and settings == self.settings:
            return True
        self.changed = True  # before they count as known
        self.settings, self.settled = settings, all(_is_settled(value) for values in settings for value in values)
        return kind_of(self.rule, groups) == self.kind

    # ------------------------------------------------------------------ one step

    def step(self, rates: Callable[[], Sequence[GroupRates]]) -> bool:
        """One step. False if these gradients are not for the kernels; then nothing has been touched."""
        tree, plan, state = self.tree, self.plan, self.tree.state  # where a step cut short is settled
        if (self.changed or self.known_moved is None) and self._has_other_terms():
            return False
        keep_alive = self.memory.look_up()
        if keep_alive is None:
            return False
        coming = state.step + 1
        decay, restarts = float(tree.config.decay(coming)), bool(tree.config.restarts(coming))
        if self.changed or decay != self.moves[0].decay:
            self._note_settings(rates(), decay)
        moved = state.moved
        if moved is not self.known_moved:
            self._resume(moved, rates())
        self.looked_back, together = moved, threads.how_many(plan.scalars)
        if self.in_kernels:
            self._step_in_kernels(coming, moved, restarts, together)
            return True
        self.known_moved = None
        tree.begin()
        plan.team.run(at.OBSERVE, together)
        self.memory.hand_out()
        self._let_the_tree_learn(rates(), moved, restarts)
        plan.team.run(at.MOVE, together)
        self._note_moves()
        return True

    def _step_in_kernels(self, coming: int, moved: frozenset[int], restarts: bool, together: int) -> None:
        """A step that one call carries out; what is still to be noted then, `finish` notes, now or later."""
        tree, state, numbers = self.tree, self.state, self.plan.block.numbers
        undo = _all_of(state) if restarts else None
        numbers[at.OUTCOME], numbers[at.LOOKS_BACK] = core.NOT_RUN, bool(moved) and not restarts
        self.known_moved, self.begun = None, _Begun(coming, state.skipped, undo)
        tree.promise(self)
        if restarts:
            tree.restart_now()
        self.plan.team.run(_WHOLE_STEP, together)
        tree.settle()

    def finish(self) -> None:
        """Note the step that the kernels have taken, or take back what was prepared for one that they have not."""
        state, begun = self.state, self.begun
        assert begun is not None
        outcome = self.plan.block.numbers[at.OUTCOME]
        if outcome == core.NOT_RUN:
            if begun.undo is not None:
                Commit(state, begun.undo).finish()
            return
        if outcome == core.NOT_FINITE:
            state.skipped = begun.skipped + 1
        state.step, state.last_moves = begun.step, self.moves
        self.memory.hand_out()
        self._note_moves()

    def _note_moves(self) -> None:
        """All that the next step looks back on is in place; the tree hears of it last."""
        torch.autograd.graph.increment_version(self.params)  # the kernels write behind autograd's back
        for group, remembered in zip(self.groups, self.remembered, strict=True):
            group["last_move"] = remembered
        self.tree.end(self.memory.actives, self.looked_back)
        self.known_moved = self.state.moved

    # ------------------------------------------------------------------ what the groups say

    def _has_other_terms(self) -> bool:
        """Whether some state is in terms of options that the kernels are not told of; plain torch knows both."""
        terms = self.rule.terms
        changed = [group for group in self.groups if group["last_move"] and terms(group["last_move"]) != terms(group)]
        # The kernels know last options of parameters with a gradient, but no other v than this step's.
        return any(
            (group["last_move"]["amsgrad"] and not group["amsgrad"]) or any(p.grad is None for p in group["params"])
            for group in changed
        )

    def _note_settings(self, rates: Sequence[GroupRates], decay: float) -> None:
        """The groups' options, as numbers for the kernels and as what the next step remembers of this one."""
        self.changed = True  # until all of it is noted
        self.moves = [Move(group.factor(), decay) for group in rates]
        for row, group, rate, move in zip(self.plan.now, self.groups, rates, self.moves, strict=True):
            self._options(row, group, rate, move)
        for i, partition in enumerate(self.tree.layout.partitions):
            self.plan.beta[i] = [rate.beta(partition.level.name) for rate in rates]
            self.plan.caps[i][:] = self.cells.least(i, [rate.cap for rate in rates])
        self.remembered = [{name: group[name] for name in self.rule.remembers} for group in self.groups]
        self.changed = False

    def _options(self, row: np.ndarray[Any, Any], group: Mapping[str, Any], rates: GroupRates, move: Move) -> None:
        write_options(row, self.rule, self.kind, group, rates, move)
        if self.plan.leaf:
            row[core.OWN_BETA], row[core.OWN_CAP] = rates.beta(self.tree.layout.names[-1]), rates.cap

    # ------------------------------------------------------------------ the tree's part

    def _let_the_tree_learn(self, rates: Sequence[GroupRates], moved: frozenset[int], restarts: bool) -> None:
        """The sums to the tree and its κ back: for combinations and hyper rules that the kernels do not know."""
        plan, layout, signal = self.plan, self.tree.layout, Signal()
        learning.gather(plan.places, plan.moved, plan.sums, plan.cell_sums, plan.cell_sums.shape[1], True)
        sums = torch.from_numpy(plan.cell_sums).to(self.cells.dtype)
        parts = [self.cells.by_slot(row) for row in sums]
        for slot in range(len(layout.slots)):
            if slot in moved and plan.places[slot, tables.ACTIVE]:
                signal.dots[slot], signal.grads[slot], signal.moves[slot] = (part[slot] for part in parts)
        self._set_kappa(self.tree.advance(signal, rates, Ahead(self.moves, restarts)))

    def _resume(self, moved: frozenset[int], rates: Sequence[GroupRates]) -> None:
        """Take up from what another backend, another process or a step cut short has left."""
        tree, plan = self.tree, self.plan
        plan.moved[:] = 0
        plan.moved[list(moved)] = 1
        self._note_last_options(rates)
        if not moved:
            return
        if not plan.leaf:
            self._set_kappa(tree.last_kappa(rates))
            return
        gamma = learning.gammas(next(iter(tree.state.last_weights.values())).numpy(), plan.combine)
        learning.spread(
            plan.places, plan.form, plan.base, plan.index, plan.rates, gamma, plan.last, core.LEARNED, core.GIVEN,
            plan.kappa(),
        )  # fmt: skip

    def _note_last_options(self, rates: Sequence[GroupRates]) -> None:
        moves = self.tree.state.last_moves
        for row, group, rate, move in zip(self.plan.last, self.groups, rates, moves, strict=True):
            if group["last_move"]:
                self._options(row, {**group, **group["last_move"]}, rate, move)

    def _set_kappa(self, kappas: Sequence[Tensor]) -> None:
        self.plan.kappa()[0] = torch.cat([kappa.reshape(-1) for kappa in kappas]).numpy()


def _all_of(state: TreeState) -> TreeState:
    """A copy of everything, to come back to; of the leaves, too."""
    found = state.draft()
    for leaf in state.leaves:
        kept = leaf.copy()
        found.later.append(Write(leaf, kept.rates, kept.rule))
    return found


def _is_settled(value: Any) -> bool:
    """Whether it cannot change without becoming another object: neither a tensor nor a list."""
    if isinstance(value, tuple):
        return all(_is_settled(part) for part in value)
    return value is None or isinstance(value, (bool, int, float, str))
