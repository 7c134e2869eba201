"""The loops of a step over one long run: a stretch of memory whose scalars share one rate.

Each loop does at once what `kernels` does one after the other, because there is nothing in between that depends on the
scalar: `…_observe` gives Σ g·s, Σ g², Σ s² with the last move's sensitivity s = ∂U/∂κ, and takes the gradient into the
rule's state (Adam's adds them to sums, of one run or of several); `…_move` is θ ← θ − U(κ) with one κ. `adam_products`
and `adam_learn_and_move` are the two for scalars that have a rate of their own beside the one they share. Names and
constants are those of `kernels`.
"""

from __future__ import annotations

import numpy as np

from . import kernels as k
from .jit import dividing, kernel


@dividing
def adam_observe(g, a, b, n, sums, c):
    """Adds to the sums of runs of n scalars that lie one after the other: of short ones, each call costs too much."""
    eps_, eps, largest, scale = c[k.EPS_], c[k.EPS], c[k.LARGEST], c[k.SCALE_]
    b1, omb1, b2, omb2 = c[k.B1], c[k.OMB1], c[k.B2], c[k.OMB2]
    for run in range(sums.shape[1]):
        dot, ee, ss, here = c[k.ZERO], c[k.ZERO], c[k.ZERO], slice(run * n, run * n + n)
        gs, ds, vs = g[here], a[here], b[here]
        for i in range(n):
            e, s = gs[i], ds[i]
            dot += e * s
            ee += e * e
            ss += s * s
            m, v = k.taken(e, s, vs[i], vs[i], eps_, b1, omb1, b2, omb2, largest)
            q = np.sqrt(v) + eps
            ds[i], vs[i] = m / (largest if q > largest else q), v
        sums[0, run] += dot * scale
        sums[1, run] += ee
        sums[2, run] += ss * (scale * scale)


@dividing
def adamw_observe(g, a, b, p, kappa, n, c):
    """With decoupled decay, the last move is a part of where the parameter is now (see `camhd.rules.Adam`)."""
    eps_, scale, eps, largest, decoupled = c[k.EPS_], c[k.SCALE_], c[k.EPS], c[k.LARGEST], c[k.DECOUPLED_]
    b1, omb1, b2, omb2 = c[k.B1], c[k.OMB1], c[k.B2], c[k.OMB2]
    left = c[k.ONE] / (c[k.ONE] - decoupled * kappa)
    dot, ee, ss = c[k.ZERO], c[k.ZERO], c[k.ZERO]
    for i in range(n):
        e, s = g[i], (a[i] * scale + decoupled * p[i]) * left
        dot += e * s
        ee += e * e
        ss += s * s
        m, v = k.taken(e, a[i], b[i], b[i], eps_, b1, omb1, b2, omb2, largest)
        q = np.sqrt(v) + eps
        a[i], b[i] = m / (largest if q > largest else q), v
    return dot, ee, ss


@kernel
def adamw_move(a, p, kappa, n, c):
    """The factor 1 − κ wd is rounded once, as torch rounds it: its error would add up over many steps."""
    rate, left = c[k.SCALE] * kappa, c[k.ONE] - c[k.DECOUPLED] * kappa
    for i in range(n):
        p[i] = p[i] * left - a[i] * rate


@kernel
def adam_products(g, a, n, c):
    """The sums alone: the gradient is taken in when the scalars' own rates learn, which the state must not precede."""
    dot, ee, ss = c[k.ZERO], c[k.ZERO], c[k.ZERO]
    for i in range(n):
        e, s = g[i], a[i]
        dot += e * s
        ee += e * e
        ss += s * s
    scale = c[k.SCALE_]
    return dot * scale, ee, ss * (scale * scale)


