"""The elementwise loops of a step with a trace of directions, beside those of `kernels` and `runs`.

The first pass takes the gradient into the rule's state, forms this step's direction d, sums up g·D, g², D² and d², and
lets the trace take d in, D ← φ D + d. The second needs nothing of the trace: it moves the parameter as ever. `t` is the
trace; the other names and the constants are those of `kernels`.
"""

from __future__ import annotations

import numpy as np

from . import kernels as k
from .jit import dividing, kernel


@dividing
def adam(g, a, b, t, phi, n, c):
    """All of the first pass in one loop: most of the time goes into waiting for memory and for the division."""
    eps_, eps, scale, largest = c[k.EPS_], c[k.EPS], c[k.SCALE], c[k.LARGEST]
    b1, omb1, b2, omb2 = c[k.B1], c[k.OMB1], c[k.B2], c[k.OMB2]
    dot, ee, tt, dd = c[k.ZERO], c[k.ZERO], c[k.ZERO], c[k.ZERO]
    for i in range(n):
        e, old = g[i], t[i]
        m, v = k.taken(e, a[i], b[i], b[i], eps_, b1, omb1, b2, omb2, largest)
        q = np.sqrt(v) + eps
        ratio = m / (largest if q > largest else q)
        a[i], b[i] = ratio, v
        d = ratio * scale
        dot += e * old
        ee += e * e
        tt += old * old
        dd += d * d
        t[i] = phi * old + d
    return dot, ee, tt, dd


@dividing
def adamw(g, a, b, p, t, phi, n, c):
    """The same with decoupled decay, which is part of the direction."""
    eps_, eps, scale, largest, decoupled = c[k.EPS_], c[k.EPS], c[k.SCALE], c[k.LARGEST], c[k.DECOUPLED]
    b1, omb1, b2, omb2 = c[k.B1], c[k.OMB1], c[k.B2], c[k.OMB2]
    dot, ee, tt, dd = c[k.ZERO], c[k.ZERO], c[k.ZERO], c[k.ZERO]
    for i in range(n):
        e, old = g[i], t[i]
        m, v = k.taken(e, a[i], b[i], b[i], eps_, b1, omb1, b2, omb2, largest)
        q = np.sqrt(v) + eps
        ratio = m / (largest if q > largest else q)
        a[i], b[i] = ratio, v
        d = ratio * scale + decoupled * p[i]
        dot += e * old
        ee += e * e
        tt += old * old
        dd += d * d
        t[i] = phi * old + d
    return dot, ee, tt, dd


@kernel
def momentum(g, a, t, phi, n, c):
    mu, damp = c[k.B1], c[k.OMB1]
    dot, ee, tt, dd = c[k.ZERO], c[k.ZERO], c[k.ZERO], c[k.ZERO]
    for i in range(n):
        e, old = g[i], t[i]
        d = mu * a[i] + damp * e
        a[i] = d
        dot += e * old
        ee += e * e
        tt += old * old
        dd += d * d
        t[i] = phi * old + d
    return dot, ee, tt, dd


@kernel
def nesterov(g, a, t, phi, n, c):
    mu, mu_buffer, damp = c[k.B2], c[k.B1], c[k.OMB1]
    dot, ee, tt, dd = c[k.ZERO], c[k.ZERO], c[k.ZERO], c[k.ZERO]
    for i in range(n):
        e, old = g[i], t[i]
        buffer = mu_buffer * a[i] + damp * e
        a[i] = buffer
        d = e + mu * buffer
        dot += e * old
        ee += e * e
        tt += old * old
        dd += d * d
        t[i] = phi * old + d
    return dot, ee, tt, dd


@kernel
def nesterov_move(g, a, p, kappa, n, c):
    mu = c[k.B2]
    for i in range(n):
        p[i] -= kappa * (g[i] + mu * a[i])


@kernel
def meet(e, d, t, phi, n, c):
    """The sums, and the trace takes the direction in."""
    dot, ee, tt, dd = c[k.ZERO], c[k.ZERO], c[k.ZERO], c[k.ZERO]
    for i in range(n):
        g, old, new = e[i], t[i], d[i]
        dot += g * old
        ee += g * g
        tt += old * old
        dd += new * new
        t[i] = phi * old + new
    return dot, ee, tt, dd


@kernel
def adam_direction(a, p, s, n, c):
    scale, decoupled = c[k.SCALE], c[k.DECOUPLED]
    if decoupled == c[k.ZERO]:
        for i in range(n):
            s[i] = a[i] * scale
        return
    for i in range(n):
        s[i] = a[i] * scale + decoupled * p[i]


@dividing
def adabound_direction(a, b, s, n, c):
    """Without the bounds: what the direction is until a rate meets one."""
    eps, scale, slow, largest = c[k.EPS], c[k.SCALE], c[k.SLOW], c[k.LARGEST]
    for i in range(n):
        q = np.sqrt(b[i]) + eps
        s[i] = a[i] * scale / (largest if q > largest else q) * slow


@kernel
def nesterov_direction(e, a, s, n, c):
    mu = c[k.B2]
    for i in range(n):
        s[i] = e[i] + mu * a[i]


@kernel
def squares(p, n, c):
    found = c[k.ZERO]
    for i in range(n):
        found += p[i] * p[i]
    return found
