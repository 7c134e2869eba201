"""A pass over all parameters: work items, each a piece of one parameter, taken by whichever thread is free.

An item is a range of runs of one slot, or a part of one long run. A run is one cell: a stretch of
memory whose scalars share all rates above the per-scalar level. What items there are does not
depend on how many threads take them, so neither do the sums.

The thread that makes the step does not wait for the others to wake up: it takes items until there are
none left, and then waits only for those that another thread is at.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from . import kernels as k
from .jit import fetch, fetch_add, kernel, pointer

SGD, MOMENTUM, NESTEROV, ADAM, AMSGRAD, ADABOUND, AMSBOUND = 0, 1, 2, 3, 4, 5, 6
SLOT, FIRST, LAST, START, STOP, OUT = 0, 1, 2, 3, 4, 5  # columns of `items`
P, G, A, B, X, R = 0, 1, 2, 3, 4, 5  # columns of `places`: addresses of a slot's arrays
INNER, CELL, ACTIVE = 6, 7, 8  # and: length of a run, its first cell, whether it takes part
TAKEN, DONE, TAKEN_2, DONE_2 = 0, 16, 32, 48  # places in `control`, each in a cache line of its own
CONTROL = 64


@kernel
def _array(places, slot, column, start, n, like):
    return carray(pointer(places[slot, column] + start * like.itemsize, like), n)


@kernel
def observe(kind, leaf, items, control, places, constants, kappa, own, sums, like):
    """First pass: Σ g·s, Σ g², Σ s² of every run; without a per-scalar level the gradient is taken in too."""
    c = np.empty(k.CONSTANTS, like.dtype)
    while True:
        item = fetch_add(control, TAKEN, 1)
        if item >= len(items):
            break
        slot = items[item, SLOT]
        if places[slot, ACTIVE] == 0:
            fetch_add(control, DONE, 1)
            continue
        inner, start, n = places[slot, INNER], items[item, START], items[item, STOP] - items[item, START]
        c[:] = constants[slot]
        for run in range(items[item, FIRST], items[item, LAST]):
            at, cell = run * inner + start, places[slot, CELL] + run
            c[k.KAPPA_], c[k.OWN_] = kappa[cell], own[cell]
            p, g = _array(places, slot, P, at, n, like), _array(places, slot, G, at, n, like)
            a, b = _array(places, slot, A, at, n, like), _array(places, slot, B, at, n, like)
            x, r = _array(places, slot, X, at, n, like), _array(places, slot, R, at, n, like)
            if leaf:
                if kind == ADAM:
                    dot, gg, ss = k.adam_look(g, a, b, p, r, n, c)
                elif kind == AMSGRAD:
                    dot, gg, ss = k.adam_look(g, a, x, p, r, n, c)
                elif kind == ADABOUND:
                    dot, gg, ss = k.adabound_look(g, a, b, p, r, n, c)
                elif kind == AMSBOUND:
                    dot, gg, ss = k.adabound_look(g, a, x, p, r, n, c)
                else:
                    dot, gg, ss = k.sgd_look(g, a if kind == MOMENTUM else b, p, n, c)
            elif kind == ADAM:
                dot, gg, ss = k.adam_observe(g, a, b, p, n, c)
            elif kind == AMSGRAD:
                dot, gg, ss = k.amsgrad_observe(g, a, b, x, p, n, c)
            elif kind == ADABOUND or kind == AMSBOUND:
                dot, gg, ss = k.adabound_observe(g, a, b, x, p, n, c, kind == AMSBOUND)
            elif kind == NESTEROV:
                dot, gg, ss = k.nesterov_observe(g, a, b, p, n, c)
            elif kind == MOMENTUM:
                dot, gg, ss = k.momentum_observe(g, a, p, n, c)
            else:
                dot, gg, ss = k.sgd_observe(g, b, p, n, c)
            out = items[item, OUT] + run - items[item, FIRST]
            sums[out, 0], sums[out, 1], sums[out, 2] = dot, gg, ss
        fetch_add(control, DONE, 1)


@kernel
def move(kind, leaf, items, control, places, constants, last, kappa, slopes, like):
    """Second pass: every parameter moves; with a per-scalar level, its rates and the rule's state do too.

    `last` and `kappa` hold κ's two parts for each cell, at the last step and at this one.
    """
    c = np.empty(k.CONSTANTS, like.dtype)
    while True:
        item = len(items) - 1 - fetch_add(control, TAKEN_2, 1)  # backwards: what was read last is still in the cache
        if item < 0:
            break
        slot, slope = items[item, SLOT], 0.0
        if places[slot, ACTIVE] == 0:
            fetch_add(control, DONE_2, 1)
            continue
        inner, start, n = places[slot, INNER], items[item, START], items[item, STOP] - items[item, START]
        c[:] = constants[slot]
        for run in range(items[item, FIRST], items[item, LAST]):
            at, cell = run * inner + start, places[slot, CELL] + run
            c[k.KAPPA], c[k.OWN], c[k.KAPPA_], c[k.OWN_] = kappa[0, cell], kappa[1, cell], last[0, cell], last[1, cell]
            c[k.LEFT] = 1.0 - np.float64(c[k.DECOUPLED]) * kappa[0, cell]
            p, g = _array(places, slot, P, at, n, like), _array(places, slot, G, at, n, like)
            a, b = _array(places, slot, A, at, n, like), _array(places, slot, B, at, n, like)
            x, r = _array(places, slot, X, at, n, like), _array(places, slot, R, at, n, like)
            if leaf:
                if kind == ADAM or kind == AMSGRAD:
                    slope += k.adam_leaf(g, a, b, x, p, r, n, c, kind == AMSGRAD)
                elif kind == ADABOUND or kind == AMSBOUND:
                    slope += k.adabound_leaf(g, a, b, x, p, r, n, c, kind == AMSBOUND)
                else:
                    slope += k.sgd_leaf(g, a, b, p, r, n, c, kind)
            elif kind == ADAM:
                k.adam_move(a, b, p, n, c)
            elif kind == AMSGRAD:
                k.adam_move(a, x, p, n, c)
            elif kind == ADABOUND:
                k.adabound_move(a, b, p, n, c)
            elif kind == AMSBOUND:
                k.adabound_move(a, x, p, n, c)
            else:
                k.sgd_move(a if kind == MOMENTUM else b, p, n, c)
        slopes[item] = slope
        fetch_add(control, DONE_2, 1)


@kernel
def wait(control, place, count):
    """Until the items that other threads have taken are done."""
    while fetch(control, place) < count:
        pass
