"""All that a tree has learned or must remember, in one place: what a checkpoint holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from ..combine import State as Weights
from ..hyper import HyperRule
from ..hyper import State as RuleState
from .numbers import Number


class Move(NamedTuple):
    """How a param group last moved: the scheduler's factor c and the decay τ of that step."""

    factor: Number = 1.0
    decay: Number = 1.0


class Ahead(NamedTuple):
    """What is known of a step before it touches anything."""

    moves: list[Move]  # by param group
    restarts: bool  # whether all rates start afresh at it


STILL = Move(0.0, 0.0)  # a group that has not moved yet has no hypergradient

Rows: TypeAlias = slice | None  # some rows of a parameter; None: all of it


class NewLeaf(NamedTuple):
    """What some rows of a per-scalar level become if the step is taken."""

    slot: int
    rows: Rows
    rates: Tensor
    rule: RuleState
    extremes: list[Tensor]  # finite if all of it is

    @classmethod
    def of(cls, slot: int, rows: Rows, rates: Tensor, rule: RuleState) -> NewLeaf:
        tensors = (rates, *rule.values()) if rates.numel() else ()
        return cls(slot, rows, rates, rule, [extreme for tensor in tensors for extreme in tensor.aminmax()])


@dataclass
class Signal:
    """What was observed at the parameters that have a direction to look back on, by slot."""

    dots: dict[int, Tensor] = field(default_factory=dict)  # Σ g·s per cell (or g·D, D the trace of directions)
    grads: dict[int, Tensor] = field(default_factory=dict)  # Σ g² per cell
    moves: dict[int, Tensor] = field(default_factory=dict)  # Σ s² per cell
    leaves: list[NewLeaf] = field(default_factory=list)  # the per-scalar level
    leaf_dots: dict[int, Tensor] = field(default_factory=dict)  # Σ α·g·s per cell, α of the per-scalar level
    # Where the levels' shares in α* differ within a cell, what needs single scalars is summed while they are at hand:
    pulls: list[dict[int, Tensor]] = field(default_factory=list)  # ∂f/∂α_i per cell, for each level above the scalars
    slope: Weights = field(default_factory=dict)  # ∂f/∂γ
    # With a traced rule, of every parameter that is to move:
    lengths: dict[int, Tensor] = field(default_factory=dict)  # Σ d² per cell
    sizes: dict[int, Tensor] = field(default_factory=dict)  # Σ θ² per cell
    squares: tuple[Tensor, Tensor] | None = None  # the two as vectors of cells, once they were asked for
    layers: Tensor | None = None  # Σ d², Σ θ² and Σ κ of each layer (in three rows), over all processes, likewise

    def __bool__(self) -> bool:
        return bool(self.dots)


@dataclass
class Level:
    """One level's rates (a vector of its groups, or one tensor of a per-scalar level)."""

    rates: Tensor
    starts: Tensor  # where they started, and the unit of what groups of different lr share
    rule: RuleState  # the hyper rule's own state for them

    @classmethod
    def fresh(cls, starts: Tensor, rule: HyperRule) -> Level:
        return cls(starts.clone(), starts, rule.start(starts))

    def extended(self, starts: Tensor, rule: HyperRule) -> Level:
        """The same level with further groups at the end."""
        known, fresh = len(self.rates), Level.fresh(starts, rule)
        return Level(
            torch.cat([self.rates, fresh.rates[known:]]),
            torch.cat([self.starts, fresh.starts[known:]]),
            {name: torch.cat([self.rule[name], value[known:]]) for name, value in fresh.rule.items()},
        )

    def rearranged(self, starts: Tensor, rule: HyperRule, places: Tensor) -> Level:
        """The same level with further groups anywhere; `places` has the new place of every group that there is."""
        fresh = Level.fresh(starts, rule)
        new = {name: value.clone() for name, value in fresh.tensors().items()}
        for name, value in self.tensors().items():
            new[name][places] = value
        return Level(new["rate"], new["start"], {name: new[f"hyper_{name}"] for name in self.rule})

    def copy(self) -> Level:
        """The same rates in other memory; where they started never changes."""
        return Level(self.rates.clone(), self.starts, {name: value.clone() for name, value in self.rule.items()})

    def part(self, rows: Rows) -> Level:
        """Some rows of a per-scalar level's tensor; writing to them writes to it."""
        if rows is None:
            return self
        return Level(self.rates[rows], self.starts[rows], {name: value[rows] for name, value in self.rule.items()})

    def tensors(self) -> dict[str, Tensor]:
        """By name, for a checkpoint."""
        return {"rate": self.rates, "start": self.starts, **{f"hyper_{k}": v for k, v in self.rule.items()}}


