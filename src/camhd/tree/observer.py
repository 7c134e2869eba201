"""Line 1 of Algorithm 1: this step's gradients meet the directions of the last one, a piece at a time.

Everything that needs single scalars happens here, while a piece of the network is at hand: the
sums into cells and, for a per-scalar level, the rates that its scalars are to have. `learn` does
the rest with vectors of cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from ..combine import Places
from ..combine import State as Weights
from ..hyper import Pull
from .cells import Cells
from .config import GroupRates, TreeConfig
from .numbers import Number, times_
from .state import Level, Move, NewLeaf, Rows, Signal, TreeState

Parts: TypeAlias = dict[int, list[Tensor]]  # by slot, for each run of its rows


def chain_of(config: TreeConfig, moves: Sequence[Move]) -> list[Number]:
    """−τ(t−1)·c of each param group, by which g·s becomes h."""
    return [-move.decay * (1.0 if config.schedule == "global" else move.factor) for move in moves]


def columns_of(config: TreeConfig, cells: Cells, state: TreeState, moves: Sequence[Move]) -> list[Tensor]:
    """The rates of every level above the scalars, at each cell."""
    columns = [cells.spread(i, level.rates) for i, level in enumerate(state.levels)]
    if config.schedule == "global":  # the root is not learned: it is what the scheduler says
        columns[0] = cells.times_by_group(cells.lr0, [move.factor for move in moves])
    return columns


def leaf_shares(config: TreeConfig, cells: Cells, weights: Weights) -> Sequence[Tensor]:
    """∂α*/∂α of the per-scalar level, for each slot, if the combination is linear."""
    combine, layout = config.combine, cells.layout
    if not combine.by_layer:
        return [combine.shares(weights, Places([], 0, 1.0))[-1]] * len(layout.slots)
    layers = torch.arange(len(layout.layers), device=cells.device)
    by_layer = combine.shares(weights, Places([], layers, 1.0))[-1].unbind()
    return [by_layer[layer] for layer in layout.layer_of_slot]


class Observer:
    """Takes in g·s of one step and gives the `Signal` that the tree learns from.

    Args:
        config: the tree's settings.
        cells: its layout.
        state: what it has learned so far; nothing is written to it.
        groups: what the torch param groups say.
    """

    def __init__(self, config: TreeConfig, cells: Cells, state: TreeState, groups: Sequence[GroupRates]) -> None:
        self.config, self.cells, self.state, self.groups = config, cells, state, groups
        self._dots: Parts = {}
        self._grads: Parts = {}
        self._moves: Parts = {}
        self._leaf_dots: Parts = {}
        self._pulls: list[Parts] = [{} for _ in state.levels]
        self._leaves: list[NewLeaf] = []
        self._lengths: Parts = {}
        self._sizes: Parts = {}
        self._slope: Weights = {}
        self._above: Mapping[int, Sequence[Tensor]] = {}
        if state.leaves:
            combine = config.combine
            self._weights = state.last_weights if combine.at_last_move else state.weights
            self._learns = combine.learns and config.combine_lr > 0
            self._chain = chain_of(config, state.last_moves)
            self._shares: Sequence[Number] = [1.0] * len(cells.counts)
            if combine.linear and config.hyper_rule.chained:
                self._shares = leaf_shares(config, cells, self._weights)
            elif not combine.linear:
                columns = columns_of(config, cells, state, state.last_moves)
                self._above = dict(enumerate(zip(*map(cells.by_slot, (*columns, cells.unit)), strict=True)))

    def see(
        self,
        slots: Sequence[int],
        rows: Sequence[Rows],
        grads: Sequence[Tensor],
        last: Sequence[Tensor],
        scales: Sequence[Number],
        fresh: bool,
    ) -> None:
        """g_t and s_{t−1} = scale · last of some parameters, or of some rows of them; `last` is ours if `fresh`."""
        dtype, cells = self.cells.dtype, self.cells
        if any(tensor.dtype != dtype for tensor in (*grads, *last)):
            grads, last = [g.to(dtype) for g in grads], [s.to(dtype) for s in last]
        if self.config.hyper_rule.needs_norms:
            self._take(self._grads, slots, [cells.dot(slot, g, g) for slot, g in zip(slots, grads, strict=True)])
            squares = [cells.dot(slot, s, s) for slot, s in zip(slots, last, strict=True)]
            times_(squares, [scale**2 for scale in scales])
            self._take(self._moves, slots, squares)
        if not self.state.leaves:
            dots = self._dots_of(slots, grads, last, fresh)
            times_(dots, scales)
            self._take(self._dots, slots, dots)
            return
        products = _products(grads, last, fresh)
        sums = [cells.sum_to(slot, product) for slot, product in zip(slots, products, strict=True)]
        self._take(self._dots, slots, [value * scale for value, scale in zip(sums, scales, strict=True)])
        for slot, some, product, scale in zip(slots, rows or [None] * len(slots), products, scales, strict=True):
            self._see_scalars(slot, some, product, scale)

    def measure(
        self,
        slots: Sequence[int],
        directions: Sequence[Tensor],
        scales: Sequence[Number],
        params: Sequence[Tensor],
    ) -> None:
        """Σ d² and Σ θ² of parameters that are to move, or of rows of them; d = scale · direction."""
        dtype, cells = self.cells.dtype, self.cells
        directions, params = [d.to(dtype) for d in directions], [p.to(dtype) for p in params]
        squares = [cells.dot(slot, d, d) for slot, d in zip(slots, directions, strict=True)]
        times_(squares, [scale**2 for scale in scales])
        self._take(self._lengths, slots, squares)
        self._take(self._sizes, slots, [cells.dot(slot, p, p) for slot, p in zip(slots, params, strict=True)])

    def signal(self) -> Signal:
        """All that was seen."""

        def whole(parts: Parts) -> dict[int, Tensor]:
            return {slot: self.cells.join(slot, found) for slot, found in parts.items()}

        return Signal(
            dots=whole(self._dots),
            grads=whole(self._grads),
            moves=whole(self._moves),
            leaves=self._leaves,
            leaf_dots=whole(self._leaf_dots),
            pulls=[whole(parts) for parts in self._pulls],
            slope=self._slope,
            lengths=whole(self._lengths),
            sizes=whole(self._sizes),
        )

    def _dots_of(
        self, slots: Sequence[int], grads: Sequence[Tensor], last: Sequence[Tensor], fresh: bool
    ) -> list[Tensor]:
        """Σ g·s per cell."""
        cells = self.cells
        if all(cells.whole[slot] for slot in slots):
            return [cells.dot(slot, g, s) for slot, g, s in zip(slots, grads, last, strict=True)]
        products = _products(grads, last, fresh)
        return [cells.sum_to(slot, product) for slot, product in zip(slots, products, strict=True)]

    def _take(self, parts: Parts, slots: Sequence[int], values: Sequence[Tensor]) -> None:
        for slot, value in zip(slots, values, strict=True):
            parts.setdefault(slot, []).append(value.to(self.cells.device))

    def _see_scalars(self, slot: int, rows: Rows, product: Tensor, scale: Number) -> None:
        """The same for a per-scalar level, whose groups have one member: ‖g‖·‖s‖ = |g·s|. Writes to `product`."""
        config, leaf = self.config, self.state.leaves[slot].part(rows)
        group, names = self.cells.layout.slots[slot].group, self.cells.layout.names
        norms = product.abs() * scale if config.hyper_rule.needs_norms else None
        factor = self._chain[group] * scale
        if config.combine.linear:
            share = self._shares[slot]
            if self._learns:
                self._take(self._leaf_dots, [slot], [self.cells.dot(slot, leaf.rates, product) * scale])
        else:
            product, factor = product.mul_(factor), 1.0  # h
            share = self._see_shares(slot, rows, product, leaf)
        factor = factor * self.groups[group].beta(names[-1]) * share
        pull = product.mul_(factor.to(product.device) if isinstance(factor, Tensor) else factor)
        rates, rule = config.hyper_rule.update(leaf.rates, Pull(pull, norms, self.state.step + 1), leaf.rule)
        self._leaves.append(NewLeaf.of(slot, rows, rates, rule))

    def _see_shares(self, slot: int, rows: Rows, hyper: Tensor, leaf: Level) -> Number:
        """∂α*/∂α of the per-scalar level where it depends on the rates; what needs the others is summed up here."""
        cells, combine = self.cells, self.config.combine
        *above, unit = [cells.rows(slot, value, rows).to(leaf.rates.device) for value in self._above[slot]]
        here = Places([*above, leaf.rates], cells.layout.layer_of_slot[slot], unit)
        chained = self.config.hyper_rule.chained
        shares: Sequence[Number] = combine.shares(self._weights, here) if chained else [1.0] * len(here.rates)
        for parts, share in zip(self._pulls, shares[:-1], strict=True):
            self._take(parts, [slot], [_summed(cells, slot, hyper, share)])
        if self._learns and cells.counted(slot):
            part = combine.gradient(self._weights, here, hyper)
            slope = self._slope
            self._slope = {
                name: slope[name] + v.to(cells.device) if slope else v.to(cells.device) for name, v in part.items()
            }
        return shares[-1]


def _products(grads: Sequence[Tensor], last: Sequence[Tensor], fresh: bool) -> Sequence[Tensor]:
    if not fresh:
        return torch._foreach_mul(list(last), list(grads))
    torch._foreach_mul_(list(last), list(grads))
    return last


def _summed(cells: Cells, slot: int, hyper: Tensor, share: Number) -> Tensor:
    if isinstance(share, Tensor) and share.dim():
        return cells.sum_to(slot, hyper * share)
    return cells.sum_to(slot, hyper) * share  # one share for the whole tensor: multiply the few, not the many
