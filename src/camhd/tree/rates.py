"""`RateTree`: the learning rates of all levels, and Algorithm 1's lines about them.

A step asks of the tree, in this order:

- `look_ahead`: what schedulers and the user's functions say of this step;
- `moved`: which parameters have a last direction to look back on;
- `observer`: takes in this step's gradients times those directions, summed into cells (line 1);
- `begin`, before the first of those directions is written to: none of them counts any more;
- `advance`: rates and weights learn, and κ comes back for every parameter, to broadcast to it (lines 2 to 5);
- `end`: the parameters that have moved.

A step that is cut short anywhere leaves all of the old rates and weights or all of the new ones (`camhd.tree.commit`),
and directions that do not count unless they are whole.

All large work is per parameter tensor and happens in the observer; the rest is vectors of cells
(`camhd.levels.layout`). Nothing here waits for the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..combine import State as Weights
from ..levels import Family, Global, Layout
from . import bounds
from .cells import Cells
from .commit import Commit, Whole
from .config import GroupRates, TreeConfig
from .kappa import Kappas, Scheduled, Within
from .learning import learn
from .numbers import Number
from .observer import Observer
from .placements import put_together
from .state import STILL, Ahead, Level, Move, Signal, TreeState, Write


class RateTree(Whole):
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
        state = TreeState(
            levels=[Level.fresh(self.cells.starts(i, lr), rule) for i in range(len(layout.partitions))],
            leaves=[self._fresh_leaf(slot, p, self.cells) for slot, p in enumerate(params)] if layout.leaf else [],
            weights=started,
            last_weights={name: value.clone() for name, value in started.items()},
            last_moves=[STILL] * len(lr0s),
            moved=frozenset(),
            skipped=torch.zeros((), dtype=torch.int64, device=self.cells.device),
        )
        super().__init__(state)
        self.cells.refer([level.starts for level in state.levels], self.cells.alike)
        if rule.traced:
            state.tracing = bounds.fresh(self.cells)

    @property
    def layout(self) -> Layout:
        return self.cells.layout

    def _fresh_leaf(self, slot: int, param: Tensor, cells: Cells) -> Level:
        lr0 = cells.lr0s[cells.layout.slots[slot].group]
        return Level.fresh(torch.full_like(param, lr0, dtype=cells.dtype), self.config.hyper_rule)

    # ------------------------------------------------------------------ one step

    def look_ahead(self, groups: Sequence[GroupRates]) -> Ahead:
        """What schedulers and the user's own functions say of the coming step. They may raise: nothing is changed."""
        step = self.state.step + 1
        decay = self.config.decay(step)
        return Ahead([Move(self.factor(group), decay) for group in groups], bool(self.config.restarts(step)))

    @property
    def moved(self) -> frozenset[int]:
        """The slots that have a last direction (with a traced rule: a trace)."""
        return self.state.moved

    def begin(self) -> None:
        """From now until `end` no slot has a last direction: a step cut short leaves none that is half-written."""
        self._state.moved = frozenset()

    def observer(self, groups: Sequence[GroupRates]) -> Observer:
        """Line 1: takes in this step's gradients and last directions, and gives the signal to `advance` with."""
        return Observer(self.config, self.cells, self._state, groups)

    def factor(self, group: GroupRates) -> Number:
        """What a scheduler has made of a param group's lr, in the precision of the rates."""
        factor = group.factor()
        return factor.to(self.cells.dtype) if isinstance(factor, Tensor) else factor

    def advance(self, signal: Signal, groups: Sequence[GroupRates], ahead: Ahead) -> Kappas:
        """Lines 2 to 5: rates and weights learn, all of them or none; returns κ for every slot."""
        old, draft = self._state.weights, self._state.draft()
        draft.step += 1
        if ahead.restarts:
            self._restart(draft)
        elif signal or self.cells.divided is not None:  # all processes send the same messages at every step
            signal = bounds.seen(self.cells, draft.tracing, signal) if draft.tracing else signal
            learn(self.config, self.cells, draft, signal, groups)
        for name, value in old.items():
            draft.last_weights[name].copy_(value)
        draft.last_moves = ahead.moves
        kappas = self._moving(draft, signal, groups)
        self._commit(draft)
        return kappas

    def _moving(self, draft: TreeState, signal: Signal, groups: Sequence[GroupRates]) -> Kappas:
        """Lines 3 and 5: κ, from the new rates and the old weights."""
        trace, tracing, moves = self.config.hyper_rule.traced, draft.tracing, draft.last_moves
        if not (trace and tracing):
            return self._kappa(draft, draft.last_weights, moves, groups)
        most = bounds.limits(self.cells, tracing, signal, trace)
        bounds.pull_down(self.cells, draft, signal, most, self.config.min_lr)
        at_cells = Within(most.index_select(0, self.cells.layers), bounds.shortened(self.cells, tracing, signal, trace))
        kappas = self._kappa(draft, draft.last_weights, moves, groups, at_cells)
        bounds.remember(tracing, signal, self.cells, kappas.alpha, trace.memory)
        return kappas

    def memories(self, restarts: bool) -> Sequence[Tensor]:
        """What the trace of each slot keeps of itself at this step, shaped to broadcast to it; nothing at a restart."""
        assert self._state.tracing is not None
        kept = self._state.tracing.memory
        return self.cells.by_slot(torch.zeros_like(kept) if restarts else kept)

    def end(self, slots: Iterable[int], before: Iterable[int] = ()) -> None:
        """These parameters have moved: their direction is what the next step looks back on.

        Args:
            slots: of this step.
            before: those that could be looked back on before; a traced rule can still do so if they did not move now.
        """
        slots, before = frozenset(slots), frozenset(before)  # one that there is stays itself
        if self.config.hyper_rule.traced and not slots >= before:
            slots = before if before >= slots else slots | before
        self._state.moved = slots

    def square_weight(self) -> Number:
        """What the next g² counts for in second moments, at least: what the root says, if it is one for all."""
        if self.layout.names[0] != "global":
            return 0.0
        found = self.config.hyper_rule.square_weight(self.state.levels[0].rule)
        if found is None:
            return 0.0
        here = found.device.type == "cpu" and not torch.compiler.is_compiling()
        return float(found) if here else found[0]

    def last_kappa(self, groups: Sequence[GroupRates]) -> Kappas:
        """κ of the last move once more, for rules whose sensitivity depends on it."""
        state = self._state
        return self._kappa(state, state.last_weights, state.last_moves, groups)

    def _kappa(
        self,
        state: TreeState,
        weights: Weights,
        moves: Sequence[Move],
        groups: Sequence[GroupRates],
        within: Within | None = None,
    ) -> Kappas:
        limits = [group.lr_limit for group in groups]
        return Kappas(self.config, self.cells, state, weights, moves, limits, within)

    def back(self, groups: Sequence[GroupRates]) -> dict[int, Tensor]:
        """What a trace is to be multiplied with to lead from a slot's weights to their average, to broadcast to it.

        Slots that have no trace that counts are left out: nothing is known but where they are.
        """
        state, finest = self.state, len(self.state.levels) - 1
        part = self.config.hyper_rule.averaging(state.levels[finest].rule)
        assert part is not None
        assert state.tracing is not None
        scheduled = Scheduled(self.config, state.last_moves, [group.lr_limit for group in groups])
        at_cells = part.index_select(0, self.cells.groups[finest])
        factors = self.cells.by_slot(at_cells * scheduled.kappa(self.cells, state.tracing.kappa))
        return {slot: factors[slot] for slot in sorted(state.moved)}

    def restart(self) -> None:
        """All rates back to where they started; γ stays."""
        draft = self.state.draft()
        self._restart(draft)
        self._commit(draft)

    def restart_now(self) -> None:
        """The same, for a step that has promised to take it back if it is cut short."""
        draft = self._state.draft()
        self._restart(draft)
        Commit(self._state, draft).finish()

    def _restart(self, draft: TreeState) -> None:
        rule = self.config.hyper_rule
        for level in draft.levels:
            Write(level, level.starts, rule.start(level.rates)).carry_out()
        draft.later = [Write(leaf, leaf.starts, rule.start(leaf.rates)) for leaf in draft.leaves]
        if rule.traced:
            draft.tracing = bounds.fresh(self.cells)
        draft.moved = frozenset()

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
        known, grown = len(state.leaves), self.config.combine.grow
        new = [self._fresh_leaf(slot, params[slot], cells) for slot in range(known, len(params))] if layout.leaf else []
        made = replace(
            state,
            levels=levels,
            leaves=[*state.leaves, *new],
            weights=grown(state.weights, self.start_weights, len(layout.layers)),
            last_weights=grown(state.last_weights, self.start_weights, len(layout.layers)),
            last_moves=[*state.last_moves, *[STILL] * (len(lr0s) - len(state.last_moves))],
            tracing=state.tracing and bounds.grown(cells, state.tracing),
        )
        self.adopt(cells, made)

    def _grown(self, index: int, level: Level, cells: Cells) -> Level:
        starts, rule = cells.starts(index, self.lr), self.config.hyper_rule
        before, after = self.cells.divided, cells.divided
        if after is None or before is None:
            return level.extended(starts, rule)
        return level.rearranged(starts, rule, after.places_of(index, before).to(cells.device))

    def adopt(self, cells: Cells, state: TreeState) -> None:
        """Go on from a state that was put together elsewhere, whatever was begun with the one before."""
        self.cells, self._state, self._pending = cells, state, None

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
