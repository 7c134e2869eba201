"""One fused step: an optimizer's parameters and states to the kernels and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from operator import attrgetter, is_, itemgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...rules import SGD, AdaBound, Adam, Rule
from ...rules.base import zeros
from ...tree import Ahead, Commit, GroupRates, Move, RateTree, Signal, TreeState, Write
from . import block as at
from . import core, learning, tables, threads
from .plan import Plan, learns_in_kernels

Groups = Sequence[dict[str, Any]]

# The state tensors of each kind in the places A, B, X; the fourth is that of the rates of single scalars.
COLUMNS = (tables.A, tables.B, tables.X, tables.R)
NAMES = {
    tables.SGD: ("", "direction", "", ""),
    tables.MOMENTUM: ("momentum_buffer", "", "", ""),
    tables.NESTEROV: ("momentum_buffer", "direction", "", ""),
    tables.ADAM: ("exp_avg", "exp_avg_sq", "", ""),
    tables.ADABOUND: ("exp_avg", "exp_avg_sq", "", ""),
    tables.AMSGRAD: ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", ""),
    tables.AMSBOUND: ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", ""),
}


def kind_of(rule: Rule, groups: Groups) -> int | None:
    """Which of the kinds of `tables` a rule is with these options; None for another rule or groups that differ."""
    first = _kind(rule, groups[0])
    return first if all(_kind(rule, group) == first for group in groups[1:]) else None


def _kind(rule: Rule, options: Mapping[str, Any]) -> int | None:
    if type(rule) is SGD:
        if not options["momentum"]:
            return tables.SGD
        return tables.NESTEROV if options["nesterov"] else tables.MOMENTUM
    if type(rule) is Adam:
        return tables.AMSGRAD if options["amsgrad"] else tables.ADAM
    if type(rule) is AdaBound:
        return tables.AMSBOUND if options["amsgrad"] else tables.ADABOUND
    return None


# Reading many tensors at once, without a loop in Python.
_grad, _dtype = attrgetter("grad"), attrgetter("dtype")
_address, _stride, _numel = Tensor.data_ptr, Tensor.stride, Tensor.numel

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
        self.kind, self.names = kind, self._names(kind)
        self.params = [param for group in groups for param in group["params"]]
        self.plan = self._make_plan()
        self.in_kernels = learns_in_kernels(tree)
        self._note_params()
        count = len(self.params)
        self.held: list[dict[str, Any]] = [{}] * count
        self.held_tensors: list[list[Tensor | None]] = [[None] * count for name in self.names if name]
        self.getters = [itemgetter(name) for name in self.names if name]
        self.known_states: list[dict[str, Any]] = []
        self.active: list[bool] = []
        self.all_active = False
        self.actives: frozenset[int] = frozenset()
        self.known_moved: frozenset[int] | None = None  # None: look, whatever the tree says
        self.looked_back: frozenset[int] = frozenset()  # what there was to look back on at this step
        self.begun: _Begun | None = None
        self.made: list[
            tuple[dict[str, Any], dict[str, Any]]
        ] = []  # states, and what they get when the kernels have run
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
        keep_alive = self._look_up()
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
        self._hand_out()
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
        self._hand_out()
        self._note_moves()

    def _hand_out(self) -> None:
        """State that was made for this step becomes the optimizer's. Before, a first step cut short has left none."""
        for state, found in self.made:
            state.update(found)
        self.made = []

    def _note_moves(self) -> None:
        """All that the next step looks back on is in place; the tree hears of it last."""
        torch.autograd.graph.increment_version(self.params)  # the kernels write behind autograd's back
        for group, remembered in zip(self.groups, self.remembered, strict=True):
            group["last_move"] = remembered
        self.tree.end(self.actives, self.looked_back)
        self.known_moved = self.state.moved

    def _look_up(self) -> list[Tensor] | None:
        """The addresses of this step's gradients, parameters and states; what must stay alive meanwhile."""
        params, states = self.params, self.states
        grads = list(map(_grad, params))
        try:
            usual = (
                self.all_active
                and list(map(_dtype, grads)) == self.dtypes
                and list(map(_stride, grads)) == self.strides
                and list(map(_numel, grads)) == self.numels
                and list(map(_address, params)) == self.addresses
                and len(states) == len(self.known_states)
                and all(map(is_, states.values(), self.known_states))
                and all(
                    all(map(is_, map(getter, self.held), tensors))
                    for getter, tensors in zip(self.getters, self.held_tensors, strict=True)
                )
            )
        except (AttributeError, KeyError, RuntimeError):  # no gradient, no state, no strides
            usual = False
        if not usual:
            return self._look_up_one_by_one(grads)
        self.plan.places[:, tables.G] = list(map(_address, grads))
        return grads

    @torch.no_grad()
    def _look_up_one_by_one(self, grads: list[Tensor | None]) -> list[Tensor] | None:
        """The same where something is new: a parameter without a gradient, other memory, a loaded state."""
        self.made = []
        dtype, alive, places = self.dtypes[0], [], self.plan.places
        for grad, param, stride, numel in zip(grads, self.params, self.strides, self.numels, strict=True):
            if grad is not None and (
                param.dtype is not dtype  # somebody gave the parameter other memory
                or not param.is_cpu
                or param.stride() != stride
                or param.numel() != numel
                or not grad.is_cpu
                or grad.layout is not torch.strided
                or grad.dtype is not dtype
            ):
                return None
        for slot, (grad, param) in enumerate(zip(grads, self.params, strict=True)):
            if grad is None:
                continue
            if grad.stride() != self.strides[slot]:
                grad = torch.empty_like(param).copy_(grad)
            alive.append(grad)
            self._hold(slot, param, self.states[param])
            places[slot, tables.G], places[slot, tables.P] = grad.data_ptr(), param.data_ptr()
        self._note_params()
        self.known_states = list(self.states.values())
        active = [grad is not None for grad in grads]
        if active != self.active:
            self.active, self.all_active = [], False  # until all of it is noted
            places[:, tables.ACTIVE] = active
            self.actives = frozenset(slot for slot, takes_part in enumerate(active) if takes_part)
            self.active, self.all_active = active, all(active)
        return alive

    def _note_params(self) -> None:
        """How the parameters lie in memory now."""
        params = self.params
        self.addresses, self.strides = list(map(_address, params)), list(map(_stride, params))
        self.numels, self.dtypes = list(map(_numel, params)), list(map(_dtype, params))

    def _hold(self, slot: int, param: Tensor, state: dict[str, Any]) -> None:
        """Note the addresses of a slot's state, making what is missing; all step counts share one array."""
        names = [name for name in self.names if name]
        known = [tensors[slot] for tensors in self.held_tensors]
        if self.held[slot] is state and all(state.get(n) is t for n, t in zip(names, known, strict=True)):
            return
        plan, places = self.plan, self.plan.places
        found = dict(state) if state else self.rule.start(param, self.groups[places[slot, tables.GROUP]])
        plan.first[slot] = "momentum_buffer" in names and "momentum_buffer" not in found
        for name in names:
            found[name] = _as_it_lies(found[name], param) if name in found else zeros(param)
        if "step" in found:
            plan.steps[slot] = float(found["step"])
            found["step"] = torch.from_numpy(plan.steps[slot : slot + 1]).reshape(())
        for tensors, name in zip(self.held_tensors, names, strict=True):
            tensors[slot] = found[name]
        for column, name in zip(COLUMNS, self.names, strict=True):
            places[slot, column] = (found[name] if name else param).data_ptr()
        if self.state.leaves:
            leaf = self.state.leaves[slot]
            leaf.rates = _as_it_lies(leaf.rates, param)
            places[slot, tables.R] = leaf.rates.data_ptr()
        self.made.append((state, found))
        self.held[slot] = state

    # ------------------------------------------------------------------ what the groups say

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
        decay, factor = group["weight_decay"], float(move.factor)
        row[core.SIGN] = -1.0 if group["maximize"] else 1.0
        decoupled = self.rule.decoupled(group)
        row[core.L2], row[core.DECOUPLED] = (0.0, decay) if decoupled else (decay, 0.0)
        row[core.LEARNED] = factor * move.decay
        row[core.GIVEN] = factor * (1 - move.decay) * rates.lr_limit
        if self.kind <= tables.NESTEROV:
            row[core.MU], row[core.DAMP] = group["momentum"], 1 - group["dampening"]
        else:
            (row[core.B1], row[core.B2]), row[core.EPS] = group["betas"], group["eps"]
        if self.kind >= tables.ADABOUND:
            row[core.FINAL] = group["final_lr"] * factor
            row[core.RATE] = 1 - row[core.B2] if group["gamma"] is None else group["gamma"]
            row[core.PAPER] = group["bounds"] == "paper"
            row[core.SQRT] = group["decay_bound"] == "sqrt"
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


def _as_it_lies(tensor: Tensor, param: Tensor) -> Tensor:
    """The tensor itself, or a copy laid out in memory as the parameter is."""
    if tensor.stride() == param.stride() and tensor.dtype == param.dtype:
        return tensor
    return torch.empty_like(param).copy_(tensor)