class Write(NamedTuple):
    """New rates for a level, or for some rows of a per-scalar level's tensor."""

    level: Level
    rates: Tensor
    rule: RuleState
    where: Tensor | None = None  # whether to take them, decided on the device; None to take them as they are
    bounds: tuple[float, float | None] = (0.0, None)

    def carry_out(self) -> None:
        """Write them, within their bounds. Doing it twice changes nothing."""
        level, where = self.level, self.where
        if where is None:
            level.rates.copy_(self.rates)
        else:
            level.rates.copy_(torch.where(where, self.rates.clamp(*self.bounds), level.rates))
        for name, new in self.rule.items():
            level.rule[name].copy_(new if where is None else torch.where(where, new, level.rule[name]))


@dataclass
class Tracing:
    """What a traced rule must know of the past, at each cell."""

    kappa: Tensor  # α* of the last move, within its bound; 0 before the first
    memory: Tensor  # φ, what the trace keeps of itself at the next step
    usual: Tensor  # how long the direction of its layer has lately been; 0 before the first move

    def extended(self, cells: int) -> Tracing:
        """The same with further cells at the end."""
        more = self.kappa.new_zeros(cells - len(self.kappa))
        return Tracing(*(torch.cat([own, more]) for own in self.tensors().values()))

    def copy(self) -> Tracing:
        """The same in other memory."""
        return Tracing(*(own.clone() for own in self.tensors().values()))

    def tensors(self) -> dict[str, Tensor]:
        """By name, for a checkpoint."""
        return {"kappa": self.kappa, "memory": self.memory, "usual": self.usual}


@dataclass
class TreeState:
    """Everything of a tree that changes from step to step."""

    levels: list[Level]  # above the scalars, root first
    leaves: list[Level]  # one for each slot, if the chain ends in a per-scalar level
    weights: Weights  # γ, or whatever the combination learns
    last_weights: Weights  # those of the last move
    last_moves: list[Move]  # by param group
    moved: frozenset[int]  # the slots that moved at the last step
    skipped: Tensor  # how many hyper updates were not finite
    step: int = 0
    tracing: Tracing | None = None  # with a traced rule
    later: list[Write] = field(default_factory=list)  # of a draft: what its commit does to the leaves

    def draft(self) -> TreeState:
        """A copy to work on. The leaves are as large as the network, so they are not copied but written `later`."""
        tracing = self.tracing
        return TreeState(
            levels=[level.copy() for level in self.levels],
            leaves=self.leaves,
            weights={name: value.clone() for name, value in self.weights.items()},
            last_weights={name: value.clone() for name, value in self.last_weights.items()},
            last_moves=self.last_moves,
            moved=self.moved,
            skipped=self.skipped.clone(),
            step=self.step,
            tracing=tracing and tracing.copy(),
        )

    def vectors(self) -> list[Tensor]:
        """All tensors of it but the leaves, in an order that a draft has too."""
        found = [value for level in self.levels for value in (level.rates, *level.rule.values())]
        found += [*self.weights.values(), *self.last_weights.values(), self.skipped]
        # φ first: it is made from the old κ, which torch.compile (2.13) would read after it has written the new one.
        return found if self.tracing is None else [*found, *reversed(self.tracing.tensors().values())]

    def all_levels(self) -> Sequence[Level]:
        return [*self.levels, *self.leaves]
