"""`RateTree`: the learning rates of all levels, and Algorithm 1's lines about them.

A step asks of the tree, in this order:

- `begin`: which parameters have a last direction to look back on;
- `observer`: takes in this step's gradients times those directions, summed into cells (line 1);
- `advance`: the rates learn, the weights learn, and the rate κ for every parameter comes back as a
  tensor that broadcasts to it (lines 2 to 5);
- `end`: the parameters that have moved.

All large work is per parameter tensor and happens in the observer; the rest is vectors of cells
(`camhd.levels.layout`). Nothing here waits for the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..combine import State as Weights
from ..levels import Family, Global, Layout
from . import bounds
from .cells import Cells
from .config import GroupRates, TreeConfig
from .kappa import Kappas
from .learning import learn
from .numbers import Number
from .observer import Observer
from .placements import put_together
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
        if rule.traced and self.cells.divided is not None:
            raise ValueError(
                "hyper_rule='long_horizon' cannot learn from parameters that are divided over processes yet; use "
                "hyper_rule='additive', or DistributedDataParallel."
            )
        if rule.traced:
            self.state.tracing = bounds.fresh(self.cells)

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

    def observer(self, groups: Sequence[GroupRates]) -> Observer:
        """Line 1: takes in this step's gradients and last directions, and gives the signal to `advance` with."""
        return Observer(self.config, self.cells, self.state, groups)

    def factor(self, group: GroupRates) -> Number:
        """What a scheduler has made of a param group's lr, in the precision of the rates."""
        factor = group.factor()
        return factor.to(self.cells.dtype) if isinstance(factor, Tensor) else factor

    def advance(self, signal: Signal, groups: Sequence[GroupRates]) -> Kappas:
        """Lines 2 to 5: rates and weights learn; returns κ for every slot."""
        state = self.state
        moves = [Move(self.factor(group), self.config.decay(state.step + 1)) for group in groups]
        state.step += 1
        weights = {name: value.clone() for name, value in state.weights.items()}
        if self.config.restarts(state.step):
            self.restart()
        elif signal or self.cells.divided is not None:  # all processes send the same messages at every step
            seen = bounds.seen(self.cells, state.tracing, signal) if state.tracing else signal
            learn(self.config, self.cells, state, seen, groups)
        for name, value in weights.items():
            state.last_weights[name].copy_(value)
        state.last_moves = moves
        # Line 3 combines the new rates with the old weights.
        trace, tracing = self.config.hyper_rule.traced, state.tracing
        if not (trace and tracing):
            return self._kappa(weights, moves, groups)
        most = bounds.limits(self.cells, tracing, signal, trace)
        bounds.pull_down(self.cells, state, signal, most)
        kappas = self._kappa(weights, moves, groups, most)
        bounds.remember(tracing, signal, self.cells, kappas.alpha, trace.memory)
        return kappas

    def memories(self) -> Sequence[Tensor]:
        """What the trace of each slot keeps of itself at this step, shaped to broadcast to it."""
        assert self.state.tracing is not None
        kept = self.state.tracing.memory
        if self.config.restarts(self.state.step + 1):  # nothing from before
            kept = torch.zeros_like(kept)
        return self.cells.by_slot(kept)

    def end(self, slots: Iterable[int]) -> None:
        """These parameters have moved: their direction is what the next step looks back on."""
        self.state.moved = slots if isinstance(slots, frozenset) else frozenset(slots)

    def last_kappa(self, groups: Sequence[GroupRates]) -> Kappas:
        """κ of the last move once more, for rules whose sensitivity depends on it."""
        return self._kappa(self.state.last_weights, self.state.last_moves, groups)

    def _kappa(
        self, weights: Weights, moves: Sequence[Move], groups: Sequence[GroupRates], most: Tensor | None = None
    ) -> Kappas:
        limits = [group.lr_limit for group in groups]
        return Kappas(self.config, self.cells, self.state, weights, moves, limits, most)

    def restart(self) -> None:
        """All rates back to where they started; γ stays."""
        for level in self.state.all_levels():
            level.rates.copy_(level.starts)
            for name, value in self.config.hyper_rule.start(level.rates).items():
                level.rule[name].copy_(value)
        if self.state.tracing:
            bounds.forget(self.state.tracing)
        self.state.moved = frozenset()

    def grow(self, layout: Layout, lr0s: Sequence[float], params: Sequence[Tensor]) -> None:
        """Take in the parameters of further param groups; all that was learned so far stays."""
        if layout.names != self.layout.names:
            raise ValueError(
                f"the levels nest as {self.layout.names} so far, but as {layout.names} with the new parameters; "
                "build a new optimizer instead."
            )
        state = self.state
        cells = Cells(layout, lr0s, self.start_weights)
        levels = [self._grown(i, level, cells) for i, level in enumerate(state.levels)]
        cells.refer([level.starts for level in levels], cells.alike and self.cells.alike)
        self.cells, state.levels = cells, levels
        if state.tracing:
            state.tracing = state.tracing.extended(cells.total)
        if layout.leaf:
            first = len(state.leaves)
            state.leaves += [self._fresh_leaf(slot, params[slot]) for slot in range(first, len(params))]
        grown = self.config.combine.grow
        state.weights = grown(state.weights, self.start_weights, len(layout.layers))
        state.last_weights = grown(state.last_weights, self.start_weights, len(layout.layers))
        state.last_moves = [*state.last_moves, *[STILL] * (len(lr0s) - len(state.last_moves))]

    def _grown(self, index: int, level: Level, cells: Cells) -> Level:
        starts, rule = cells.starts(index, self.lr), self.config.hyper_rule
        before, after = self.cells.divided, cells.divided
        if after is None or before is None:
            return level.extended(starts, rule)
        return level.rearranged(starts, rule, after.places_of(index, before).to(cells.device))

    def adopt(self, cells: Cells, state: TreeState) -> None:
        """Go on from a restored state."""
        self.cells, self.state = cells, state

    # ------------------------------------------------------------------ reading

    def rates(self, groups: Sequence[GroupRates]) -> dict[str, Any]:
        """The rates now, by level and name."""
        found: dict[str, Any] = {}
        for index, (level, partition) in enumerate(zip(self.state.levels, self.layout.partitions, strict=True)):
            kind = partition.level
            if isinstance(kind, Global):
                scheduled = self.config.schedule == "global"
                found[kind.name] = float(groups[0].lr) if scheduled else float(level.rates)
                continue
            named: dict[str, Any] = {}
            found[kind.name] = named
            for family, rates in self._families(index):
                if family.labels:
                    named |= {f"{family.name}.{label}": float(r) for label, r in zip(family.labels, rates, strict=True)}
                else:
                    named[family.name] = rates.clone() if kind.many else float(rates)
        if self.layout.leaf:
            found[self.layout.leaf.name] = {
                slot.name: self.shaped(slot.index, leaf.rates.clone())
                for slot, leaf in zip(self.layout.slots, self.state.leaves, strict=True)
            }
        return found

    def shaped(self, slot: int, part: Tensor) -> Tensor:
        """A tensor like a parameter from what this process has of it: a DTensor where the parameter is one."""
        divided = self.cells.divided
        return part if divided is None else divided.shards.wrap(slot, part)

    def _families(self, level: int) -> Iterator[tuple[Family, Tensor]]:
        """The rates of every family of a level; DTensors where they are divided as the parameters are."""
        divided, rates = self.cells.divided, self.state.levels[level].rates
        by_rows = {} if divided is None else divided.by_rows(level)
        for family in self.layout.partitions[level].families:
            found = rates[family.run]
            if divided is not None and family in by_rows:
                found = divided.shards.wrap_rows(by_rows[family], found)
            yield family, found

    def level_rates(self, whole: bool = False) -> dict[str, list[Tensor]]:
        """The rates of every level as they are kept: one vector, or one tensor for each parameter.

        Args:
            whole: where parameters are divided over processes, the rates of all of them, in the order of one
                process; then all of them must ask for it.
        """
        state, layout, divided = self.state, self.layout, self.cells.divided
        found = {
            partition.level.name: [level.rates]
            for partition, level in zip(layout.partitions, state.levels, strict=True)
        }
        leaves = [leaf.rates for leaf in state.leaves]
        if divided is not None and whole:
            for index, name in enumerate(found):
                if divided.by_rows(index):
                    found[name] = [torch.cat([put_together(rates) for _, rates in self._families(index)])]
            leaves = [put_together(divided.shards.wrap(slot, rates)) for slot, rates in enumerate(leaves)]
        return {**found, layout.leaf.name: leaves} if layout.leaf is not None else found

    def combination(self) -> Mapping[str, Any]:
        """The weights now."""
        return self.config.combine.describe(self.state.weights, self.layout.names, self.layout.layers)
