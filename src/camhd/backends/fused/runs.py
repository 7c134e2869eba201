"""The loops of a step over long runs: stretches of memory whose scalars share one rate.

Each loop does at once what `kernels` does one after the other, because there is nothing in between that depends on the
scalar. It takes runs of n scalars that lie one after the other, because a call for each would cost too much where they
are short: `…_observe` adds Σ g·s, Σ g², Σ s² of each to its sums, with the last move's sensitivity s = ∂U/∂κ, and takes
the gradient into the rule's state; `…_move` is θ ← θ − U(κ) with each run's κ. `adam_products` and
`adam_learn_and_move` are the two for scalars that have a rate of their own beside the one they share; the latter takes
one run. Names and constants are those of `kernels`.
"""

from __future__ import annotations

import numpy as np

from . import kernels as k
from .jit import dividing, kernel


@kernel
def note(sums, run, dot, ee, ss, scale):
    """Sums of a run, with a sensitivity that is still to be scaled."""
    sums[0, run] += dot * scale
    sums[1, run] += ee
    sums[2, run] += ss * (scale * scale)


@dividing
def adam_observe(g, a, b, n, sums, c):
    eps_, eps, largest = c[k.EPS_], c[k.EPS], c[k.LARGEST]
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
        note(sums, run, dot, ee, ss, c[k.SCALE_])


@dividing
def adamw_observe(g, a, b, p, kappas, n, sums, c):
    """With decoupled decay, the last move is a part of where the parameter is now (see `camhd.rules.Adam`)."""
    eps_, scale, eps, largest, decoupled = c[k.EPS_], c[k.SCALE_], c[k.EPS], c[k.LARGEST], c[k.DECOUPLED_]
    b1, omb1, b2, omb2 = c[k.B1], c[k.OMB1], c[k.B2], c[k.OMB2]
    for run in range(sums.shape[1]):
        dot, ee, ss, here = c[k.ZERO], c[k.ZERO], c[k.ZERO], slice(run * n, run * n + n)
        gs, ds, vs, ps = g[here], a[here], b[here], p[here]
        left = c[k.ONE] / (c[k.ONE] - decoupled * c.dtype.type(kappas[run]))
        for i in range(n):
            e, s = gs[i], (ds[i] * scale + decoupled * ps[i]) * left
            dot += e * s
            ee += e * e
            ss += s * s
            m, v = k.taken(e, ds[i], vs[i], vs[i], eps_, b1, omb1, b2, omb2, largest)
            q = np.sqrt(v) + eps
            ds[i], vs[i] = m / (largest if q > largest else q), v
        note(sums, run, dot, ee, ss, c[k.ONE])


@kernel
def adamw_move(a, p, kappas, n, c):
    """The factor 1 − κ wd is rounded once, as torch rounds it: its error would add up over many steps."""
    for run in range(len(kappas)):
        kappa, here = c.dtype.type(kappas[run]), slice(run * n, run * n + n)
        rate, left, ds, ps = c[k.SCALE] * kappa, c[k.ONE] - c[k.DECOUPLED] * kappa, a[here], p[here]
        for i in range(n):
            ps[i] = ps[i] * left - ds[i] * rate


@kernel
def adam_products(g, a, n, sums, c):
    """The sums alone: the gradient is taken in when the scalars' own rates learn, which the state must not precede."""
    for run in range(sums.shape[1]):
        dot, ee, ss, here = c[k.ZERO], c[k.ZERO], c[k.ZERO], slice(run * n, run * n + n)
        gs, ds = g[here], a[here]
        for i in range(n):
            e, s = gs[i], ds[i]
            dot += e * s
            ee += e * e
            ss += s * s
        note(sums, run, dot, ee, ss, c[k.SCALE_])


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
def adabound_observe(g, a, b, kappas, n, sums, c):
    eps, scale, low, high, slow = c[k.EPS_], c[k.SCALE_], c[k.LOW_], c[k.HIGH_], c[k.SLOW_]
    b1, omb1, b2, omb2, zero, largest = c[k.B1], c[k.OMB1], c[k.B2], c[k.OMB2], c[k.ZERO], c[k.LARGEST]
    for run in range(sums.shape[1]):
        dot, ee, ss, here = zero, zero, zero, slice(run * n, run * n + n)
        gs, ms, vs, kappa = g[here], a[here], b[here], c.dtype.type(kappas[run])
        for i in range(n):
            e, q = gs[i], np.sqrt(vs[i]) + eps
            slope = scale / (largest if q > largest else q)
            rate = kappa * slope
            s = slope * ms[i] * slow if (rate >= low) & (rate <= high) else zero
            dot += e * s
            ee += e * e
            ss += s * s
            ms[i] = b1 * ms[i] + omb1 * e
            vs[i] = b2 * vs[i] + omb2 * (e * e)
        note(sums, run, dot, ee, ss, c[k.ONE])


@dividing
def adabound_move(a, b, p, kappas, n, c):
    eps, low, high, slow, largest = c[k.EPS], c[k.LOW], c[k.HIGH], c[k.SLOW], c[k.LARGEST]
    for run in range(len(kappas)):
        top, here = c.dtype.type(kappas[run]) * c[k.SCALE], slice(run * n, run * n + n)
        ms, vs, ps = a[here], b[here], p[here]
        for i in range(n):
            q = np.sqrt(vs[i]) + eps
            rate = top / (largest if q > largest else q)
            ps[i] -= min(max(rate, low), high) * ms[i] * slow


@kernel
def nesterov_observe(g, a, b, n, sums, c):
    mu, mu_buffer, damp = c[k.B2], c[k.B1], c[k.OMB1]
    for run in range(sums.shape[1]):
        dot, ee, ss, here = c[k.ZERO], c[k.ZERO], c[k.ZERO], slice(run * n, run * n + n)
        gs, buffers, ds = g[here], a[here], b[here]
        for i in range(n):
            e, s = gs[i], ds[i]
            dot += e * s
            ee += e * e
            ss += s * s
            buffer = mu_buffer * buffers[i] + damp * e
            buffers[i] = buffer
            ds[i] = e + mu * buffer
        note(sums, run, dot, ee, ss, c[k.ONE])


@kernel
def momentum_observe(g, a, n, sums, c):
    mu, damp = c[k.B1], c[k.OMB1]
    for run in range(sums.shape[1]):
        dot, ee, ss, here = c[k.ZERO], c[k.ZERO], c[k.ZERO], slice(run * n, run * n + n)
        gs, ds = g[here], a[here]
        for i in range(n):
            e, s = gs[i], ds[i]
            dot += e * s
            ee += e * e
            ss += s * s
            ds[i] = mu * s + damp * e
        note(sums, run, dot, ee, ss, c[k.ONE])


@kernel
def sgd_observe(g, b, n, sums, c):
    for run in range(sums.shape[1]):
        dot, ee, ss, here = c[k.ZERO], c[k.ZERO], c[k.ZERO], slice(run * n, run * n + n)
        gs, ds = g[here], b[here]
        for i in range(n):
            e, s = gs[i], ds[i]
            dot += e * s
            ee += e * e
            ss += s * s
            ds[i] = e
        note(sums, run, dot, ee, ss, c[k.ONE])


@kernel
def sgd_move(d, p, kappas, n, scale):
    for run in range(len(kappas)):
        kappa, here = scale * d.dtype.type(kappas[run]), slice(run * n, run * n + n)
        ps, ds = p[here], d[here]
        for i in range(n):
            ps[i] -= kappa * ds[i]
