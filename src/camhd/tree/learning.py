"""One step of learning: lines 2 and 4 of Algorithm 1, from the hypergradient to new rates and weights.

`learn` computes everything first and writes last, into a draft of the tree's state, so that rates, γ and the hyper
rule's state change together or not at all. Whether they change is decided on the device: a hypergradient that
is not finite leaves all of them as they were.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..combine import Ancestors, Places
from ..combine import State as Weights
from ..hyper import Pull, scale_factor
from ..hyper import State as RuleState
from .bounds import hear, tell
from .cells import Cells
from .config import GroupRates, TreeConfig
from .numbers import Number, within
from .observer import chain_of, columns_of
from .state import NewLeaf, Rows, Signal, TreeState, Write
from .sums import Sums, sum_up


class _New(NamedTuple):
    """What a level becomes if the step is taken."""

    rates: Tensor
    rule: RuleState

    def tensors(self) -> list[Tensor]:
        return [self.rates, *self.rule.values()]


class _Joined(NamedTuple):
    """What processes that have divided the parameters know after they have heard of each other."""

    news: list[_New]
    slope: Weights  # ∂f/∂γ
    checked: list[Tensor]  # finite if everything is, everywhere
    seen: Tensor  # on how many of them there was something to learn from


def learn(config: TreeConfig, cells: Cells, state: TreeState, signal: Signal, groups: Sequence[GroupRates]) -> None:
    """Move all rates and weights by one hypergradient step."""
    # Line 1: h = ∂f/∂α* = −τ(t−1) · c · g_t · s_{t−1}, summed over each cell.
    hyper = cells.times_by_group(cells.gather(signal.dots), chain_of(config, state.last_moves))
    pulls, slope = _chain_rule(config, cells, state, signal, hyper)
    # Line 2: α_i ← α_i − β_i γ_i H_i; a per-scalar level's part of it is in the signal.
    sums = [sum_up(config, cells, state, i, pull, signal, groups) for i, pull in enumerate(pulls)]
    leaves, joined = signal.leaves, None
    if cells.divided is None:
        news = [_new_level(config, cells, state, i, level) for i, level in enumerate(sums)]
    else:
        joined = _learn_together(config, cells, state, sums, slope, hyper, signal)
        news, slope = joined.news, joined.slope
    if config.combine.settles:
        news, leaves = _settled(config, cells, state, news, leaves, groups)
    # Line 4: γ_i ← γ_i − δ Σ_p α_{i,t−1}(p) h_p, back onto the simplex.
    weights = config.combine.learn(state.weights, slope, config.combine_lr) if slope else state.weights
    checked = [hyper, *_tensors(news), *_extremes(leaves, hyper)] if joined is None else joined.checked
    news, leaves = _capped(cells, state, news, leaves, groups)
    _commit(config, state, [*checked, *weights.values()], news, leaves, weights, joined and joined.seen)


def _learn_together(
    config: TreeConfig,
    cells: Cells,
    state: TreeState,
    sums: Sequence[Sums],
    slope: Weights,
    hyper: Tensor,
    signal: Signal,
) -> _Joined:
    """The same where the parameters are divided over processes: all that they must know of each other is one message.

    Rates that are kept here alone learn before it and shared ones after it, so that all processes know whether
    everything is finite everywhere.
    """
    layout, trace, tracing = cells.divided, config.hyper_rule.traced, state.tracing
    assert layout is not None
    first, rest = ([slice(count) for count in layout.shared], [slice(count, None) for count in layout.shared])
    own = [_new_level(config, cells, state, i, sums[i].part(part), part) for i, part in enumerate(rest)]
    here = torch.cat([value.reshape(-1) for value in (hyper, *_tensors(own), *_extremes(signal.leaves, hyper))])
    notes = torch.stack([(~here.isfinite().all()).to(hyper.dtype), hyper.new_full((), float(bool(signal)))])
    theirs = [level.part(part) for level, part in zip(sums, first, strict=True)]
    parts = [value for level in theirs for value in level.tensors()]
    told = tell(cells, tracing, signal, trace) if trace and tracing else []
    *found, notes = layout.shards.add_up([*parts, *slope.values(), *told, notes])
    each = iter(found)
    theirs = [level.like([next(each) for _ in level.tensors()]) for level in theirs]
    slope = {name: next(each) for name in slope}
    if trace and told:
        sizes = hear(cells, signal, trace, *each)
        theirs = [level.with_sizes(cells.scattered.sum_up(i, sizes)) for i, level in enumerate(theirs)]
    shared = [_new_level(config, cells, state, i, theirs[i], part) for i, part in enumerate(first)]
    news = [
        _New(torch.cat([a.rates, b.rates]), {name: torch.cat([a.rule[name], b.rule[name]]) for name in a.rule})
        for a, b in zip(shared, own, strict=True)
    ]
    bad = torch.where(notes[0] > 0, torch.nan, notes[0])
    return _Joined(news, slope, [bad, *_tensors(shared)], notes[1])


def _tensors(news: Sequence[_New]) -> list[Tensor]:
    return [value for new in news for value in new.tensors()]


def _extremes(leaves: Sequence[NewLeaf], like: Tensor) -> list[Tensor]:
    return [extreme.to(like.device) for leaf in leaves for extreme in leaf.extremes]


def _chain_rule(
    config: TreeConfig, cells: Cells, state: TreeState, signal: Signal, hyper: Tensor
) -> tuple[list[Tensor], Weights]:
    """∂f/∂α_i of every level above the scalars, still spread over the cells, and ∂f/∂γ."""
    combine, moves = config.combine, state.last_moves
    learns = combine.learns and config.combine_lr > 0
    if state.leaves and not combine.linear:  # found where the single scalars were at hand
        slope = signal.slope
        if learns and not slope:  # nothing was seen on this process
            slope = {name: torch.zeros_like(value) for name, value in state.weights.items()}
        return [cells.gather(parts) for parts in signal.pulls], slope
    weights = state.last_weights if combine.at_last_move else state.weights
    columns = columns_of(config, cells, state, moves)
    here = Places(columns, cells.layers if combine.by_layer else 0, cells.unit)
    chained = config.hyper_rule.chained
    shares: Sequence[Number] = combine.shares(weights, here) if chained else [1.0] * len(columns)
    pulls = [hyper * share for share, _ in zip(shares, columns, strict=False)]
    if not learns:
        return pulls, {}
    hyper = cells.once(hyper)
    if not state.leaves:
        return pulls, combine.gradient(weights, here, hyper)
    of_leaf = cells.once(cells.times_by_group(cells.gather(signal.leaf_dots), chain_of(config, moves)))
    return pulls, combine.slope(weights, [*(column * hyper for column in columns), of_leaf], here.layer)


def _new_level(config: TreeConfig, cells: Cells, state: TreeState, i: int, sums: Sums, some: Rows = None) -> _New:
    """The hyper rule's answer to what a level's groups, or some of them, have summed up."""
    level = state.levels[i].part(some)
    if i == 0 and config.schedule == "global":
        return _New(level.rates, level.rule)
    scale = None
    if config.hyper_scale != "sum":
        sizes = cells.sizes(i)
        scale = scale_factor(config.hyper_scale, sizes if some is None else sizes[some])
    hyper = sums.hyper if scale is None else sums.hyper * scale
    pull = Pull(hyper, sums.norms, state.step)
    if config.hyper_rule.traced:
        above = cells.seen_from(i, i - 1, state.levels[i - 1].rates) if i else None
        above = above if above is None or some is None else above[some]
        pull = pull._replace(moved=sums.moved, above=above, factor=sums.factor, reach=sums.reach, slope=sums.slope)
    return _New(*config.hyper_rule.update(level.rates, pull, level.rule))


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

        above = Ancestors(seen(last), seen(virtual), seen(settled))
        # β is the same in all param groups, or there would be no saying how strong the tie is.
        settled.append(settle(names[: i + 1], own.rates, virtual[i], above, groups[0].beta(names[i])))
    columns = [[cells.by_slot(cells.spread(i, r)) for i, r in enumerate(rates)] for rates in (last, virtual, settled)]
    moved = {leaf.slot for leaf in leaves}
    still = [NewLeaf(s, None, own.rates, own.rule, []) for s, own in enumerate(state.leaves) if s not in moved]
    tied = []
    for slot, rows, rates, rule, _ in (*leaves, *still):
        own, leaf_beta = state.leaves[slot].part(rows), groups[cells.layout.slots[slot].group].beta(names[-1])
        above = Ancestors(*[[cells.rows(slot, c[slot], rows).to(own.rates.device) for c in cs] for cs in columns])
        tied.append(NewLeaf.of(slot, rows, settle(names, own.rates, rates, above, leaf_beta), rule))
    return [_New(rates, new.rule) for rates, new in zip(settled, news, strict=True)], tied


def _capped(
    cells: Cells, state: TreeState, news: list[_New], leaves: list[NewLeaf], groups: Sequence[GroupRates]
) -> tuple[list[_New], list[NewLeaf]]:
    """No rate changes by more than a factor of `max_change`, the smallest of those that its members have."""
    caps = [group.cap for group in groups]
    if min(caps) == math.inf:
        return news, leaves
    tamed = [
        new._replace(rates=within(new.rates, level.rates, cells.least(i, caps)))
        for i, (new, level) in enumerate(zip(news, state.levels, strict=True))
    ]
    of_slot = [caps[slot.group] for slot in cells.layout.slots]
    return tamed, [
        leaf._replace(rates=within(leaf.rates, state.leaves[leaf.slot].part(leaf.rows).rates, of_slot[leaf.slot]))
        for leaf in leaves
    ]


def _commit(
    config: TreeConfig,
    state: TreeState,
    checked: Sequence[Tensor],
    news: Sequence[_New],
    leaves: Sequence[NewLeaf],
    weights: Weights,
    seen: Tensor | None,
) -> None:
    """Write everything if all of it is finite, nothing otherwise; rates end within their bounds.

    `seen`: on how many processes there was something to learn from; None if there is but this one, and it has.
    """
    finite = torch.cat([value.reshape(-1) for value in checked]).isfinite().all()
    skipped = ~finite
    if seen is not None:
        finite, skipped = finite & (seen > 0), skipped & (seen > 0)
    bounds = config.min_lr, config.max_lr
    for level, new in zip(state.levels, news, strict=True):
        Write(level, new.rates, new.rule, finite, bounds).carry_out()
    for leaf in leaves:
        level = state.leaves[leaf.slot].part(leaf.rows)
        state.later.append(Write(level, leaf.rates, leaf.rule, finite.to(level.rates.device), bounds))
    for name, value in weights.items():
        state.weights[name].copy_(torch.where(finite, value, state.weights[name]))
    state.skipped.add_(skipped)
