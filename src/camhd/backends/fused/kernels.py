"""The elementwise loops of a step, for each base rule, over one chunk of scalars that fits into the nearest cache.

A chunk goes through a few of them, one after the other, and only the first has to wait for memory:

- `…_sense`: the gradient as the rule sees it into `e`, and the sensitivity s = ∂U/∂κ of the last move into `s`;
- `products`: Σ e·s, Σ e², Σ s² over those scalars of it that share all rates above the per-scalar level;
- `own_rates`: the scalars' own rates learn, and κ of each into `w`;
- `…_take`: the gradient into the rule's state;
- `…_move`: θ ← θ − U(κ).

The arrays are `g` (gradient), `a` and `b` (the rule's two state tensors: Adam's direction and v, AdaBound's m and v,
or momentum buffer and direction), `x` (v's running maximum), `p` (parameter), `r` (the scalars' own rates), `w` (κ of
each scalar). Every constant comes as a number of the arrays' own dtype in `c`, so that float32 stays float32. No loop
has a branch in it, and none more arrays than the compiler can prove to be apart: both would keep it out of the vector
registers.
"""

from __future__ import annotations

import numpy as np

from .jit import dividing, exact, kernel

LARGEST_CHUNK = 1024  # scalars of a chunk at the most

# The constants of a slot, by their place in `c`.
ZERO, ONE, SIGN, L2, DECOUPLED, DECOUPLED_ = 0, 1, 2, 3, 4, 5
B1, OMB1, B2, OMB2 = 6, 7, 8, 9  # β₁, 1 − β₁, β₂, 1 − β₂; of SGD: μ, 1 − dampening
EPS, SCALE = 10, 11  # ε beside √v (Adam: ε √(1 − β₂ᵗ)), and √(1 − β₂ᵗ)/(1 − β₁ᵗ) of this step
EPS_, SCALE_ = 12, 13  # and of the last one
LOW, HIGH, SLOW = 14, 15, 16  # AdaBound's bounds and 1/√t
LOW_, HIGH_, SLOW_ = 17, 18, 19
BETA, CHAIN, MIN_LR, MAX_LR, LEARNS, COSINE = 20, 21, 22, 23, 24, 25  # of the scalars' own rates
GROW, SHRINK = 26, 27  # the factors by which one of these may change in one step
# No divisor is larger: a division by ∞ would come out as NaN where it is done by an estimate of the inverse, and m,
# which is Adam's direction times its divisor, as 0 · ∞.
LARGEST = 28
CONSTANTS = 29


@kernel
def gradient(g, p, e, n, c):
    """As the rule sees it: turned for `maximize`, with L2 decay."""
    sign, l2 = c[SIGN], c[L2]
    for i in range(n):
        e[i] = sign * g[i] + l2 * p[i]


@kernel
def products(e, s, n, c, norms):
    dot, ee, ss = c[ZERO], c[ZERO], c[ZERO]
    if norms:
        for i in range(n):
            dot += e[i] * s[i]
            ee += e[i] * e[i]
            ss += s[i] * s[i]
        return dot, ee, ss
    for i in range(n):
        dot += e[i] * s[i]
    return dot, ee, ss


@kernel
def capped(rate, old, grow, shrink, zero, most):
    """A rate, but not more than a factor from the old one; from 0 every change is infinite. No product is ∞."""
    high = grow * min(old, most * shrink) if old > zero else most
    return min(max(rate, shrink * old), high)


@kernel
def own_rates(e, s, r, w, n, shared, factor, c):
    """Every scalar's own rate after its hypergradient h = −CHAIN·e·s, and its κ = shared + factor · rate into `w`.

    Returns Σ rate · h, with the rates before. A change that is not finite is none.
    """
    slope, zero, chain, low, high = c[ZERO], c[ZERO], c[CHAIN], c[MIN_LR], c[MAX_LR]
    step = c[BETA] * chain if c[LEARNS] != zero else zero
    if c[COSINE] != zero:  # of single numbers the cosine is the sign of their product
        for i in range(n):
            es = e[i] * s[i]
            slope -= r[i] * (chain * es)
            change = r[i] * (step if es > zero else (-step if es < zero else zero))
            rate = min(max(r[i] + (change if abs(change) < np.inf else zero), low), high)
            r[i] = rate
            w[i] = shared + factor * rate
        return slope
    for i in range(n):
        es = e[i] * s[i]
        slope -= r[i] * (chain * es)
        change = step * es
        rate = min(max(r[i] + (change if abs(change) < np.inf else zero), low), high)
        r[i] = rate
        w[i] = shared + factor * rate
    return slope