def _adam_learn_and_move(capped):
    """`own_rates` of the additive rule, `adam_take` and `adam_move` at once, for rates with or without a cap."""

    def loop(g, a, b, r, p, shared, factor, n, c):
        eps_, scale_, eps, scale, largest = c[k.EPS_], c[k.SCALE_], c[k.EPS], c[k.SCALE], c[k.LARGEST]
        b1, omb1, b2, omb2 = c[k.B1], c[k.OMB1], c[k.B2], c[k.OMB2]
        slope, zero, chain, low, high = c[k.ZERO], c[k.ZERO], c[k.CHAIN], c[k.MIN_LR], c[k.MAX_LR]
        step = c[k.BETA] * chain if c[k.LEARNS] != zero else zero
        grow, shrink = c[k.GROW], c[k.SHRINK]
        for i in range(n):
            e, old = g[i], r[i]
            es = e * (a[i] * scale_)
            slope -= old * (chain * es)
            change = step * es
            rate = old + (change if abs(change) <= largest else zero)  # "ninf" must not see an ∞
            if capped:
                rate = k.capped(rate, old, grow, shrink, zero, largest)
            rate = min(max(rate, low), high)
            r[i] = rate
            m, v = k.taken(e, a[i], b[i], b[i], eps_, b1, omb1, b2, omb2, largest)
            q = np.sqrt(v) + eps
            d = m / (largest if q > largest else q)
            a[i], b[i] = d, v
            p[i] -= d * (scale * (shared + factor * rate))
        return slope  # the scalars' part of ∂f/∂γ

    return dividing(loop)


adam_learn_and_move, adam_learn_capped_and_move = _adam_learn_and_move(False), _adam_learn_and_move(True)


@dividing
def adabound_observe(g, a, b, kappa, n, c):
    eps, scale, low, high, slow = c[k.EPS_], c[k.SCALE_], c[k.LOW_], c[k.HIGH_], c[k.SLOW_]
    b1, omb1, b2, omb2, zero, largest = c[k.B1], c[k.OMB1], c[k.B2], c[k.OMB2], c[k.ZERO], c[k.LARGEST]
    dot, ee, ss = zero, zero, zero
    for i in range(n):
        e, q = g[i], np.sqrt(b[i]) + eps
        slope = scale / (largest if q > largest else q)
        rate = kappa * slope
        s = slope * a[i] * slow if (rate >= low) & (rate <= high) else zero
        dot += e * s
        ee += e * e
        ss += s * s
        a[i] = b1 * a[i] + omb1 * e
        b[i] = b2 * b[i] + omb2 * (e * e)
    return dot, ee, ss


@dividing
def adabound_move(a, b, p, kappa, n, c):
    eps, low, high, slow, largest = c[k.EPS], c[k.LOW], c[k.HIGH], c[k.SLOW], c[k.LARGEST]
    top = kappa * c[k.SCALE]
    for i in range(n):
        q = np.sqrt(b[i]) + eps
        rate = top / (largest if q > largest else q)
        p[i] -= min(max(rate, low), high) * a[i] * slow


@kernel
def nesterov_observe(g, a, b, n, c):
    mu, mu_buffer, damp = c[k.B2], c[k.B1], c[k.OMB1]
    dot, ee, ss = c[k.ZERO], c[k.ZERO], c[k.ZERO]
    for i in range(n):
        e, s = g[i], b[i]
        dot += e * s
        ee += e * e
        ss += s * s
        buffer = mu_buffer * a[i] + damp * e
        a[i] = buffer
        b[i] = e + mu * buffer
    return dot, ee, ss


@kernel
def momentum_observe(g, a, n, c):
    mu, damp = c[k.B1], c[k.OMB1]
    dot, ee, ss = c[k.ZERO], c[k.ZERO], c[k.ZERO]
    for i in range(n):
        e, s = g[i], a[i]
        dot += e * s
        ee += e * e
        ss += s * s
        a[i] = mu * s + damp * e
    return dot, ee, ss


@kernel
def sgd_observe(g, b, n, c):
    dot, ee, ss = c[k.ZERO], c[k.ZERO], c[k.ZERO]
    for i in range(n):
        e, s = g[i], b[i]
        dot += e * s
        ee += e * e
        ss += s * s
        b[i] = e
    return dot, ee, ss


@kernel
def sgd_move(d, p, kappa, n):
    for i in range(n):
        p[i] -= kappa * d[i]


@kernel
def sgd_move_many(d, p, kappas, n, scale):
    """Runs of n scalars that lie one after the other, each with its own κ."""
    for run in range(len(kappas)):
        kappa, here = scale * d.dtype.type(kappas[run]), slice(run * n, run * n + n)
        ps, ds = p[here], d[here]
        for i in range(n):
            ps[i] -= kappa * ds[i]
