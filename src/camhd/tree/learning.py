"""One step of learning: lines 2 and 4 of Algorithm 1, from the hypergradient to new rates and weights.

`learn` computes everything first and writes last, so that rates, γ and the hyper rule's state
change together or not at all. Whether they change is decided on the device: a hypergradient that
is not finite leaves all of them as they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..combine import Ancestors, Places
from ..combine import State as Weights
from ..hyper import Pull, scale_factor
from ..hyper import State as RuleState
from .cells import Cells
from .config import GroupRates, TreeConfig
from .state import Level, Move, Signal, TreeState


def places(
    config: TreeConfig, cells: Cells, state: TreeState, moves: Sequence[Move]
) -> Iterator[tuple[int | None, Places]]:
    """The rates of all levels side by side: at all cells at once, or slot by slot above a per-scalar level."""
    columns = [cells.spread(i, level.rates) for i, level in enumerate(state.levels)]
    if config.schedule == "global":  # the root is not learned: it is what the scheduler says
        columns[0] = cells.times_by_group(cells.lr0, [move.factor for move in moves])
    lr0 = cells.lr0
    unit = torch.where(lr0 > 0, lr0, 1)
    if not state.leaves:
        yield None, Places(columns, cells.layers if config.combine.by_layer else 0, unit)
    for slot, leaf in enumerate(state.leaves):
        above = [cells.of_slot(column, slot).to(leaf.rates.device) for column in (*columns, unit)]
        yield slot, Places([*above[:-1], leaf.rates], cells.layout.layer_of_slot[slot], above[-1])


class _New(NamedTuple):
    """What a level becomes if the step is taken."""

    rates: Tensor
    rule: RuleState


def learn(config: TreeConfig, cells: Cells, state: TreeState, signal: Signal, groups: Sequence[GroupRates]) -> None:
    """Move all rates and weights by one hypergradient step."""
    names = cells.layout.names
    # Line 1: h = ∂f/∂α* = −τ(t−1) · c · g_t · s_{t−1}, per cell and, below the cells, per scalar.
    chain = [-move.decay * (1.0 if config.schedule == "global" else move.factor) for move in state.last_moves]
    hyper = cells.times_by_group(cells.gather(signal.dots), chain)
    leaf_hyper = {slot: product * chain[cells.layout.slots[slot].group] for slot, product in signal.products.items()}
    pulls, leaf_pulls, slope = _chain_rule(config, cells, state, hyper, leaf_hyper)
    # Line 2: α_i ← α_i − β_i γ_i H_i.
    news = [
        _new_level(config, cells, i, state.levels[i], pulls[i], signal, groups, state.step)
        for i in range(len(state.levels))
    ]
    new_leaves = {
        slot: _new_leaf(config, state.leaves[slot], pull, signal.products[slot],
                        groups[cells.layout.slots[slot].group].beta(names[-1]), state.step)
        for slot, pull in leaf_pulls.items()
    }  # fmt: skip
    if config.combine.settles:
        news, new_leaves = _settled(config, cells, state, news, new_leaves, groups)
    # Line 4: γ_i ← γ_i − δ Σ_p α_{i,t−1}(p) h_p, back onto the simplex.
    weights = config.combine.learn(state.weights, slope, config.combine_lr) if slope else state.weights
    _commit(config, state, hyper, news, new_leaves, weights)


def _chain_rule(
    config: TreeConfig, cells: Cells, state: TreeState, hyper: Tensor, leaf_hyper: Mapping[int, Tensor]
) -> tuple[list[Tensor], dict[int, Tensor], Weights]:
    """∂f/∂α_i of every level, still spread over the cells (or scalars), and ∂f/∂γ."""
    combine, chained = config.combine, config.hyper_rule.chained
    weights = state.last_weights if combine.at_last_move else state.weights
    learns = combine.learns and config.combine_lr > 0
    leaf_pulls: dict[int, Tensor] = {}
    by_level: list[dict[int, Tensor]] = [{} for _ in state.levels]
    slope: Weights = {}

    def shares(here: Places) -> Sequence[Tensor | float]:
        return combine.shares(weights, here) if chained else [1.0] * len(here.rates)

    for slot, here in places(config, cells, state, state.last_moves):
        if slot is None:
            slope = combine.gradient(weights, here, hyper) if learns else {}
            return [hyper * share for share in shares(here)], {}, slope
        if slot not in leaf_hyper:
            continue
        h, shape = leaf_hyper[slot], cells.layout.cell_shapes[slot]
        *above, leaf_share = shares(here)
        for parts, share in zip(by_level, above, strict=True):
            parts[slot] = _sum_to_cells(h, share, shape).to(cells.device)
        leaf_pulls[slot] = h * leaf_share
        if learns:
            part = combine.gradient(weights, here, h)
            slope = {name: slope[name] + part[name].to(cells.device) if slope else part[name] for name in part}
    return [cells.gather(parts) for parts in by_level], leaf_pulls, slope


def _sum_to_cells(hyper: Tensor, share: Tensor | float, shape: Sequence[int]) -> Tensor:
    if isinstance(share, Tensor) and share.dim():
        return (hyper * share).sum_to_size(shape)
    return hyper.sum_to_size(shape) * share  # one share for the whole tensor: multiply the few, not the many


def _new_level(
    config: TreeConfig,
    cells: Cells,
    i: int,
    level: Level,
    pull: Tensor,
    signal: Signal,
    groups: Sequence[GroupRates],
    step: int,
) -> _New:
    """H_i[G] = Σ_{p∈G} h_p, and the hyper rule's answer to it, for a level above the scalars."""
    if i == 0 and config.schedule == "global":
        return _New(level.rates, level.rule)
    name, ratio = cells.layout.names[i], cells.ratios[i]
    pull = cells.times_by_group(pull, [group.beta(name) for group in groups])
    total = cells.sum_up(i, pull if ratio is None else pull * ratio)
    scale = scale_factor(config.hyper_scale, cells.sizes(i))
    norms = None
    if config.hyper_rule.needs_norms:
        moves = cells.gather(signal.moves)
        moves = moves if ratio is None else moves * ratio.square()
        norms = cells.sum_up(i, cells.gather(signal.grads)).sqrt() * cells.sum_up(i, moves).sqrt()
    hyper = total if scale is None else total * scale
    return _New(*config.hyper_rule.update(level.rates, Pull(hyper, norms, step), level.rule))


