"""`RateTree`: the learning rates of all levels, and Algorithm 1's lines about them.

A step asks of the tree, in this order:

- `begin`: which parameters have a last direction to look back on;
- `observe` for each of them: this step's gradient times that direction, summed into cells (line 1);
- `advance`: the rates learn, the weights learn, and the rate κ for every parameter comes back as a
  tensor that broadcasts to it (lines 2 to 5);
- `end`: the parameters that have moved.

All large work is per parameter tensor and happens in `observe`; the rest is vectors of cells
(`camhd.levels.layout`). Nothing here waits for the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..combine import State as Weights
from ..levels import Global, Layout
from .cells import Cells
from .config import GroupRates, TreeConfig
from .learning import learn, places
from .state import STILL, Level, Move, Signal, TreeState


class RateTree:
    """The rates, their hypergradients summed up, the combined rate handed down.

    Args:
        config: levels, combination, hyper rule and bounds.
        layout: who shares a rate with whom.
        lr0s: the first lr of each torch param group.
        lr: the optimizer's own lr, the unit of rates that groups of different lr share.
        params: the parameters in the order of the slots; complex ones as pairs of reals.
    """

    def __init__(
        self, config: TreeConfig, layout: Layout, lr0s: Sequence[float], lr: float, params: Sequence[Tensor]
    ) -> None:
        self.config, self.lr = config, lr
        if config.schedule == "global" and layout.names[0] != "global":
            raise ValueError(
                f"schedule='global' needs the level 'global', but 'levels' has only {layout.names}; add it."
            )
        dtype = torch.float64 if any(p.dtype == torch.float64 for p in params) else torch.float32
        self.cells = Cells(layout, lr0s, torch.empty(0, dtype=dtype, device=params[0].device))
        spelled = [level.name for level in config.levels]
        weights = [config.weights[spelled.index(name)] for name in layout.names]
        self.start_weights = torch.tensor(weights, dtype=dtype, device=self.cells.device)
        started = config.combine.start(self.start_weights, len(layout.layers))
        rule = config.hyper_rule
        self.state = TreeState(
            levels=[Level.fresh(self.cells.starts(i, lr), rule) for i in range(len(layout.partitions))],
            leaves=[self._fresh_leaf(slot, p) for slot, p in enumerate(params)] if layout.leaf else [],
            weights=started,
            last_weights={name: value.clone() for name, value in started.items()},
            last_moves=[STILL] * len(lr0s),
            moved=frozenset(),
            skipped=torch.zeros((), dtype=torch.int64, device=self.cells.device),
        )
        self.cells.refer([level.starts for level in self.state.levels], self.cells.alike)

    @property
    def layout(self) -> Layout:
        return self.cells.layout

    def _fresh_leaf(self, slot: int, param: Tensor) -> Level:
        lr0 = self.cells.lr0s[self.layout.slots[slot].group]
        return Level.fresh(torch.full_like(param, lr0, dtype=self.cells.dtype), self.config.hyper_rule)

    # ------------------------------------------------------------------ one step

    def begin(self) -> frozenset[int]:
        """The slots that have a last direction. Until `end`, no slot has one: a step cut short leaves none."""
        moved, self.state.moved = self.state.moved, frozenset()
        return moved

    def observe(self, signal: Signal, slot: int, grad: Tensor, last: Tensor, scale: float = 1.0) -> None:
        """Line 1: g_t · s_{t−1} of one parameter, with s = scale · last, summed into its cells."""
        shape, cells = self.layout.cell_shapes[slot], self.cells
        grad, last = grad.to(cells.dtype), last.to(cells.dtype)
        if self.state.leaves:
            signal.products[slot] = grad * last * scale
            signal.dots[slot] = signal.products[slot].sum_to_size(shape).to(cells.device)
        else:
            signal.dots[slot] = _dot(grad, last, shape).to(cells.device) * scale
        if self.config.hyper_rule.needs_norms:
            signal.grads[slot] = _dot(grad, grad, shape).to(cells.device)
            signal.moves[slot] = _dot(last, last, shape).to(cells.device) * scale**2

    def advance(self, signal: Signal, groups: Sequence[GroupRates]) -> list[Tensor]:
        """Lines 2 to 5: rates and weights learn; returns κ for every slot."""
        state = self.state
        moves = [Move(group.factor(), self.config.decay(state.step + 1)) for group in groups]
        state.step += 1
        weights = {name: value.clone() for name, value in state.weights.items()}
        if self.config.restarts(state.step):
            self.restart()
        elif signal:
            learn(self.config, self.cells, state, signal, groups)
        for name, value in weights.items():
            state.last_weights[name].copy_(value)
        state.last_moves = moves
        # Line 3 combines the new rates with the old weights.
        return self._kappa(weights, moves, [group.lr_limit for group in groups])

    def end(self, slots: Iterable[int]) -> None:
        """These parameters have moved: their direction is what the next step looks back on."""
        self.state.moved = slots if isinstance(slots, frozenset) else frozenset(slots)

    def last_kappa(self, groups: Sequence[GroupRates]) -> list[Tensor]:
        """κ of the last move once more, for rules whose sensitivity depends on it."""
        return self._kappa(self.state.last_weights, self.state.last_moves, [group.lr_limit for group in groups])

    def _kappa(self, weights: Weights, moves: Sequence[Move], limits: Sequence[float]) -> list[Tensor]:
        """Lines 3 and 5: κ = c (τ α* + (1 − τ) α_∞) with α* = Σ γ_i α_i."""
        config, cells = self.config, self.cells
        schedule = [1.0 if config.schedule == "global" else move.factor for move in moves]
        learned = [c * move.decay for c, move in zip(schedule, moves, strict=True)]
        given = [c * (1 - move.decay) * a for c, move, a in zip(schedule, moves, limits, strict=True)]
        decays = any(move.decay != 1 for move in moves)
        kappas: list[Tensor] = []
        for slot, here in places(config, cells, self.state, moves):
            alpha = config.combine.mix(weights, here)
            if not config.combine.convex:
                alpha = alpha.clamp(config.min_lr, config.max_lr)
            if slot is None:
                alpha = cells.times_by_group(alpha, learned)
                return cells.by_slot(alpha + cells.by_group(given) if decays else alpha)
            group = cells.layout.slots[slot].group
            kappas.append(alpha * learned[group] + given[group] if decays else alpha * learned[group])
        return kappas

    def restart(self) -> None:
        """All rates back to where they started; γ stays."""
        for level in self.state.all_levels():
            level.rates.copy_(level.starts)
            for name, value in self.config.hyper_rule.start(level.rates).items():
                level.rule[name].copy_(value)
        self.state.moved = frozenset()

    def grow(self, layout: Layout, lr0s: Sequence[float], params: Sequence[Tensor]) -> None:
        """Take in the parameters of further param groups; all that was learned so far stays."""
        if layout.names != self.layout.names:
            raise ValueError(
                f"the levels nest as {self.layout.names} so far, but as {layout.names} with the new parameters; "
                "build a new optimizer instead."
            )
        rule, state = self.config.hyper_rule, self.state
        cells = Cells(layout, lr0s, self.start_weights)
        levels = [level.extended(cells.starts(i, self.lr), rule) for i, level in enumerate(state.levels)]
        cells.refer([level.starts for level in levels], cells.alike and self.cells.alike)
        self.cells, state.levels = cells, levels
        if layout.leaf:
            first = len(state.leaves)
            state.leaves += [self._fresh_leaf(slot, params[slot]) for slot in range(first, len(params))]
        grown = self.config.combine.grow
        state.weights = grown(state.weights, self.start_weights, len(layout.layers))
        state.last_weights = grown(state.last_weights, self.start_weights, len(layout.layers))
        state.last_moves = [*state.last_moves, *[STILL] * (len(lr0s) - len(state.last_moves))]

    def adopt(self, cells: Cells, state: TreeState) -> None:
        """Go on from a restored state."""
        self.cells, self.state = cells, state

    # ------------------------------------------------------------------ reading

    def rates(self, groups: Sequence[GroupRates]) -> dict[str, Any]:
        """The rates now, by level and name."""
        found: dict[str, Any] = {}
        for level, partition in zip(self.state.levels, self.layout.partitions, strict=True):
            kind = partition.level
            if isinstance(kind, Global):
                scheduled = self.config.schedule == "global"
                found[kind.name] = float(groups[0].lr) if scheduled else float(level.rates)
                continue
            named: dict[str, Any] = {}
            found[kind.name] = named
            for family in partition.families:
                rates = level.rates[family.run]
                if family.labels:
                    named |= {f"{family.name}.{label}": float(r) for label, r in zip(family.labels, rates, strict=True)}
                else:
                    named[family.name] = rates.clone() if kind.many else float(rates)
        if self.layout.leaf:
            found[self.layout.leaf.name] = {
                slot.name: leaf.rates.clone() for slot, leaf in zip(self.layout.slots, self.state.leaves, strict=True)
            }
        return found

    def combination(self) -> Mapping[str, Any]:
        """The weights now."""
        return self.config.combine.describe(self.state.weights, self.layout.names, self.layout.layers)


def _dot(one: Tensor, other: Tensor, shape: Sequence[int]) -> Tensor:
    """The product of two tensors summed to a shape; without a tensor in between where that is one number."""
    if all(size == 1 for size in shape) and one.is_contiguous() and other.is_contiguous():
        return torch.dot(one.view(-1), other.view(-1))
    return (one * other).sum_to_size(shape)