@kernel
def own_capped_rates(e, s, r, w, n, shared, factor, c):
    """The same, but no rate changes by more than a factor. A loop of its own: the other's sums keep their order."""
    slope, zero, chain, low, high = c[ZERO], c[ZERO], c[CHAIN], c[MIN_LR], c[MAX_LR]
    step = c[BETA] * chain if c[LEARNS] != zero else zero
    cosine, grow, shrink, largest = c[COSINE] != zero, c[GROW], c[SHRINK], c[LARGEST]
    for i in range(n):
        es, old = e[i] * s[i], r[i]
        slope -= old * (chain * es)
        change = old * (step if es > zero else (-step if es < zero else zero)) if cosine else step * es
        rate = capped(old + (change if abs(change) < np.inf else zero), old, grow, shrink, zero, largest)
        rate = min(max(rate, low), high)
        r[i] = rate
        w[i] = shared + factor * rate
    return slope


# --------------------------------------------------------------------------- Adam, AdamW, AMSGrad


@dividing
def adam_sense(a, p, w, s, n, c):
    decoupled, scale, one = c[DECOUPLED_], c[SCALE_], c[ONE]
    if decoupled == c[ZERO]:
        for i in range(n):
            s[i] = a[i] * scale
        return
    for i in range(n):
        s[i] = (a[i] * scale + decoupled * p[i]) / (one - decoupled * w[i])


@kernel
def taken(e, a, b, root, eps, b1, omb1, b2, omb2, largest):
    """Both moments with the gradient in them; m was `a` times its divisor, which is the root of v or of its maximum."""
    q = np.sqrt(root) + eps
    return b1 * (a * (largest if q > largest else q)) + omb1 * e, b2 * b + omb2 * (e * e)


@dividing
def adam_take(e, a, b, n, c):
    eps_, eps, largest, b1, omb1, b2, omb2 = c[EPS_], c[EPS], c[LARGEST], c[B1], c[OMB1], c[B2], c[OMB2]
    for i in range(n):
        m, v = taken(e[i], a[i], b[i], b[i], eps_, b1, omb1, b2, omb2, largest)
        q = np.sqrt(v) + eps
        a[i], b[i] = m / (largest if q > largest else q), v


@dividing
def amsgrad_take(e, a, b, x, n, c):
    eps_, eps, largest, b1, omb1, b2, omb2 = c[EPS_], c[EPS], c[LARGEST], c[B1], c[OMB1], c[B2], c[OMB2]
    for i in range(n):
        m, v = taken(e[i], a[i], b[i], x[i], eps_, b1, omb1, b2, omb2, largest)
        x[i] = max(x[i], v)
        q = np.sqrt(x[i]) + eps
        a[i], b[i] = m / (largest if q > largest else q), v


@exact
def decay(p, w, n, c):
    """θ ← (1 − κ wd) θ, the factor rounded once, as torch rounds it: its error would add up over many steps."""
    decoupled, one = c[DECOUPLED], c[ONE]
    for i in range(n):
        p[i] *= one - decoupled * w[i]


@kernel
def adam_move(a, p, w, n, c):
    scale = c[SCALE]
    for i in range(n):
        p[i] -= a[i] * (scale * w[i])


# --------------------------------------------------------------------------- SGD


@kernel
def momentum_take(e, a, n, c):
    mu, damp = c[B1], c[OMB1]
    for i in range(n):
        a[i] = mu * a[i] + damp * e[i]


@kernel
def nesterov_take(e, a, b, n, c):
    mu, mu_buffer, damp = c[B2], c[B1], c[OMB1]
    for i in range(n):
        a[i] = mu_buffer * a[i] + damp * e[i]
        b[i] = e[i] + mu * a[i]


@kernel
def copy(e, b, n):
    for i in range(n):
        b[i] = e[i]


@kernel
def sgd_move(d, p, w, n):
    for i in range(n):
        p[i] -= w[i] * d[i]


# --------------------------------------------------------------------------- AdaBound, AMSBound


@kernel
def moments_take(e, a, b, n, c):
    b1, omb1, b2, omb2 = c[B1], c[OMB1], c[B2], c[OMB2]
    for i in range(n):
        a[i] = b1 * a[i] + omb1 * e[i]
        b[i] = b2 * b[i] + omb2 * (e[i] * e[i])


@kernel
def running_maximum(b, x, n):
    for i in range(n):
        x[i] = max(x[i], b[i])


@dividing
def adabound_sense(a, b, w, s, n, c):
    """The slope of the last move in κ, and 0 where the clip was active."""
    eps, scale, low, high, slow = c[EPS_], c[SCALE_], c[LOW_], c[HIGH_], c[SLOW_]
    zero, largest = c[ZERO], c[LARGEST]
    for i in range(n):
        q = np.sqrt(b[i]) + eps
        slope = scale / (largest if q > largest else q)
        rate = w[i] * slope
        s[i] = slope * a[i] * slow if (rate >= low) & (rate <= high) else zero


@dividing
def adabound_move(a, b, p, w, n, c):
    eps, scale, low, high, slow, largest = c[EPS], c[SCALE], c[LOW], c[HIGH], c[SLOW], c[LARGEST]
    for i in range(n):
        q = np.sqrt(b[i]) + eps
        rate = w[i] * scale / (largest if q > largest else q)
        p[i] -= min(max(rate, low), high) * a[i] * slow
