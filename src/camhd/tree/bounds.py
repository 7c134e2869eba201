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
from .scattered import check_cells
from .state import Signal, Tracing, TreeState


def fresh(cells: Cells) -> Tracing:
    """Before the first step: nothing has moved, and whatever a trace holds is forgotten."""
    if cells.divided is not None:
        check_cells(cells.divided)
    zeros = torch.zeros(cells.total, dtype=cells.dtype, device=cells.device)
    return Tracing(zeros, zeros.clone(), zeros.clone())


def grown(cells: Cells, tracing: Tracing) -> Tracing:
    """The same with the cells of further parameters, which have not moved yet."""
    if cells.divided is not None:
        check_cells(cells.divided)
    return tracing.extended(cells.total)


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
    """Σ d² and Σ θ² at each cell, the latter not below the floor; 0 at cells that do not move.

    Of a cell that lies on several processes, Σ d² of what is here; its Σ θ² is left out until it has been heard.
    """
    if signal.squares is None:
        lengths, sizes = cells.gather(signal.lengths), cells.gather(signal.sizes)
        floored = _floored(lengths, sizes, cells.numbers, trace)
        if cells.divided is not None:
            floored = torch.where(cells.scattered.whole, floored, 0)
        signal.squares = lengths, floored
    return signal.squares


def _floored(lengths: Tensor, sizes: Tensor, numbers: Tensor, trace: Trace) -> Tensor:
    return torch.where(lengths > 0, torch.maximum(sizes, numbers * trace.floor**2), 0)


def part_of(part: Tensor, whole: Tensor) -> Tensor:
    """The root of a sum of squares as a part of another one's."""
    return (part / torch.where(whole > 0, whole, 1)).sqrt()


def tell(cells: Cells, tracing: Tracing, signal: Signal, trace: Trace) -> list[Tensor]:
    """What other processes must hear for the bounds: of cells that lie on several of them, and of each layer."""
    lengths, floored = squares(cells, signal, trace)
    parts = [cells.scattered.take(cells.once(values)) for values in (lengths, cells.gather(signal.sizes))]
    return [torch.stack(parts), _by_layer(cells, [cells.once(values) for values in (lengths, floored, tracing.kappa)])]


def hear(cells: Cells, signal: Signal, trace: Trace, parts: Tensor, layers: Tensor) -> Tensor:
    """What all processes have told, summed up; gives the sizes of cells that lie on several of them."""
    scattered, (lengths, sizes) = cells.scattered, parts.unbind()
    floored = _floored(lengths, sizes, scattered.numbers, trace)
    layers[1].index_add_(0, scattered.layers, floored)
    signal.layers = layers
    return floored


def _by_layer(cells: Cells, values: Sequence[Tensor]) -> Tensor:
    """Sums over the cells of each layer, one row for each of these vectors."""
    count = len(cells.layout.layers)
    return torch.stack([value.new_zeros(count).index_add_(0, cells.layers, value) for value in values])


def limits(cells: Cells, tracing: Tracing, signal: Signal, trace: Trace) -> Tensor:
    """The largest α* of each layer; infinite where there is nothing to bound."""
    if cells.divided is None:
        signal.layers = _by_layer(cells, [*squares(cells, signal, trace), tracing.kappa])
    elif signal.layers is None:  # at a restart nothing was learned, and so nothing heard
        hear(cells, signal, trace, *cells.divided.shards.add_up(tell(cells, tracing, signal, trace)))
    assert signal.layers is not None
    lengths, sizes, kappa = signal.layers.unbind()
    most = (sizes / lengths).sqrt()
    found = torch.where(kappa > 0, most * trace.bound, most * trace.first)
    return torch.where((lengths > 0) & found.isfinite(), found, torch.inf)


def shortened(cells: Cells, tracing: Tracing, signal: Signal, trace: Trace) -> Tensor:
    """The part of its step that each cell takes: all of it, unless its layer's direction is suddenly long.

    Notes in a draft how long it usually is, at all cells of a layer, whether or not they move.
    """
    assert signal.layers is not None
    length = signal.layers[0].sqrt()
    before = torch.zeros_like(length).scatter_reduce(0, cells.layers, tracing.usual, "amax")
    moves = (length > 0) & length.isfinite()
    usual = torch.where(before > 0, before, length)
    taken = torch.minimum(length, trace.sudden * usual)
    after = trace.recent * usual + (1 - trace.recent) * taken
    tracing.usual = torch.where(moves, after, before).index_select(0, cells.layers)
    return torch.where(moves, taken / torch.where(moves, length, 1), 1).index_select(0, cells.layers)


def pull_down(cells: Cells, state: TreeState, signal: Signal, most: Tensor, min_lr: float) -> None:
    """No rate stays above the bound of its layers, nor goes below its own for it.

    Args:
        cells: the tree's.
        state: a draft, whose rates are written to.
        signal: says which parameters move.
        most: the bound of each layer.
        min_lr: the lowest rate there may be.
    """
    bounded = most.isfinite() & (most > 0)
    at_cells, on = most.index_select(0, cells.layers), moving(cells, signal) & bounded.index_select(0, cells.layers)
    for i, level in enumerate(state.levels):
        ratio = cells.ratios[i]
        logs = torch.where(on, at_cells if ratio is None else at_cells / ratio, 1).log()
        weights = torch.where(on, cells.numbers, 0)
        total, summed = cells.sum_up(i, weights), cells.sum_up(i, logs * weights)
        if cells.divided is not None:
            total, summed = _with_others(cells, i, signal, torch.where(bounded, most, torch.inf), (total, summed))
        mean = summed / torch.where(total > 0, total, 1)
        highest = torch.where(total > 0, mean.exp(), torch.inf).clamp_min(min_lr)
        level.rates.copy_(torch.minimum(level.rates, highest))


def _with_others(cells: Cells, level: int, signal: Signal, most: Tensor, here: Sequence[Tensor]) -> list[Tensor]:
    """The same two sums with the members that other processes have; who moves is known without a message."""
    scattered, divided = cells.scattered, cells.divided
    assert divided is not None
    slots, groups, numbers = scattered.shares[level]
    at_shares = most.index_select(0, scattered.layer_of_slot[slots])
    on = scattered.among(signal.lengths)[slots] & at_shares.isfinite()
    logs = torch.where(on, at_shares / cells.ratio_at(level, scattered.group_of_slot[slots], groups), 1).log()
    weights, shared = torch.where(on, numbers, 0), divided.shared[level]
    everywhere = [value.new_zeros(shared).index_add_(0, groups, value) for value in (weights, logs * weights)]
    return [torch.cat([whole, part[shared:]]) for whole, part in zip(everywhere, here, strict=True)]


def remember(tracing: Tracing, signal: Signal, cells: Cells, alpha: Tensor, memory: float) -> None:
    """Note in a draft the rates of this move, and how much the trace keeps of itself at the next step."""
    moves = moving(cells, signal)
    grown = (tracing.kappa > 0) & (alpha > tracing.kappa)
    kept = memory * torch.where(grown, tracing.kappa / torch.where(alpha > 0, alpha, 1), 1)
    tracing.memory = torch.where(moves, kept, tracing.memory)
    tracing.kappa = torch.where(moves, alpha, tracing.kappa)
