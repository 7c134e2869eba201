"""The loops of a step over one long run: a stretch of memory whose scalars share one rate.

Each loop does at once what `kernels` does one after the other, because there is nothing in between that depends on the
scalar: `…_observe` gives Σ g·s, Σ g², Σ s² with the last move's sensitivity s = ∂U/∂κ, and takes the gradient into the
rule's state; `…_move` is θ ← θ − U(κ) with one κ. `adam_products` and `adam_learn_and_move` are the two for scalars
that have a rate of their own beside the one they share. Names and constants are those of `kernels`.
"""

from __future__ import annotations

import numpy as np

from . import kernels as k
from .jit import dividing, kernel


@dividing
def adam_observe(g, a, b, n, c):
    eps, bc1, bc2, largest = c[k.EPS_], c[k.INV_BC1_], c[k.INV_BC2_], c[k.LARGEST]
    b1, omb1, b2, omb2 = c[k.B1], c[k.OMB1], c[k.B2], c[k.OMB2]
    dot, ee, ss = c[k.ZERO], c[k.ZERO], c[k.ZERO]
    for i in range(n):
        e, q = g[i], np.sqrt(b[i]) * bc2 + eps
        s = a[i] / (largest if q > largest else q) * bc1
        dot += e * s
        ee += e * e
        ss += s * s
        a[i] = b1 * a[i] + omb1 * e
        b[i] = b2 * b[i] + omb2 * (e * e)
    return dot, ee, ss


@dividing
def adamw_observe(g, a, b, p, kappa, n, c):
    """With decoupled decay, the last move is a part of where the parameter is now (see `camhd.rules.Adam`)."""
    eps, bc1, bc2, largest, decoupled = c[k.EPS_], c[k.INV_BC1_], c[k.INV_BC2_], c[k.LARGEST], c[k.DECOUPLED_]
    b1, omb1, b2, omb2 = c[k.B1], c[k.OMB1], c[k.B2], c[k.OMB2]
    left = c[k.ONE] / (c[k.ONE] - decoupled * kappa)
    dot, ee, ss = c[k.ZERO], c[k.ZERO], c[k.ZERO]
    for i in range(n):
        e, q = g[i], np.sqrt(b[i]) * bc2 + eps
        s = (a[i] / (largest if q > largest else q) * bc1 + decoupled * p[i]) * left
        dot += e * s
        ee += e * e
        ss += s * s
        a[i] = b1 * a[i] + omb1 * e
        b[i] = b2 * b[i] + omb2 * (e * e)
    return dot, ee, ss


@dividing
def adam_move(a, b, p, kappa, n, c):
    eps, bc2, largest = c[k.EPS], c[k.INV_BC2], c[k.LARGEST]
    rate = c[k.INV_BC1] * kappa
    for i in range(n):
        q = np.sqrt(b[i]) * bc2 + eps
        p[i] -= a[i] / (largest if q > largest else q) * rate


@dividing
def adamw_move(a, b, p, kappa, n, c):
    """The factor 1 − κ wd is rounded once, as torch rounds it: its error would add up over many steps."""
    eps, bc2, largest = c[k.EPS], c[k.INV_BC2], c[k.LARGEST]
    rate, left = c[k.INV_BC1] * kappa, c[k.ONE] - c[k.DECOUPLED] * kappa
    for i in range(n):
        q = np.sqrt(b[i]) * bc2 + eps
        p[i] = p[i] * left - a[i] / (largest if q > largest else q) * rate


@dividing
def adam_products(g, a, b, n, c):
    """The sums alone: the gradient is taken in when the scalars' own rates learn, which the state must not precede."""
    eps, bc1, bc2, largest = c[k.EPS_], c[k.INV_BC1_], c[k.INV_BC2_], c[k.LARGEST]
    dot, ee, ss = c[k.ZERO], c[k.ZERO], c[k.ZERO]
    for i in range(n):
        e, q = g[i], np.sqrt(b[i]) * bc2 + eps
        s = a[i] / (largest if q > largest else q) * bc1
        dot += e * s
        ee += e * e
        ss += s * s
    return dot, ee, ss


def _adam_learn_and_move(capped):
    """`own_rates` of the additive rule, `adam_take` and `adam_move` at once, for rates with or without a cap."""

    def loop(g, a, b, r, p, shared, factor, n, c):
        eps_, bc1_, bc2_, largest = c[k.EPS_], c[k.INV_BC1_], c[k.INV_BC2_], c[k.LARGEST]
        eps, bc1, bc2 = c[k.EPS], c[k.INV_BC1], c[k.INV_BC2]
        b1, omb1, b2, omb2 = c[k.B1], c[k.OMB1], c[k.B2], c[k.OMB2]
        slope, zero, chain, low, high = c[k.ZERO], c[k.ZERO], c[k.CHAIN], c[k.MIN_LR], c[k.MAX_LR]
        step = c[k.BETA] * chain if c[k.LEARNS] != zero else zero
        grow, shrink = c[k.GROW], c[k.SHRINK]
        for i in range(n):
            e, m, v, old = g[i], a[i], b[i], r[i]
            q = np.sqrt(v) * bc2_ + eps_
            es = e * (m / (largest if q > largest else q) * bc1_)
            slope -= old * (chain * es)
            change = step * es
            rate = old + (change if abs(change) <= largest else zero)  # "ninf" must not see an ∞
            if capped:
                rate = k.capped(rate, old, grow, shrink, zero, largest)
            rate = min(max(rate, low), high)
            r[i] = rate
            m = b1 * m + omb1 * e
            v = b2 * v + omb2 * (e * e)
            a[i], b[i] = m, v
            q = np.sqrt(v) * bc2 + eps
            p[i] -= m / (largest if q > largest else q) * (bc1 * (shared + factor * rate))
        return slope  # the scalars' part of ∂f/∂γ

    return dividing(loop)


adam_learn_and_move, adam_learn_capped_and_move = _adam_learn_and_move(False), _adam_learn_and_move(True)


@dividing
def adabound_observe(g, a, b, kappa, n, c):
    eps, bc1, bc2, low, high, slow = c[k.EPS_], c[k.INV_BC1_], c[k.INV_BC2_], c[k.LOW_], c[k.HIGH_], c[k.SLOW_]
    b1, omb1, b2, omb2, zero, largest = c[k.B1], c[k.OMB1], c[k.B2], c[k.OMB2], c[k.ZERO], c[k.LARGEST]
    dot, ee, ss = zero, zero, zero
    for i in range(n):
        e, q = g[i], (np.sqrt(b[i]) + eps) * bc2
        slope = bc1 / (largest if q > largest else q)
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
    eps, bc2, low, high, slow, largest = c[k.EPS], c[k.INV_BC2], c[k.LOW], c[k.HIGH], c[k.SLOW], c[k.LARGEST]
    top = kappa * c[k.INV_BC1]
    for i in range(n):
        q = (np.sqrt(b[i]) + eps) * bc2
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
