"""The elementwise passes of a step, for each base rule, over one contiguous run of scalars.

Two passes over memory: `…_observe` forms the sums of g·s and takes the gradient into the rule's
state; after the few rates have learned, `…_move` writes the parameter. Above a per-scalar level the
order is another, because no scalar's rate may change before all sums are known to be finite:
`…_look` forms the sums and writes nothing, `…_leaf` does all the rest.

The arrays of a run are `g` (gradient), `a` and `b` (the rule's two state tensors: m and v, or
momentum buffer and direction), `x` (v's running maximum), `p` (parameter), `r` (the scalars' own
rates). Every constant comes as a number of the arrays' own dtype in `c`, so that float32 stays
float32. The sums that come back are Σ g·s, Σ g², Σ s².

The loops are written out, alike as they are: one loop over all variants has branches in it, and a loop
with branches does not run in vector registers.
"""

from __future__ import annotations

import numpy as np

from .jit import kernel

# The constants of a run, by their place in `c`.
ZERO, ONE, SIGN, L2, DECOUPLED = 0, 1, 2, 3, 4
B1, OMB1, B2, OMB2 = 5, 6, 7, 8  # β₁, 1 − β₁, β₂, 1 − β₂; of SGD: μ, 1 − dampening
EPS, INV_BC1, INV_BC2 = 9, 10, 11  # ε, 1/(1 − β₁ᵗ), 1/√(1 − β₂ᵗ) of this step
EPS_, INV_BC1_, INV_BC2_ = 12, 13, 14  # and of the last one
LOW, HIGH, SLOW = 15, 16, 17  # AdaBound's bounds and 1/√t
LOW_, HIGH_, SLOW_ = 18, 19, 20
KAPPA, OWN = 21, 22  # κ = KAPPA + OWN · (the scalar's own rate)
KAPPA_, OWN_ = 23, 24
BETA, CHAIN, MIN_LR, MAX_LR, LEARNS, COSINE = 25, 26, 27, 28, 29, 30  # of the scalars' own rates
DECOUPLED_, LEFT = 31, 32  # LEFT = 1 − κ wd, rounded once, as torch rounds it
CONSTANTS = 33


@kernel
def _learned(rate, gs, c):
    """One scalar's own rate after its hypergradient h = −CHAIN·g·s, and rate · h."""
    h = -c[CHAIN] * gs
    if c[COSINE] == c[ZERO]:
        new = rate - c[BETA] * h
    elif gs > c[ZERO]:
        new = rate * (c[ONE] + c[BETA] * c[CHAIN])
    elif gs < c[ZERO]:
        new = rate * (c[ONE] - c[BETA] * c[CHAIN])
    else:
        new = rate
    new = min(max(new, c[MIN_LR]), c[MAX_LR])
    return (new if c[LEARNS] != c[ZERO] and np.isfinite(new) else rate), rate * h


# --------------------------------------------------------------------------- Adam, AdamW, AMSGrad


@kernel
def adam_observe(g, a, b, p, n, c):
    dot, gg, ss = c[ZERO], c[ZERO], c[ZERO]
    sign, l2, decoupled = c[SIGN], c[L2], c[DECOUPLED_]
    b1, omb1, b2, omb2, eps, bc1, bc2 = c[B1], c[OMB1], c[B2], c[OMB2], c[EPS_], c[INV_BC1_], c[INV_BC2_]
    if l2 == c[ZERO] and decoupled == c[ZERO]:
        for i in range(n):
            gi, mi, vi = sign * g[i], a[i], b[i]
            s = mi / (np.sqrt(vi) * bc2 + eps) * bc1
            dot += gi * s
            gg += gi * gi
            ss += s * s
            a[i] = b1 * mi + omb1 * gi
            b[i] = b2 * vi + omb2 * (gi * gi)
        return dot, gg, ss
    left = c[ONE] / (c[ONE] - decoupled * c[KAPPA_])
    for i in range(n):
        gi, mi, vi = sign * g[i] + l2 * p[i], a[i], b[i]
        s = (mi / (np.sqrt(vi) * bc2 + eps) * bc1 + decoupled * p[i]) * left
        dot += gi * s
        gg += gi * gi
        ss += s * s
        a[i] = b1 * mi + omb1 * gi
        b[i] = b2 * vi + omb2 * (gi * gi)
    return dot, gg, ss


