"""What a thread does with a work item of long runs: each goes by in a few loops that know its one rate (`runs`)."""

from __future__ import annotations

from numba import carray

from . import kernels as k
from . import runs
from . import tables as t
from .jit import kernel, pointer

LONG = 64  # scalars from which on a run is better off by itself
PIECE = 4096  # scalars of a long run whose products are summed up in their own precision


@kernel
def array_at(places, slot, column, start, n, like):
    return carray(pointer(places[slot, column] + start * like.itemsize, like), n)


@kernel
def goes_by_runs(kind, leaf, inner, c):
    if leaf:
        return inner >= LONG and kind == t.ADAM and c[k.DECOUPLED] == c[k.DECOUPLED_] == c[k.COSINE] == c[k.ZERO]
    return inner >= LONG and kind != t.AMSGRAD and kind != t.AMSBOUND


@kernel
def _observe(kind, leaf, g, a, b, p, kappas, n, sums, c):
    if leaf:
        runs.adam_products(g, a, n, sums, c)
    elif kind == t.ADAM:
        if c[k.DECOUPLED_] == c[k.ZERO]:
            runs.adam_observe(g, a, b, n, sums, c)
        else:
            runs.adamw_observe(g, a, b, p, kappas, n, sums, c)
    elif kind == t.ADABOUND:
        runs.adabound_observe(g, a, b, kappas, n, sums, c)
    elif kind == t.NESTEROV:
        runs.nesterov_observe(g, a, b, n, sums, c)
    elif kind == t.MOMENTUM:
        runs.momentum_observe(g, a, n, sums, c)
    else:
        runs.sgd_observe(g, b, n, sums, c)


@kernel
def move(kind, a, b, p, kappas, n, c):
    """Runs of n scalars that lie one after the other move, each with its own κ."""
    if kind == t.ADAM:
        if c[k.DECOUPLED] == c[k.ZERO]:
            runs.sgd_move(a, p, kappas, n, c[k.SCALE])
        else:
            runs.adamw_move(a, p, kappas, n, c)
    elif kind == t.ADABOUND:
        runs.adabound_move(a, b, p, kappas, n, c)
    else:
        runs.sgd_move(a if kind == t.MOMENTUM else b, p, kappas, n, c[k.ONE])


@kernel
def observe_runs(item, kind, leaf, places, c, kappa, sums, e, like):
    """Sums of an item of long runs; without a per-scalar level the gradient is taken in too."""
    slot, turned = item[t.SLOT], c[k.SIGN] != c[k.ONE] or c[k.L2] != c[k.ZERO]
    inner, cell, longest = places[slot, t.INNER], places[slot, t.CELL], k.LARGEST_CHUNK if turned else PIECE
    each, count = item[t.STOP] - item[t.START], item[t.LAST_RUN] - item[t.RUN]
    together = count if each <= PIECE and not turned else 1
    for run in range(0, count, together):
        at = (item[t.RUN] + run) * inner + item[t.START]
        stop, found = at + (together - 1) * inner + each, sums[:, item[t.OUT] + run : item[t.OUT] + run + together]
        kappas = kappa[cell + item[t.RUN] + run : cell + item[t.RUN] + run + together]
        while at < stop:
            n = stop - at if together > 1 else min(longest, stop - at)
            p, g = array_at(places, slot, t.P, at, n, like), array_at(places, slot, t.G, at, n, like)
            a, b = array_at(places, slot, t.A, at, n, like), array_at(places, slot, t.B, at, n, like)
            if turned:
                k.gradient(g, p, e, n, c)
                g = e
            _observe(kind, leaf, g, a, b, p, kappas, n // together, found, c)
            at += n


@kernel
def move_runs(item, kind, places, c, kappa, like):
    """Every run moves with its one rate."""
    slot, n, count = item[t.SLOT], item[t.STOP] - item[t.START], item[t.LAST_RUN] - item[t.RUN]
    cell, at = places[slot, t.CELL] + item[t.RUN], item[t.RUN] * places[slot, t.INNER] + item[t.START]
    p = array_at(places, slot, t.P, at, n * count, like)
    a, b = array_at(places, slot, t.A, at, n * count, like), array_at(places, slot, t.B, at, n * count, like)
    move(kind, a, b, p, kappa[0, cell : cell + count], n, c)


@kernel
def learn_and_move_runs(item, places, c, kappa, e, like):
    """The scalars' own rates learn, the gradient is taken in, and every run moves. Returns their ∂f/∂γ."""
    slot, slope, turned = item[t.SLOT], 0.0, c[k.SIGN] != c[k.ONE] or c[k.L2] != c[k.ZERO]
    inner, cell, longest = places[slot, t.INNER], places[slot, t.CELL], k.LARGEST_CHUNK if turned else PIECE
    for run in range(item[t.RUN], item[t.LAST_RUN]):
        at, stop = run * inner + item[t.START], run * inner + item[t.STOP]
        shared, factor = like.dtype.type(kappa[0, cell + run]), like.dtype.type(kappa[1, cell + run])
        while at < stop:
            n = min(longest, stop - at)
            p, g = array_at(places, slot, t.P, at, n, like), array_at(places, slot, t.G, at, n, like)
            a, b = array_at(places, slot, t.A, at, n, like), array_at(places, slot, t.B, at, n, like)
            r = array_at(places, slot, t.R, at, n, like)
            if turned:
                k.gradient(g, p, e, n, c)
                g = e
            if c[k.SHRINK] == c[k.ZERO]:
                slope += runs.adam_learn_and_move(g, a, b, r, p, shared, factor, n, c)
            else:
                slope += runs.adam_learn_capped_and_move(g, a, b, r, p, shared, factor, n, c)
            at += n
    return slope
