"""The few rates learn: `camhd.tree.learning` once more, in one call without a torch operation.

For weighted means with one γ (fixed, normalised, softmax) and the two built-in hyper rules; whatever
else there is goes through the tree itself. All sums are in float64.

How the cells of a slot map to the groups of a level has one of three forms: all to one group, each to the next one, or
as an index says. The first two are what nearly all levels are, and need no index.
"""

from __future__ import annotations

import numpy as np

from . import tables
from .jit import kernel, kernel_for_python

FIXED, NORMALIZED, SOFTMAX = 0, 1, 2
ONE_GROUP, ROW_BY_ROW, BY_INDEX = 0, 1, 2  # forms


@kernel_for_python
def gather(places, moved, sums, cells, cell_count, norms):
    """Sums of runs into cells; 0 for slots that have no last direction."""
    for slot in range(len(places)):
        cell, row, rows = places[slot, tables.CELL], places[slot, tables.ROW], places[slot, tables.ROWS]
        end = places[slot + 1, tables.CELL] if slot + 1 < len(places) else cell_count
        active = places[slot, tables.ACTIVE] != 0 and moved[slot] != 0
        for j in range(3 if norms else 1):
            if not active:
                cells[j, cell:end] = 0.0
            elif rows == 1:
                cells[j, cell:end] = sums[j, row : row + end - cell]
            else:
                for i in range(end - cell):
                    total = 0.0
                    for piece in range(rows):
                        total += sums[j, row + i * rows + piece]
                    cells[j, cell + i] = total


@kernel_for_python
def gammas(weights, combine):
    """γ from what the combination keeps: itself, or the logits of a softmax."""
    found = weights.astype(np.float64)
    if combine == SOFTMAX:
        found = np.exp(found - found.max())
        found /= found.sum()
    return found


@kernel
def new_weights(weights, slope, rate, combine):
    """What the combination keeps after one step of size δ against ∂f/∂γ."""
    gamma = gammas(weights, combine)
    if combine == SOFTMAX:
        return weights - rate * gamma * (slope - (gamma * slope).sum())
    found = np.maximum(gamma - rate * slope, 0.0)
    total = found.sum()
    return found / total if total > 0 else gamma


@kernel
def _pull(cells, form, base, index, factor, rates, work, cosine):
    """One slot's part of the pull on one level's rates into `work`; returns Σ rate · Σ g·s."""
    n, slope = cells.shape[1], 0.0
    if form == ONE_GROUP:
        total = cells[0].sum()
        work[0, base] += factor * total
        if cosine:
            work[1, base] += cells[1].sum()
            work[2, base] += cells[2].sum()
        return rates[base] * total
    if form == ROW_BY_ROW:
        dots, own = cells[0], rates[base : base + n]
        pulls, squares, moves = work[0, base : base + n], work[1, base : base + n], work[2, base : base + n]
        for i in range(n):
            pulls[i] += factor * dots[i]
            slope += own[i] * dots[i]
        if cosine:
            squares += cells[1]
            moves += cells[2]
        return slope
    for i in range(n):
        at = base + index[i]
        work[0, at] += factor * cells[0, i]
        slope += rates[at] * cells[0, i]
        if cosine:
            work[1, at] += cells[1, i]
            work[2, at] += cells[2, i]
    return slope


@kernel
def learn(
    places, cells, form, base, index, rates, scales, last, learned, beta, gamma, cosine, bounds, caps, slope, work
):
    """Lines 1 and 2 of Algorithm 1: candidates for all rates into work[3], ∂f/∂γ into `slope`; if all is finite."""
    levels, cell_count = len(form), cells.shape[1]
    work[:3] = 0.0
    slope[:] = 0.0
    for slot in range(len(places)):
        first, group = places[slot, tables.CELL], places[slot, tables.GROUP]
        end = places[slot + 1, tables.CELL] if slot + 1 < len(places) else cell_count
        if end == first:
            continue
        chain = -last[group, learned]
        for i in range(levels):
            factor = chain * beta[i, group] * (1.0 if cosine else gamma[i])
            of_slot = index[i, first:end]
            part = _pull(cells[:, first:end], form[i, slot], base[i, slot], of_slot, factor, rates, work, cosine)
            slope[i] += chain * part
    finite = np.isfinite(slope).all()
    if levels == 0:
        finite &= np.isfinite(cells[0].sum())
    found = work[3]
    if cosine:
        for at in range(len(rates)):
            norm = np.sqrt(work[1, at]) * np.sqrt(work[2, at])
            found[at] = rates[at] * (1.0 - (work[0, at] / norm if norm > 0 else 0.0))
    else:
        for at in range(len(rates)):
            found[at] = rates[at] - work[0, at] * scales[at]
    for at in range(len(rates)):
        finite &= abs(found[at]) < np.inf
        if rates[at] > 0 and caps[at] < np.inf:  # from 0 every change is infinite
            found[at] = min(max(found[at], rates[at] / caps[at]), rates[at] * caps[at])
        found[at] = min(max(found[at], bounds[0]), bounds[1])
    return finite


@kernel_for_python
def spread(places, form, base, index, rates, gamma, now, learned, given, kappa):
    """Lines 3 and 5: κ = c τ Σ γ_i α_i + c (1 − τ) α_∞ at every cell; beside it the factor of a scalar's own rate."""
    levels, cell_count = len(form), kappa.shape[1]
    for slot in range(len(places)):
        first, group = places[slot, tables.CELL], places[slot, tables.GROUP]
        end = places[slot + 1, tables.CELL] if slot + 1 < len(places) else cell_count
        factor, offset = now[group, learned], now[group, given]
        for i in range(levels):
            if form[i, slot] == ONE_GROUP:
                offset += factor * gamma[i] * rates[base[i, slot]]
        kappa[0, first:end] = offset
        kappa[1, first:end] = factor * gamma[levels] if len(gamma) > levels else 0.0
        for i in range(levels):
            at, weight = base[i, slot], factor * gamma[i]
            if form[i, slot] == ROW_BY_ROW:
                part, own = kappa[0, first:end], rates[at : at + end - first]
                for j in range(end - first):
                    part[j] += weight * own[j]
            elif form[i, slot] == BY_INDEX:
                for cell in range(first, end):
                    kappa[0, cell] += weight * rates[at + index[i, cell]]