@kernel
def amsgrad_observe(g, a, b, x, p, n, c):
    dot, gg, ss = c[ZERO], c[ZERO], c[ZERO]
    sign, l2, decoupled = c[SIGN], c[L2], c[DECOUPLED_]
    b1, omb1, b2, omb2, eps, bc1, bc2 = c[B1], c[OMB1], c[B2], c[OMB2], c[EPS_], c[INV_BC1_], c[INV_BC2_]
    left = c[ONE] / (c[ONE] - decoupled * c[KAPPA_])
    for i in range(n):
        gi, mi, xi = sign * g[i] + l2 * p[i], a[i], x[i]
        s = (mi / (np.sqrt(xi) * bc2 + eps) * bc1 + decoupled * p[i]) * left
        dot += gi * s
        gg += gi * gi
        ss += s * s
        vi = b2 * b[i] + omb2 * (gi * gi)
        a[i] = b1 * mi + omb1 * gi
        b[i] = vi
        x[i] = max(xi, vi)
    return dot, gg, ss


@kernel
def adam_move(a, b, p, n, c):
    scale, bc2, eps = c[INV_BC1] * c[KAPPA], c[INV_BC2], c[EPS]
    if c[DECOUPLED] == c[ZERO]:
        for i in range(n):
            p[i] -= a[i] / (np.sqrt(b[i]) * bc2 + eps) * scale
    else:
        left = c[LEFT]
        for i in range(n):
            p[i] = left * p[i] - a[i] / (np.sqrt(b[i]) * bc2 + eps) * scale


@kernel
def adam_look(g, a, b, p, r, n, c):
    dot, gg, ss = c[ZERO], c[ZERO], c[ZERO]
    sign, l2, decoupled, eps, bc1, bc2 = c[SIGN], c[L2], c[DECOUPLED_], c[EPS_], c[INV_BC1_], c[INV_BC2_]
    if l2 == c[ZERO] and decoupled == c[ZERO]:
        for i in range(n):
            gi = sign * g[i]
            s = a[i] / (np.sqrt(b[i]) * bc2 + eps) * bc1
            dot += gi * s
            gg += gi * gi
            ss += s * s
        return dot, gg, ss
    for i in range(n):
        gi = sign * g[i] + l2 * p[i]
        left = c[ONE] - decoupled * (c[KAPPA_] + c[OWN_] * r[i])
        s = (a[i] / (np.sqrt(b[i]) * bc2 + eps) * bc1 + decoupled * p[i]) / left
        dot += gi * s
        gg += gi * gi
        ss += s * s
    return dot, gg, ss


@kernel
def adam_leaf(g, a, b, x, p, r, n, c, ams):
    slope = c[ZERO]
    sign, l2, decoupled = c[SIGN], c[L2], c[DECOUPLED_]
    b1, omb1, b2, omb2, eps, bc1, bc2 = c[B1], c[OMB1], c[B2], c[OMB2], c[EPS_], c[INV_BC1_], c[INV_BC2_]
    eps_now, bc1_now, bc2_now = c[EPS], c[INV_BC1], c[INV_BC2]
    if (
        not ams and l2 == c[ZERO] and decoupled == c[ZERO] and c[DECOUPLED] == c[ZERO] and c[COSINE] == c[ZERO]
    ):  # the common one, in vectors
        step = c[BETA] * c[CHAIN] if c[LEARNS] != c[ZERO] else c[ZERO]
        chain, low, high, kappa, own = c[CHAIN], c[MIN_LR], c[MAX_LR], c[KAPPA], c[OWN]
        for i in range(n):
            gi, mi, vi, ri = sign * g[i], a[i], b[i], r[i]
            gs = gi * (mi / (np.sqrt(vi) * bc2 + eps) * bc1)
            slope -= ri * (chain * gs)
            change = step * gs
            ri = min(max(ri + (change if abs(change) < np.inf else c[ZERO]), low), high)
            mi = b1 * mi + omb1 * gi
            vi = b2 * vi + omb2 * (gi * gi)
            r[i] = ri
            a[i] = mi
            b[i] = vi
            p[i] -= mi / (np.sqrt(vi) * bc2_now + eps_now) * bc1_now * (kappa + own * ri)
        return slope
    for i in range(n):
        gi, mi = sign * g[i] + l2 * p[i], a[i]
        vi = x[i] if ams else b[i]
        left = c[ONE] - decoupled * (c[KAPPA_] + c[OWN_] * r[i])
        s = (mi / (np.sqrt(vi) * bc2 + eps) * bc1 + decoupled * p[i]) / left
        ri, part = _learned(r[i], gi * s, c)
        slope += part
        r[i] = ri
        mi = b1 * mi + omb1 * gi
        a[i] = mi
        b[i] = b2 * b[i] + omb2 * (gi * gi)
        if ams:
            x[i] = max(x[i], b[i])
        vi = x[i] if ams else b[i]
        rate = c[KAPPA] + c[OWN] * ri
        p[i] = (c[ONE] - c[DECOUPLED] * rate) * p[i] - mi / (np.sqrt(vi) * bc2_now + eps_now) * bc1_now * rate
    return slope


