"""What happens between the passes, and a whole step in one call where one thread does it all."""

from __future__ import annotations

import numpy as np

from . import kernels as k
from . import learning as tree
from . import passes
from .jit import kernel

# What a param group says at one step, by its place in a row of `now` and `last`.
SIGN, L2, DECOUPLED, B1, B2, EPS = 0, 1, 2, 3, 4, 5
MU, DAMP = 3, 4  # SGD: momentum, 1 − dampening
FINAL, RATE, PAPER, SQRT = 6, 7, 8, 9  # AdaBound: c·f, γ, whether the paper's bound, whether /√t
LEARNED, GIVEN, OWN_BETA = 10, 11, 12  # c τ, c (1 − τ) α_∞, β of the scalars' own rates
OPTIONS = 13


@kernel
def prepare(kind, constants, steps, places, moved, first, group_of_slot, now, last, gamma_leaf, cosine, bounds):
    """The constants of every slot that takes part: this step's and the last one's. Counts the step."""
    for slot in range(len(places)):
        if places[slot, passes.ACTIVE] == 0:
            continue
        c, new, old, back = constants[slot], now[group_of_slot[slot]], last[group_of_slot[slot]], moved[slot] != 0
        c[k.SIGN], c[k.L2] = new[SIGN], new[L2]
        c[k.DECOUPLED], c[k.DECOUPLED_] = new[DECOUPLED], old[DECOUPLED] if back else 0.0
        c[k.CHAIN], c[k.BETA] = old[LEARNED], new[OWN_BETA] * (1.0 if cosine else gamma_leaf)
        c[k.MIN_LR], c[k.MAX_LR], c[k.COSINE] = bounds[0], bounds[1], cosine
        c[k.LEARNS] = back
        if kind <= passes.NESTEROV:
            c[k.B1], c[k.OMB1], c[k.B2] = new[MU], new[DAMP], new[MU]
            if first[slot]:  # the buffer starts as the gradient itself
                c[k.B1], c[k.OMB1] = 0.0, 1.0
                first[slot] = 0
            continue
        t = np.float64(steps[slot])
        c[k.EPS_], c[k.INV_BC1_], c[k.INV_BC2_] = old[EPS], 0.0, 1.0
        if back and t > 0:
            c[k.INV_BC1_], c[k.INV_BC2_] = 1 / (1 - old[B1] ** t), 1 / np.sqrt(1 - old[B2] ** t)
            _bounds(c, old, t, k.LOW_, k.HIGH_, k.SLOW_)
        t += 1
        steps[slot] = t
        c[k.B1], c[k.OMB1], c[k.B2], c[k.OMB2] = new[B1], 1 - new[B1], new[B2], 1 - new[B2]
        c[k.EPS], c[k.INV_BC1], c[k.INV_BC2] = new[EPS], 1 / (1 - new[B1] ** t), 1 / np.sqrt(1 - new[B2] ** t)
        _bounds(c, new, t, k.LOW, k.HIGH, k.SLOW)


@kernel
def _bounds(c, options, t, low, high, slow):
    if options[RATE] > 0:
        c[low] = options[FINAL] * (1 - 1 / (options[RATE] * t + 1))
        c[high] = options[FINAL] * (1 + 1 / (options[RATE] * t + options[PAPER]))
        c[slow] = 1 / np.sqrt(t) if options[SQRT] > 0 else 1.0


@kernel
def between(
    items, places, moved, sums, cells, group_of_cell, index, firsts, rates, scales, now, last, beta, weights,
    last_weights, slope, combine, combine_lr, leaf, cosine, bounds, kappa, looks_back,
):  # fmt: skip
    """Lines 2 to 5: rates learn, γ learns (unless scalars' own rates still have to say theirs), κ at every cell.

    Returns 0 if there was nothing to look back on, 1 if all went well, 2 if something was not finite.
    """
    gamma = tree.gammas(weights, combine)
    old_weights = weights.copy()
    outcome = 0
    if looks_back:
        tree.gather(items, places, moved, sums, cells)
        finite, found = tree.learn(
            cells, group_of_cell, index, firsts, rates, scales, last[:, LEARNED], beta, gamma, cosine, bounds, slope
        )
        if combine != tree.FIXED and combine_lr > 0 and not leaf:
            candidate = tree.new_weights(weights, slope, combine_lr, combine)
            finite &= np.isfinite(candidate).all()
            if finite:
                weights[:] = candidate
        if finite:
            rates[:] = found
        outcome = 1 if finite else 2
    last_weights[:] = old_weights
    tree.spread(group_of_cell, index, firsts, rates, gamma, now[:, LEARNED], now[:, GIVEN], kappa)
    return outcome


@kernel
def finish(items, places, moved, slopes, weights, slope, combine, combine_lr):
    """γ learns after the second pass, which is where the scalars' own rates say their part of ∂f/∂γ."""
    for item in range(len(items)):
        slot = items[item, passes.SLOT]
        if places[slot, passes.ACTIVE] != 0 and moved[slot] != 0:
            slope[-1] += slopes[item]
    if combine != tree.FIXED and combine_lr > 0:
        candidate = tree.new_weights(weights, slope, combine_lr, combine)
        if np.isfinite(candidate).all():
            weights[:] = candidate


@kernel
def stop_learning(constants):
    """Something was not finite: no scalar's own rate moves."""
    constants[:, k.LEARNS] = 0.0
