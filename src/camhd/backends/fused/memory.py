"""Where an optimizer's parameters, gradients and states lie in memory, for the kernels to find them."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from operator import attrgetter, is_, itemgetter
from typing import Any

import torch
from torch import Tensor

from ...rules import Rule
from ...rules.base import zeros
from ...tree import TreeState
from . import tables
from .kinds import COLUMNS, Groups
from .plan import Plan

# Reading many tensors at once, without a loop in Python.
_grad, _dtype = attrgetter("grad"), attrgetter("dtype")
_address, _stride, _numel = Tensor.data_ptr, Tensor.stride, Tensor.numel


class Memory:
    """Looks up, step by step, what has moved or is new, and writes the addresses into the plan's table.

    Args:
        params: of all groups, one after the other.
        rule: the base rule.
        groups: the optimizer's param groups.
        states: the optimizer's state by parameter.
        names: of the state tensors in the places of `COLUMNS`.
        plan: of the steps.
        tree_state: the tree's, for the rates of single scalars.
    """

    def __init__(
        self, params: Sequence[Tensor], rule: Rule, groups: Groups, states: MutableMapping[Tensor, Any],
        names: tuple[str, ...], plan: Plan, tree_state: TreeState,
    ) -> None:  # fmt: skip
        self.params, self.rule, self.groups, self.states, self.names = params, rule, groups, states, names
        self.plan, self.tree_state = plan, tree_state
        self._note_params()
        count = len(self.params)
        self.held: list[dict[str, Any]] = [{}] * count
        self.held_tensors: list[list[Tensor | None]] = [[None] * count for name in names if name]
        self.getters = [itemgetter(name) for name in names if name]
        self.known_states: list[dict[str, Any]] = []
        self.active: list[bool] = []
        self.all_active = False
        self.actives: frozenset[int] = frozenset()
        # States, and what they get when the kernels have run.
        self.made: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def look_up(self) -> list[Tensor] | None:
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
        if "max_exp_avg_sq" in names and "exp_avg_sq" in found:  # asked for in mid-training: it begins as what v is
            found.setdefault("max_exp_avg_sq", found["exp_avg_sq"].clone(memory_format=torch.preserve_format))
        for name in names:
            found[name] = _as_it_lies(found[name], param) if name in found else zeros(param)
        if "step" in found:
            plan.steps[slot] = float(found["step"])
            found["step"] = torch.from_numpy(plan.steps[slot : slot + 1]).reshape(())
        for tensors, name in zip(self.held_tensors, names, strict=True):
            tensors[slot] = found[name]
        for column, name in zip(COLUMNS, self.names, strict=True):
            places[slot, column] = (found[name] if name else param).data_ptr()
        if self.tree_state.leaves:
            leaf = self.tree_state.leaves[slot]
            leaf.rates = _as_it_lies(leaf.rates, param)
            places[slot, tables.R] = leaf.rates.data_ptr()
        self.made.append((state, found))
        self.held[slot] = state

    def hand_out(self) -> None:
        """State that was made for this step becomes the optimizer's. Before, a first step cut short has left none."""
        for state, found in self.made:
            state.update(found)
        self.made = []


def _as_it_lies(tensor: Tensor, param: Tensor) -> Tensor:
    """The tensor itself, or a copy laid out in memory as the parameter is."""
    if tensor.stride() == param.stride() and tensor.dtype == param.dtype:
        return tensor
    return torch.empty_like(param).copy_(tensor)
