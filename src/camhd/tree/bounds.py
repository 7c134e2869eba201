"""Steps within bounds: with a traced rule, no layer moves by more than a part of its weights.

The bound is the same for whatever lr a user starts from, so a first lr that is far too large costs nothing. Rates
above it come down to it, or they would stay there: a rate of one layer to that layer's bound, one that several layers
share to the geometric mean of theirs, weighted by their sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ..hyper import Trace
from .cells import Cells
from .numbers import Number
from .state import Signal, Tracing, TreeState


def fresh(cells: Cells) -> Tracing:
    """Before the first step: nothing has moved, and whatever a trace holds is forgotten."""
    zeros = torch.zeros(cells.total, dtype=cells.dtype, device=cells.device)
    return Tracing(zeros, zeros.clone())


def moving(cells: Cells, signal: Signal) -> Tensor:
    """Which cells are to move at this step: those that have a gradient."""
    return cells.gather({slot: torch.ones_like(value) for slot, value in signal.lengths.items()}) > 0


def seen(cells: Cells, tracing: Tracing, signal: Signal) -> Signal:
    """The same signal without what the traces hold from before a restart."""
    on = cells.by_slot(tracing.kappa > 0)

    def kept(parts: dict[int, Tensor]) -> dict[int, Tensor]:
        return {slot: torch.where(on[slot].view(part.shape), part, 0) for slot, part in parts.items()}

    return replace(signal, dots=kept(signal.dots), grads=kept(signal.grads), moves=kept(signal.moves))


def squares(cells: Cells, signal: Signal, trace: Trace) -> tuple[Tensor, Tensor]:
    """Σ d² and Σ θ² at each cell, the latter not below the floor; 0 at cells that do not move."""
    if signal.squares is None:
        lengths, sizes = cells.gather(signal.lengths), cells.gather(signal.sizes)
        floored = torch.where(lengths > 0, torch.maximum(sizes, cells.numbers * trace.floor**2), 0)
        signal.squares = lengths, floored
    return signal.squares


def relative(cells: Cells, tracing: Tracing, signal: Signal, trace: Trace, level: int) -> Tensor:
    """‖κ_{t−1} d_t‖ / ‖θ‖ of each group of a level."""
    lengths, sizes = squares(cells, signal, trace)
    moved, whole = cells.sum_up(level, tracing.kappa.square() * lengths), cells.sum_up(level, sizes)
    return (moved / torch.where(whole > 0, whole, 1)).sqrt()


def mean_factor(cells: Cells, signal: Signal, chain: Sequence[Number], level: int) -> Tensor:
    """The factor by which g·D became h, for each group of a level: one number, or a mean where its members differ."""
    traces = cells.gather(signal.moves)
    scaled = cells.sum_up(level, cells.times_by_group(traces, [factor * factor for factor in chain]))
    whole = cells.sum_up(level, traces)
    return (scaled / torch.where(whole > 0, whole, 1)).sqrt()


def limits(cells: Cells, tracing: Tracing, signal: Signal, trace: Trace) -> Tensor:
    """The largest α* of each cell, that of its layer; infinite where there is nothing to bound."""

    def by_layer(values: Tensor) -> Tensor:
        return values.new_zeros(len(cells.layout.layers)).index_add_(0, cells.layers, values)

    lengths, sizes = map(by_layer, squares(cells, signal, trace))
    most = (sizes / lengths).sqrt()
    found = torch.where(by_layer(tracing.kappa) > 0, most * trace.bound, most * trace.first)
    return torch.where((lengths > 0) & found.isfinite(), found, torch.inf).index_select(0, cells.layers)


def pull_down(cells: Cells, state: TreeState, signal: Signal, most: Tensor, min_lr: float) -> None:
    """No rate stays above the bound of its layers, nor goes below its own for it."""
    bounded = moving(cells, signal) & most.isfinite() & (most > 0)
    for i, level in enumerate(state.levels):
        ratio = cells.ratios[i]
        logs = torch.where(bounded, most if ratio is None else most / ratio, 1).log()
        weights = torch.where(bounded, cells.numbers, 0)
        total = cells.sum_up(i, weights)
        mean = cells.sum_up(i, logs * weights) / torch.where(total > 0, total, 1)
        highest = torch.where(total > 0, mean.exp(), torch.inf).clamp_min(min_lr)
        level.rates.copy_(torch.minimum(level.rates, highest))


def remember(tracing: Tracing, signal: Signal, cells: Cells, alpha: Tensor, memory: float) -> None:
    """Note in a draft the rates of this move, and how much the trace keeps of itself at the next step."""
    moves = moving(cells, signal)
    grown = (tracing.kappa > 0) & (alpha > tracing.kappa)
    kept = memory * torch.where(grown, tracing.kappa / torch.where(alpha > 0, alpha, 1), 1)
    tracing.memory = torch.where(moves, kept, tracing.memory)
    tracing.kappa = torch.where(moves, alpha, tracing.kappa)
