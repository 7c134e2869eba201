"""One fused step: an optimizer's parameters and states to the kernels and back."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...rules import SGD, AdaBound, Adam, Rule
from ...rules.base import zeros
from ...tree import GroupRates, Move, RateTree, Signal
from . import core, learning, openmp, passes, threads
from .plan import Plan, learns_in_kernels

Groups = Sequence[dict[str, Any]]

# The state tensors in the places A, B, X of each kind.
NAMES = {
    passes.SGD: ("", "direction", ""),
    passes.MOMENTUM: ("momentum_buffer", "", ""),
    passes.NESTEROV: ("momentum_buffer", "direction", ""),
    passes.ADAM: ("exp_avg", "exp_avg_sq", ""),
    passes.ADABOUND: ("exp_avg", "exp_avg_sq", ""),
    passes.AMSGRAD: ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"),
    passes.AMSBOUND: ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"),
}


def kind_of(rule: Rule, groups: Groups) -> int | None:
    """Which of the kinds of `passes` a rule is with these options; None for another rule or groups that differ."""
    first = _kind(rule, groups[0])
    return first if all(_kind(rule, group) == first for group in groups[1:]) else None


def _kind(rule: Rule, options: Mapping[str, Any]) -> int | None:
    if type(rule) is SGD:
        if not options["momentum"]:
            return passes.SGD
        return passes.NESTEROV if options["nesterov"] else passes.MOMENTUM
    if type(rule) is Adam:
        return passes.AMSGRAD if options["amsgrad"] else passes.ADAM
    if type(rule) is AdaBound:
        return passes.AMSBOUND if options["amsgrad"] else passes.ADABOUND
    return None


class _Held(NamedTuple):
    """The state of a slot and the tensors of it whose addresses were noted."""

    state: dict[str, Any]
    a: str
    tensor_a: Tensor
    b: str
    tensor_b: Tensor
    x: str
    tensor_x: Tensor

    def is_there(self) -> bool:
        """Whether they are still the ones in the state."""
        state, a, tensor_a, b, tensor_b, x, tensor_x = self
        return state.get(a) is tensor_a and state.get(b) is tensor_b and state.get(x) is tensor_x


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
        self.kind, self.names = kind, NAMES[kind]
        self.params = [param for group in groups for param in group["params"]]
        self.lies = [(param.numel(), param.stride()) for param in self.params]
        self.plan = Plan(tree, self.params)
        self.team = openmp.Team(kind, self.plan)
        self.held: list[_Held | None] = [None] * len(self.params)
        self.active: list[bool] = []
        self.actives: frozenset[int] = frozenset()
        self.missing = -1
        self.steps = np.zeros(len(self.params), dtype=np.float32)
        self.moved = np.zeros(len(self.params), dtype=np.uint8)
        self.first = np.zeros(len(self.params), dtype=np.uint8)
        self.now, self.last = np.zeros((len(groups), core.OPTIONS)), np.zeros((len(groups), core.OPTIONS))
        self.beta = np.zeros((len(tree.layout.partitions), len(groups)))
        self.in_kernels = learns_in_kernels(tree)
        self.weights = next(iter(tree.state.weights.values()), torch.zeros(0)).numpy()
        self.last_weights = next(iter(tree.state.last_weights.values()), torch.zeros(0)).numpy()
        self.known_moved: frozenset[int] = frozenset()

    def fits(self, groups: Groups, states: MutableMapping[Tensor, Any]) -> bool:
        """Whether the tree, the groups and the states are still those that this was made for."""
        tree = self.tree
        same = tree.cells is self.cells and tree.state is self.state and groups is self.groups and states is self.states
        return same and kind_of(self.rule, groups) == self.kind

    # ------------------------------------------------------------------ one step

    def step(self, rates: Sequence[GroupRates]) -> bool:
        """One step. False if these gradients are not for the kernels; then nothing has been touched."""
        keep_alive = self._look_up()
        if keep_alive is None:
            return False
        tree, plan, state = self.tree, self.plan, self.tree.state
        decay = tree.config.decay(state.step + 1)
        moves = [Move(group.factor(), decay) for group in rates]
        moved = tree.begin()
        if moved is not self.known_moved:
            self._resume(moved, rates)
        self.last, self.now = self.now, self.last
        for row, group, rate, move in zip(self.now, self.groups, rates, moves, strict=True):
            self._options(row, group, rate, move)
        plan.kappa, plan.last_kappa = plan.last_kappa, plan.kappa
        gamma_leaf = float(learning.gammas(self.weights, plan.combine)[-1]) if plan.leaf else 0.0
        core.prepare(
            self.kind, plan.constants, self.steps, plan.places, self.moved, self.first, plan.group_of_slot,
            self.now, self.last, gamma_leaf, plan.cosine, plan.bounds,
        )  # fmt: skip
        together = threads.how_many(plan.scalars)
        on_team = together > 1 and openmp.usable()
        if on_team:
            self.team.begin()
            self.team.run(0, together)
        else:
            control = np.zeros(passes.CONTROL, dtype=np.int64)  # a new one: a late helper must find nothing to do
            given = self.kind, plan.leaf, plan.items, control, plan.places, plan.constants
            first = (*given, plan.last_kappa[0], plan.last_kappa[1], plan.sums, plan.like)
            self._with_help(together - 1, passes.observe, first, passes.DONE)
        if self.in_kernels:
            self._learn(rates, moves, bool(moved))
        else:
            self._let_the_tree_learn(rates, moved)
        if on_team:
            self.team.run(1, together)
        else:
            second = (*given, plan.last_kappa, plan.kappa, plan.slopes, plan.like)
            self._with_help(together - 1, passes.move, second, passes.DONE_2)
        if plan.leaf and moved and self.outcome == 1:
            core.finish(
                plan.items, plan.places, self.moved, plan.slopes, self.weights, plan.slope, plan.combine,
                tree.config.combine_lr,
            )  # fmt: skip
        self._end(keep_alive)
        return True

    def _with_help(self, helpers: int, function: Any, arguments: tuple[Any, ...], done: int) -> None:
        """A pass in this thread, with the help of others if they wake up in time."""
        if helpers:
            threads.ask_for_help(helpers, function, arguments)
        function(*arguments)
        if helpers:
            passes.wait(arguments[3], done, len(self.plan.items))

    def _look_up(self) -> list[Tensor] | None:
        """The addresses of this step's gradients, parameters and states; what must stay alive meanwhile."""
        dtype, strided, copies = self.params[0].dtype, torch.strided, []
        grads = [param.grad for param in self.params]
        for grad, param, (numel, stride) in zip(grads, self.params, self.lies, strict=True):
            if grad is not None and (
                param.dtype is not dtype  # somebody gave the parameter other memory
                or param.stride() != stride
                or param.numel() != numel
                or not grad.is_cpu
                or grad.layout is not strided
                or grad.dtype is not dtype
            ):
                return None
        addresses, places = [], [0] * len(grads)
        for slot, (grad, param, kept) in enumerate(zip(grads, self.params, self.held, strict=True)):
            if grad is None:
                addresses.append(0)
                continue
            if grad.stride() != self.lies[slot][1]:
                grad = torch.empty_like(param).copy_(grad)
                copies.append(grad)
            if kept is None or not kept.is_there():
                self._hold(slot, param, self.states[param])
            addresses.append(grad.data_ptr())
            places[slot] = param.data_ptr()
        table = self.plan.places
        table[:, passes.G], table[:, passes.P] = addresses, places
        if addresses.count(0) != self.missing or self.missing:  # an address of 0: no gradient, or nothing in it
            active = [grad is not None for grad in grads]
            self.missing = addresses.count(0)
            if active != self.active:
                self.active = active
                table[:, passes.ACTIVE] = active
                self.actives = frozenset(slot for slot, takes_part in enumerate(active) if takes_part)
        return copies

    def _hold(self, slot: int, param: Tensor, state: dict[str, Any]) -> None:
        """Note the addresses of a slot's state, making what is missing; all step counts share one array."""
        if not state:
            state.update(self.rule.start(param, self.groups[self.plan.group_of_slot[slot]]))
        self.first[slot] = "momentum_buffer" in self.names and "momentum_buffer" not in state
        for name in filter(None, self.names):
            state[name] = _as_it_lies(state[name], param) if name in state else zeros(param)
        if "step" in state:
            self.steps[slot] = float(state["step"])
            state["step"] = torch.from_numpy(self.steps[slot : slot + 1]).reshape(())
        a, b, x = (name or next(filter(None, self.names)) for name in self.names)
        self.held[slot] = _Held(state, a, state[a], b, state[b], x, state[x])
        for column, name in zip((passes.A, passes.B, passes.X), self.names, strict=True):
            self.plan.places[slot, column] = (state[name] if name else param).data_ptr()
        if self.tree.state.leaves:
            leaf = self.tree.state.leaves[slot]
            leaf.rates = _as_it_lies(leaf.rates, param)
            self.plan.places[slot, passes.R] = leaf.rates.data_ptr()
        else:
            self.plan.places[slot, passes.R] = param.data_ptr()

    def _options(self, row: np.ndarray[Any, Any], group: Mapping[str, Any], rates: GroupRates, move: Move) -> None:
        """What a group says, as a row of numbers for the kernels."""
        decay, factor = group["weight_decay"], float(move.factor)
        row[core.SIGN] = -1.0 if group["maximize"] else 1.0
        decoupled = self.rule.decoupled(group)
        row[core.L2], row[core.DECOUPLED] = (0.0, decay) if decoupled else (decay, 0.0)
        row[core.LEARNED] = factor * move.decay
        row[core.GIVEN] = factor * (1 - move.decay) * rates.lr_limit
        if self.kind <= passes.NESTEROV:
            row[core.MU], row[core.DAMP] = group["momentum"], 1 - group["dampening"]
        else:
            (row[core.B1], row[core.B2]), row[core.EPS] = group["betas"], group["eps"]
        if self.kind >= passes.ADABOUND:
            row[core.FINAL] = group["final_lr"] * factor
            row[core.RATE] = 1 - row[core.B2] if group["gamma"] is None else group["gamma"]
            row[core.PAPER] = group["bounds"] == "paper"
            row[core.SQRT] = group["decay_bound"] == "sqrt"
        if self.plan.leaf:
            row[core.OWN_BETA] = rates.beta(self.tree.layout.names[-1])

    def _learn(self, rates: Sequence[GroupRates], moves: list[Move], looks_back: bool) -> None:
        tree, plan, state = self.tree, self.plan, self.tree.state
        for i, partition in enumerate(tree.layout.partitions):
            for j, rate in enumerate(rates):
                self.beta[i, j] = rate.beta(partition.level.name)
        state.step += 1
        if tree.config.restarts(state.step):
            tree.restart()
            looks_back = False
        self.outcome = core.between(
            plan.items, plan.places, self.moved, plan.sums, plan.cell_sums, plan.group_of_cell, plan.index, plan.firsts,
            plan.rates, plan.scales, self.now, self.last, self.beta, self.weights, self.last_weights, plan.slope,
            plan.combine, tree.config.combine_lr, plan.leaf, plan.cosine, plan.bounds, plan.kappa, looks_back,
        )  # fmt: skip
        state.last_moves = moves
        if self.outcome == 2:
            state.skipped.add_(1)
        if self.outcome != 1:
            core.stop_learning(plan.constants)

    def _let_the_tree_learn(self, rates: Sequence[GroupRates], moved: frozenset[int]) -> None:
        """The sums to the tree and its κ back: for combinations and hyper rules that the kernels do not know."""
        plan, layout, signal = self.plan, self.tree.layout, Signal()
        learning.gather(plan.items, plan.places, self.moved, plan.sums, plan.cell_sums)
        sums = torch.from_numpy(plan.cell_sums).to(self.cells.dtype)
        parts = [self.cells.by_slot(row) for row in sums]
        for slot in range(len(layout.slots)):
            if slot in moved and plan.places[slot, passes.ACTIVE]:
                signal.dots[slot], signal.grads[slot], signal.moves[slot] = (part[slot] for part in parts)
        kappas = self.tree.advance(signal, rates)
        plan.kappa[0] = torch.cat([kappa.reshape(-1) for kappa in kappas]).numpy()

    def _resume(self, moved: frozenset[int], rates: Sequence[GroupRates]) -> None:
        """Take up from what another backend, another process or a step cut short has left."""
        tree, plan = self.tree, self.plan
        self.moved[:] = 0
        self.moved[list(moved)] = 1
        for row, group, rate, move in zip(self.now, self.groups, rates, tree.state.last_moves, strict=True):
            if group["last_move"]:
                self._options(row, {**group, **group["last_move"]}, rate, move)
        if not moved:
            return
        if not plan.leaf:
            plan.kappa[0] = torch.cat([kappa.reshape(-1) for kappa in tree.last_kappa(rates)]).numpy()
            return
        gamma = learning.gammas(self.last_weights, plan.combine)
        learned, given = self.now[:, core.LEARNED].copy(), self.now[:, core.GIVEN].copy()
        learning.spread(plan.group_of_cell, plan.index, plan.firsts, plan.rates, gamma, learned, given, plan.kappa)

    def _end(self, keep_alive: list[Tensor]) -> None:
        """Note what moved and with which options."""
        self.moved[:] = self.plan.places[:, passes.ACTIVE]
        self.known_moved = self.actives
        self.tree.end(self.known_moved)
        for group in self.groups:
            group["last_move"] = {name: group[name] for name in self.rule.remembers}
        keep_alive.clear()
        torch.autograd.graph.increment_version(self.params)  # the kernels write behind autograd's back


def _as_it_lies(tensor: Tensor, param: Tensor) -> Tensor:
    """The tensor itself, or a copy laid out in memory as the parameter is."""
    if tensor.stride() == param.stride() and tensor.dtype == param.dtype:
        return tensor
    return torch.empty_like(param).copy_(tensor)