# --------------------------------------------------------------------------- SGD


@kernel
def sgd_observe(g, b, p, n, c):
    """Plain: the direction `b` is the last gradient."""
    dot, gg, ss = c[ZERO], c[ZERO], c[ZERO]
    sign, l2 = c[SIGN], c[L2]
    for i in range(n):
        gi, s = sign * g[i] + l2 * p[i], b[i]
        dot += gi * s
        gg += gi * gi
        ss += s * s
        b[i] = gi
    return dot, gg, ss


@kernel
def momentum_observe(g, a, p, n, c):
    """Momentum: the buffer `a` is the direction."""
    dot, gg, ss = c[ZERO], c[ZERO], c[ZERO]
    sign, l2, mu, damp = c[SIGN], c[L2], c[B1], c[OMB1]
    for i in range(n):
        gi, s = sign * g[i] + l2 * p[i], a[i]
        dot += gi * s
        gg += gi * gi
        ss += s * s
        a[i] = mu * s + damp * gi
    return dot, gg, ss


@kernel
def nesterov_observe(g, a, b, p, n, c):
    """Nesterov: buffer `a`, direction `b`."""
    dot, gg, ss = c[ZERO], c[ZERO], c[ZERO]
    sign, l2, mu, mu_buffer, damp = c[SIGN], c[L2], c[B2], c[B1], c[OMB1]
    if l2 == c[ZERO]:
        for i in range(n):
            gi, s = sign * g[i], b[i]
            dot += gi * s
            gg += gi * gi
            ss += s * s
            ai = mu_buffer * a[i] + damp * gi
            a[i] = ai
            b[i] = gi + mu * ai
        return dot, gg, ss
    for i in range(n):
        gi, s = sign * g[i] + l2 * p[i], b[i]
        dot += gi * s
        gg += gi * gi
        ss += s * s
        ai = mu_buffer * a[i] + damp * gi
        a[i] = ai
        b[i] = gi + mu * ai
    return dot, gg, ss


@kernel
def sgd_move(d, p, n, c):
    kappa = c[KAPPA]
    for i in range(n):
        p[i] -= kappa * d[i]


@kernel
def sgd_look(g, d, p, n, c):
    dot, gg, ss = c[ZERO], c[ZERO], c[ZERO]
    sign, l2 = c[SIGN], c[L2]
    for i in range(n):
        gi, s = sign * g[i] + l2 * p[i], d[i]
        dot += gi * s
        gg += gi * gi
        ss += s * s
    return dot, gg, ss


@kernel
def sgd_leaf(g, a, b, p, r, n, c, kind):
    """All three kinds: 0 plain, 1 momentum, 2 Nesterov."""
    slope = c[ZERO]
    sign, l2, mu, mu_buffer, damp = c[SIGN], c[L2], c[B2], c[B1], c[OMB1]
    if kind == 2 and c[COSINE] == c[ZERO]:  # the common one, in vectors
        step = c[BETA] * c[CHAIN] if c[LEARNS] != c[ZERO] else c[ZERO]
        chain, low, high, kappa, own = c[CHAIN], c[MIN_LR], c[MAX_LR], c[KAPPA], c[OWN]
        for i in range(n):
            gi, ri = sign * g[i] + l2 * p[i], r[i]
            gs = gi * b[i]
            slope -= ri * (chain * gs)
            change = step * gs
            ri = min(max(ri + (change if abs(change) < np.inf else c[ZERO]), low), high)
            ai = mu_buffer * a[i] + damp * gi
            d = gi + mu * ai
            r[i] = ri
            a[i] = ai
            b[i] = d
            p[i] -= (kappa + own * ri) * d
        return slope
    for i in range(n):
        gi = sign * g[i] + l2 * p[i]
        ri, part = _learned(r[i], gi * (a[i] if kind == 1 else b[i]), c)
        slope += part
        r[i] = ri
        d = gi
        if kind > 0:
            ai = mu_buffer * a[i] + damp * gi
            a[i] = ai
            d = ai if kind == 1 else gi + mu * ai
        if kind != 1:
            b[i] = d
        p[i] -= (c[KAPPA] + c[OWN] * ri) * d
    return slope


