"""The few rates learn: `camhd.tree.learning` once more, in one call without a torch operation.

For weighted means with one γ (fixed, normalised, softmax) and the two built-in hyper rules; whatever
else there is goes through the tree itself. All sums are in float64.
"""

from __future__ import annotations

import numpy as np

from .jit import kernel

FIXED, NORMALIZED, SOFTMAX = 0, 1, 2


@kernel
def gather(items, places, moved, sums, cells):
    """Sums of runs into cells; only of slots that have a last direction."""
    cells[:] = 0.0
    for item in range(len(items)):
        slot, first = items[item, 0], items[item, 1]
        if places[slot, 8] == 0 or moved[slot] == 0:
            continue
        for run in range(first, items[item, 2]):
            cell, out = places[slot, 7] + run, items[item, 5] + run - first
            for j in range(3):
                cells[j, cell] += sums[out, j]


@kernel
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
def learn(cells, group_of_cell, index, firsts, rates, scales, chain, beta, gamma, cosine, bounds, slope):
    """Lines 1 and 2 of Algorithm 1: the candidates for all rates, ∂f/∂γ into `slope`; whether all is finite."""
    levels, total = len(firsts) - 1, firsts[-1]
    pulls, norms, moves = np.zeros(total), np.zeros(total), np.zeros(total)
    slope[:] = 0.0
    finite = True
    for cell in range(len(group_of_cell)):
        group = group_of_cell[cell]
        h = -chain[group] * cells[0, cell]
        finite &= np.isfinite(h)
        for i in range(levels):
            at = firsts[i] + index[i, cell]
            pulls[at] += beta[i, group] * h * (1.0 if cosine else gamma[i])
            slope[i] += rates[at] * h
            norms[at] += cells[1, cell]
            moves[at] += cells[2, cell]
    found = np.empty(total)
    for at in range(total):
        if cosine:
            norm = np.sqrt(norms[at]) * np.sqrt(moves[at])
            new = rates[at] * (1.0 - (pulls[at] / norm if norm > 0 else 0.0))
        else:
            new = rates[at] - pulls[at] * scales[at]
        finite &= np.isfinite(new)
        found[at] = min(max(new, bounds[0]), bounds[1])
    return finite, found


@kernel
def spread(group_of_cell, index, firsts, rates, gamma, learned, given, kappa):
    """Lines 3 and 5: κ = c τ Σ γ_i α_i + c (1 − τ) α_∞ at every cell; beside it the factor of a scalar's own rate."""
    levels = len(firsts) - 1
    for cell in range(len(group_of_cell)):
        group, alpha = group_of_cell[cell], 0.0
        for i in range(levels):
            alpha += gamma[i] * rates[firsts[i] + index[i, cell]]
        kappa[0, cell] = learned[group] * alpha + given[group]
        kappa[1, cell] = learned[group] * gamma[levels] if len(gamma) > levels else 0.0
