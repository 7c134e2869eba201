"""Lines 3 and 5 of Algorithm 1: κ = c (τ α* + (1 − τ) α_∞) with α* = Σ γ_i α_i, for every parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, overload

import torch
from torch import Tensor

from ..combine import Places
from ..combine import State as Weights
from .cells import Cells
from .config import TreeConfig
from .observer import columns_of, leaf_shares
from .state import Move, Rows, TreeState


class Within(NamedTuple):
    """Bounds of a step, at each cell."""

    most: Tensor  # the largest α* there may be
    part: Tensor | None = None  # what is taken of a step within that; None for all of it

    def bounded(self, alpha: Tensor) -> Tensor:
        """α* within them."""
        alpha = torch.minimum(alpha, self.most)
        return alpha if self.part is None else alpha * self.part


class Scheduled:
    """What schedulers and decay make of rates: κ = c (τ α* + (1 − τ) α_∞).

    Args:
        config: the tree's settings.
        moves: the scheduler's factor c and the decay τ of each param group.
        limits: α_∞ of each param group.
    """

    def __init__(self, config: TreeConfig, moves: Sequence[Move], limits: Sequence[float]) -> None:
        self.decays = config.decays
        schedule = [1.0 if config.schedule == "global" else move.factor for move in moves]
        self.learned = [c * move.decay for c, move in zip(schedule, moves, strict=True)]
        self.given = [c * (1 - move.decay) * a for c, move, a in zip(schedule, moves, limits, strict=True)]

    def kappa(self, cells: Cells, alpha: Tensor) -> Tensor:
        """From α* to κ, at all cells."""
        kappa = cells.times_by_group(alpha, self.learned)
        return kappa + cells.by_group(self.given) if self.decays else kappa


class Kappas(Sequence[Tensor]):
    """κ of every slot, as a tensor that broadcasts to its parameter.

    Above a per-scalar level all of it is one vector of cells. With such a level it is as large as the
    parameter, and is made when it is asked for, from the rates as they are then.

    Args:
        config: the tree's settings.
        cells: its layout.
        state: its rates.
        weights: what the combination has learned.
        moves: the scheduler's factor c and the decay τ of each param group.
        limits: α_∞ of each param group.
        within: the bounds of the step, if there are any.
    """

    def __init__(
        self,
        config: TreeConfig,
        cells: Cells,
        state: TreeState,
        weights: Weights,
        moves: Sequence[Move],
        limits: Sequence[float],
        within: Within | None = None,
    ) -> None:
        self.config, self.cells, self.state, self.weights = config, cells, state, weights
        self.scheduled = Scheduled(config, moves, limits)
        columns, combine = columns_of(config, cells, state, moves), config.combine
        layer = cells.layers if combine.by_layer else 0
        if not state.leaves:
            alpha = self._bounded(combine.mix(weights, Places(columns, layer, cells.unit)))
            self.alpha = alpha if within is None else within.bounded(alpha)
            self.parts = cells.by_slot(self.scheduled.kappa(cells, self.alpha))
        elif combine.linear:
            shares = combine.shares(weights, Places(columns, layer, cells.unit))
            alpha = torch.zeros(cells.total, dtype=cells.dtype, device=cells.device)
            for share, column in zip(shares, columns, strict=False):
                alpha = torch.addcmul(alpha, column, share)
            self.parts = cells.by_slot(self.scheduled.kappa(cells, alpha))
            of_leaf = zip(leaf_shares(config, cells, weights), cells.layout.slots, strict=True)
            self.shares = [share * self.scheduled.learned[slot.group] for share, slot in of_leaf]
        else:
            self.above = list(zip(*map(cells.by_slot, (*columns, cells.unit)), strict=True))

    def __len__(self) -> int:
        return len(self.cells.counts)

    @overload
    def __getitem__(self, slot: int) -> Tensor: ...

    @overload
    def __getitem__(self, slot: slice) -> list[Tensor]: ...

    def __getitem__(self, slot: int | slice) -> Tensor | list[Tensor]:
        if isinstance(slot, slice):
            return [self.at(one) for one in range(len(self))[slot]]
        return self.at(range(len(self))[slot])

    def at(self, slot: int, rows: Rows = None) -> Tensor:
        """κ of one parameter, or of some rows of it."""
        cells, combine = self.cells, self.config.combine
        if not self.state.leaves:
            return cells.rows(slot, self.parts[slot], rows)
        leaf = self.state.leaves[slot].part(rows).rates
        layer, group = cells.layout.layer_of_slot[slot], cells.layout.slots[slot].group
        if combine.linear:
            above = cells.rows(slot, self.parts[slot], rows).to(leaf.device)
            return torch.addcmul(above, leaf, self.shares[slot].to(leaf.device))
        *columns, unit = [cells.rows(slot, value, rows).to(leaf.device) for value in self.above[slot]]
        alpha = self._bounded(combine.mix(self.weights, Places([*columns, leaf], layer, unit)))
        alpha = alpha * self.scheduled.learned[group]
        return alpha + self.scheduled.given[group] if self.config.decays else alpha

    def _bounded(self, alpha: Tensor) -> Tensor:
        config = self.config
        return alpha if config.combine.convex else alpha.clamp(config.min_lr, config.max_lr)