def _new_leaf(config: TreeConfig, level: Level, pull: Tensor, product: Tensor, beta: float, step: int) -> _New:
    """The same for one tensor of a per-scalar level, whose groups have one member: ‖g‖·‖s‖ = |g·s|."""
    norms = product.abs() if config.hyper_rule.needs_norms else None
    return _New(*config.hyper_rule.update(level.rates, Pull(beta * pull, norms, step), level.rule))


def _settled(
    config: TreeConfig,
    cells: Cells,
    state: TreeState,
    news: Sequence[_New],
    new_leaves: Mapping[int, _New],
    groups: Sequence[GroupRates],
) -> tuple[list[_New], dict[int, _New]]:
    """Every level tied to those above it, from the root down (regularised rates)."""
    names, settle = cells.layout.names, config.combine.settle
    last, virtual = [level.rates for level in state.levels], [new.rates for new in news]
    settled: list[Tensor] = []
    for i in range(len(news)):
        own, js = state.levels[i], range(i)

        def seen(rates: Sequence[Tensor], i: int = i, js: range = js) -> list[Tensor]:
            return [cells.seen_from(i, j, rates[j]) for j in js]

        beta = cells.by_group([group.beta(names[i]) for group in groups])
        hyper_lr = torch.zeros_like(own.rates).index_put_((cells.groups[i],), beta)
        above = Ancestors(seen(last), seen(virtual), seen(settled))
        settled.append(settle(names[: i + 1], own.rates, virtual[i], above, hyper_lr))
    leaves = {}
    columns = [[cells.spread(i, r) for i, r in enumerate(rates)] for rates in (last, virtual, settled)]
    for slot, own in enumerate(state.leaves):
        new = new_leaves.get(slot, _New(own.rates, own.rule))
        above = Ancestors(*[[cells.of_slot(c, slot).to(own.rates.device) for c in cs] for cs in columns])
        leaf_beta = groups[cells.layout.slots[slot].group].beta(names[-1])
        leaves[slot] = _New(settle(names, own.rates, new.rates, above, leaf_beta), new.rule)
    return [_New(rates, new.rule) for rates, new in zip(settled, news, strict=True)], leaves


def _commit(
    config: TreeConfig,
    state: TreeState,
    hyper: Tensor,
    news: Sequence[_New],
    new_leaves: Mapping[int, _New],
    weights: Weights,
) -> None:
    """Write everything if all of it is finite, nothing otherwise; rates end within their bounds."""
    changed = [
        *zip(state.levels, news, strict=True),
        *((state.leaves[s], new) for s, new in new_leaves.items()),
    ]
    finite = hyper.isfinite().all()
    for _, new in changed:
        for value in (new.rates, *new.rule.values()):
            finite = finite & value.isfinite().all().to(finite.device)
    for value in weights.values():
        finite = finite & value.isfinite().all()
    for level, new in changed:
        here = finite.to(level.rates.device)
        level.rates.copy_(torch.where(here, new.rates.clamp(config.min_lr, config.max_lr), level.rates))
        for name, value in new.rule.items():
            level.rule[name].copy_(torch.where(here, value, level.rule[name]))
    for name, value in weights.items():
        state.weights[name].copy_(torch.where(finite, value, state.weights[name]))
    state.skipped.add_(~finite)
