"""One step of learning: lines 2 and 4 of Algorithm 1, from the hypergradient to new rates and weights.

`learn` computes everything first and writes last, so that rates, γ and the hyper rule's state
change together or not at all. Whether they change is decided on the device: a hypergradient that
is not finite leaves all of them as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..combine import Ancestors, Places
from ..combine import State as Weights
from ..hyper import Pull, scale_factor
from ..hyper import State as RuleState
from .bounds import mean_factor, relative
from .cells import Cells
from .config import GroupRates, TreeConfig
from .numbers import Number
from .observer import chain_of, columns_of
from .state import NewLeaf, Signal, TreeState


class _New(NamedTuple):
    """What a level becomes if the step is taken."""

    rates: Tensor
    rule: RuleState


def learn(config: TreeConfig, cells: Cells, state: TreeState, signal: Signal, groups: Sequence[GroupRates]) -> None:
    """Move all rates and weights by one hypergradient step."""
    # Line 1: h = ∂f/∂α* = −τ(t−1) · c · g_t · s_{t−1}, summed over each cell.
    hyper = cells.times_by_group(cells.gather(signal.dots), chain_of(config, state.last_moves))
    pulls, slope = _chain_rule(config, cells, state, signal, hyper)
    # Line 2: α_i ← α_i − β_i γ_i H_i; a per-scalar level's part of it is in the signal.
    news = [_new_level(config, cells, i, state, pulls[i], signal, groups) for i in range(len(state.levels))]
    leaves = signal.leaves
    if config.combine.settles:
        news, leaves = _settled(config, cells, state, news, leaves, groups)
    # Line 4: γ_i ← γ_i − δ Σ_p α_{i,t−1}(p) h_p, back onto the simplex.
    weights = config.combine.learn(state.weights, slope, config.combine_lr) if slope else state.weights
    _commit(config, state, hyper, news, leaves, weights)


def _chain_rule(
    config: TreeConfig, cells: Cells, state: TreeState, signal: Signal, hyper: Tensor
) -> tuple[list[Tensor], Weights]:
    """∂f/∂α_i of every level above the scalars, still spread over the cells, and ∂f/∂γ."""
    combine, moves = config.combine, state.last_moves
    if state.leaves and not combine.linear:  # found where the single scalars were at hand
        return [cells.gather(parts) for parts in signal.pulls], signal.slope
    weights = state.last_weights if combine.at_last_move else state.weights
    columns = columns_of(config, cells, state, moves)
    here = Places(columns, cells.layers if combine.by_layer else 0, cells.unit)
    chained = config.hyper_rule.chained
    shares: Sequence[Number] = combine.shares(weights, here) if chained else [1.0] * len(columns)
    pulls = [hyper * share for share, _ in zip(shares, columns, strict=False)]
    if not (combine.learns and config.combine_lr > 0):
        return pulls, {}
    if not state.leaves:
        return pulls, combine.gradient(weights, here, hyper)
    of_leaf = cells.times_by_group(cells.gather(signal.leaf_dots), chain_of(config, moves))
    return pulls, combine.slope(weights, [*(column * hyper for column in columns), of_leaf], here.layer)


def _new_level(
    config: TreeConfig,
    cells: Cells,
    i: int,
    state: TreeState,
    pull: Tensor,
    signal: Signal,
    groups: Sequence[GroupRates],
) -> _New:
    """H_i[G] = Σ_{p∈G} h_p, and the hyper rule's answer to it, for a level above the scalars."""
    level = state.levels[i]
    if i == 0 and config.schedule == "global":
        return _New(level.rates, level.rule)
    name, ratio = cells.layout.names[i], cells.ratios[i]
    pull = cells.times_by_group(pull, [group.beta(name) for group in groups])
    total = cells.sum_up(i, pull if ratio is None else pull * ratio)
    scale = None if config.hyper_scale == "sum" else scale_factor(config.hyper_scale, cells.sizes(i))
    norms = None
    if config.hyper_rule.needs_norms:
        moves = cells.gather(signal.moves)
        moves = moves if ratio is None else moves * ratio.square()
        norms = cells.sum_up(i, cells.gather(signal.grads)).sqrt() * cells.sum_up(i, moves).sqrt()
    hyper = total if scale is None else total * scale
    pull_on = Pull(hyper, norms, state.step)
    if config.hyper_rule.traced and state.tracing:
        chain = chain_of(config, state.last_moves)
        pull_on = pull_on._replace(
            moved=relative(cells, state.tracing, signal, config.hyper_rule.traced, i),
            above=cells.seen_from(i, i - 1, state.levels[i - 1].rates) if i else None,
            factor=mean_factor(cells, signal, chain, i),
        )
    return _New(*config.hyper_rule.update(level.rates, pull_on, level.rule))


def _settled(
    config: TreeConfig,
    cells: Cells,
    state: TreeState,
    news: Sequence[_New],
    leaves: Sequence[NewLeaf],
    groups: Sequence[GroupRates],
) -> tuple[list[_New], list[NewLeaf]]:
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
    columns = [[cells.by_slot(cells.spread(i, r)) for i, r in enumerate(rates)] for rates in (last, virtual, settled)]
    moved = {leaf.slot for leaf in leaves}
    still = [NewLeaf(s, None, own.rates, own.rule, []) for s, own in enumerate(state.leaves) if s not in moved]
    tied = []
    for slot, rows, rates, rule, _ in (*leaves, *still):
        own, leaf_beta = state.leaves[slot].part(rows), groups[cells.layout.slots[slot].group].beta(names[-1])
        above = Ancestors(*[[cells.rows(slot, c[slot], rows).to(own.rates.device) for c in cs] for cs in columns])
        tied.append(NewLeaf.of(slot, rows, settle(names, own.rates, rates, above, leaf_beta), rule))
    return [_New(rates, new.rule) for rates, new in zip(settled, news, strict=True)], tied


def _commit(
    config: TreeConfig,
    state: TreeState,
    hyper: Tensor,
    news: Sequence[_New],
    leaves: Sequence[NewLeaf],
    weights: Weights,
) -> None:
    """Write everything if all of it is finite, nothing otherwise; rates end within their bounds."""
    values = [hyper, *(value for new in news for value in (new.rates, *new.rule.values())), *weights.values()]
    values += [extreme.to(hyper.device) for leaf in leaves for extreme in leaf.extremes]
    finite = torch.cat([value.reshape(-1) for value in values]).isfinite().all()
    changed = [
        *((level, new.rates, new.rule) for level, new in zip(state.levels, news, strict=True)),
        *((state.leaves[leaf.slot].part(leaf.rows), leaf.rates, leaf.rule) for leaf in leaves),
    ]
    for level, rates, rule in changed:
        here = finite.to(level.rates.device)
        level.rates.copy_(torch.where(here, rates.clamp(config.min_lr, config.max_lr), level.rates))
        for name, value in rule.items():
            level.rule[name].copy_(torch.where(here, value, level.rule[name]))
    for name, value in weights.items():
        state.weights[name].copy_(torch.where(finite, value, state.weights[name]))
    state.skipped.add_(~finite)