# --------------------------------------------------------------------------- AdaBound, AMSBound


@kernel
def _bounded(m, v, kappa, c):
    """The sensitivity of the last step: its slope in κ, and 0 where the clip was active."""
    slope = c[INV_BC1_] / ((np.sqrt(v) + c[EPS_]) * c[INV_BC2_])
    inside = (kappa * slope >= c[LOW_]) & (kappa * slope <= c[HIGH_])
    return slope * m * c[SLOW_] if inside else c[ZERO]


@kernel
def adabound_observe(g, a, b, x, p, n, c, ams):
    dot, gg, ss = c[ZERO], c[ZERO], c[ZERO]
    sign, l2, kappa = c[SIGN], c[L2], c[KAPPA_]
    b1, omb1, b2, omb2 = c[B1], c[OMB1], c[B2], c[OMB2]
    if ams:
        for i in range(n):
            gi, mi, xi = sign * g[i] + l2 * p[i], a[i], x[i]
            s = _bounded(mi, xi, kappa, c)
            dot += gi * s
            gg += gi * gi
            ss += s * s
            vi = b2 * b[i] + omb2 * (gi * gi)
            a[i] = b1 * mi + omb1 * gi
            b[i] = vi
            x[i] = max(xi, vi)
        return dot, gg, ss
    for i in range(n):
        gi, mi, vi = sign * g[i] + l2 * p[i], a[i], b[i]
        s = _bounded(mi, vi, kappa, c)
        dot += gi * s
        gg += gi * gi
        ss += s * s
        a[i] = b1 * mi + omb1 * gi
        b[i] = b2 * vi + omb2 * (gi * gi)
    return dot, gg, ss


@kernel
def adabound_move(a, b, p, n, c):
    kappa, bc1, bc2, eps, low, high, slow = c[KAPPA], c[INV_BC1], c[INV_BC2], c[EPS], c[LOW], c[HIGH], c[SLOW]
    for i in range(n):
        rate = kappa * bc1 / ((np.sqrt(b[i]) + eps) * bc2)
        p[i] -= min(max(rate, low), high) * a[i] * slow


@kernel
def adabound_look(g, a, b, p, r, n, c):
    dot, gg, ss = c[ZERO], c[ZERO], c[ZERO]
    for i in range(n):
        gi = c[SIGN] * g[i] + c[L2] * p[i]
        s = _bounded(a[i], b[i], c[KAPPA_] + c[OWN_] * r[i], c)
        dot += gi * s
        gg += gi * gi
        ss += s * s
    return dot, gg, ss


@kernel
def adabound_leaf(g, a, b, x, p, r, n, c, ams):
    slope = c[ZERO]
    for i in range(n):
        gi, mi = c[SIGN] * g[i] + c[L2] * p[i], a[i]
        s = _bounded(mi, x[i] if ams else b[i], c[KAPPA_] + c[OWN_] * r[i], c)
        ri, part = _learned(r[i], gi * s, c)
        slope += part
        r[i] = ri
        mi = c[B1] * mi + c[OMB1] * gi
        a[i] = mi
        b[i] = c[B2] * b[i] + c[OMB2] * (gi * gi)
        if ams:
            x[i] = max(x[i], b[i])
        vi = x[i] if ams else b[i]
        rate = (c[KAPPA] + c[OWN] * ri) * c[INV_BC1] / ((np.sqrt(vi) + c[EPS]) * c[INV_BC2])
        p[i] -= min(max(rate, c[LOW]), c[HIGH]) * mi * c[SLOW]
    return slope
