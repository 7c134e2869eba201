"""What a thread does with a work item of long runs: each goes by in a few loops that know its one rate (`runs`)."""

from __future__ import annotations

from numba import carray

from . import kernels as k
from . import runs
from . import tables as t
from .jit import kernel, pointer

LONG = 256  # scalars from which on a run is better off by itself
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
def _observe_run(kind, leaf, g, a, b, p, kappa, n, c):
    if leaf:
        return runs.adam_products(g, a, n, c)
    if kind == t.ADAM:
        return runs.adamw_observe(g, a, b, p, kappa, n, c)
    if kind == t.ADABOUND:
        return runs.adabound_observe(g, a, b, kappa, n, c)
    if kind == t.NESTEROV:
        return runs.nesterov_observe(g, a, b, n, c)
    if kind == t.MOMENTUM:
        return runs.momentum_observe(g, a, n, c)
    return runs.sgd_observe(g, b, n, c)


@kernel
def move_run(kind, a, b, p, kappa, n, c):
    if kind == t.ADAM:
        if c[k.DECOUPLED] == c[k.ZERO]:
            runs.sgd_move(a, p, c[k.SCALE] * kappa, n)
        else:
            runs.adamw_move(a, p, kappa, n, c)
    elif kind == t.ADABOUND:
        runs.adabound_move(a, b, p, kappa, n, c)
    else:
        runs.sgd_move(a if kind == t.MOMENTUM else b, p, kappa, n)


@kernel
def observe_runs(item, kind, leaf, places, c, kappa, sums, e, like):
    """Sums of an item of long runs; without a per-scalar level the gradient is taken in too."""
    slot, turned = item[t.SLOT], c[k.SIGN] != c[k.ONE] or c[k.L2] != c[k.ZERO]
    inner, cell, longest = places[slot, t.INNER], places[slot, t.CELL], k.LARGEST_CHUNK if turned else PIECE
    each, many = item[t.STOP] - item[t.START], item[t.LAST_RUN] - item[t.RUN]
    plain = kind == t.ADAM and not leaf and c[k.DECOUPLED_] == c[k.ZERO]
    if plain and each <= PIECE and not turned:
        at, n = item[t.RUN] * inner + item[t.START], many * each
        g, a = array_at(places, slot, t.G, at, n, like), array_at(places, slot, t.A, at, n, like)
        b = array_at(places, slot, t.B, at, n, like)
        runs.adam_observe(g, a, b, each, sums[:, item[t.OUT] : item[t.OUT] + many], c)
        return
    for run in range(item[t.RUN], item[t.LAST_RUN]):
        at, stop = run * inner + item[t.START], run * inner + item[t.STOP]
        rate, out = like.dtype.type(kappa[cell + run]), item[t.OUT] + run - item[t.RUN]
        while at < stop:
            n = min(longest, stop - at)
            p, g = array_at(places, slot, t.P, at, n, like), array_at(places, slot, t.G, at, n, like)
            a, b = array_at(places, slot, t.A, at, n, like), array_at(places, slot, t.B, at, n, like)
            if turned:
                k.gradient(g, p, e, n, c)
                g = e
            if plain:
                runs.adam_observe(g, a, b, n, sums[:, out : out + 1], c)
            else:
                dot, ee, ss = _observe_run(kind, leaf, g, a, b, p, rate, n, c)
                sums[0, out] += dot
                sums[1, out] += ee
                sums[2, out] += ss
            at += n


@kernel
def move_runs(item, kind, places, c, kappa, like):
    """Every run moves with its one rate."""
    slot = item[t.SLOT]
    inner, cell, n = places[slot, t.INNER], places[slot, t.CELL], item[t.STOP] - item[t.START]
    if kind == t.ADAM and c[k.DECOUPLED] == c[k.ZERO]:
        at, length = item[t.RUN] * inner + item[t.START], n * (item[t.LAST_RUN] - item[t.RUN])
        p, a = array_at(places, slot, t.P, at, length, like), array_at(places, slot, t.A, at, length, like)
        runs.sgd_move_many(a, p, kappa[0, cell + item[t.RUN] : cell + item[t.LAST_RUN]], n, c[k.SCALE])
        return
    for run in range(item[t.RUN], item[t.LAST_RUN]):
        at, rate = run * inner + item[t.START], like.dtype.type(kappa[0, cell + run])
        p = array_at(places, slot, t.P, at, n, like)
        a, b = array_at(places, slot, t.A, at, n, like), array_at(places, slot, t.B, at, n, like)
        move_run(kind, a, b, p, rate, n, c)


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
