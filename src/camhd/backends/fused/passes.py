"""The two passes over all parameters: work items, each a piece of one parameter, taken by whichever thread is free.

An item is a range of runs of one slot, or a part of one long run. A run is one cell: a stretch of memory whose scalars
share all rates above the per-scalar level. What items there are does not depend on how many threads take them, so
neither do the sums.

Each thread has a range of items of its own, the same at every step, because they may still be in its core's cache;
when it is through with them it takes what other threads have left. The second pass goes through a range backwards:
what the first one read last is still in the cache.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from . import kernels as k
from .jit import fetch, fetch_add, kernel, number_from, pointer, store

SGD, MOMENTUM, NESTEROV, ADAM, AMSGRAD, ADABOUND, AMSBOUND = 0, 1, 2, 3, 4, 5, 6
SLOT, RUN, LAST_RUN, START, STOP, OUT = 0, 1, 2, 3, 4, 5  # columns of `items`
ITEM_COLUMNS = 6
# Columns of `places`: addresses of a slot's arrays; then the length of a run, the first cell, whether it takes part,
# the param group, the first row of its sums and how many rows a run has.
P, G, A, B, X, R, INNER, CELL, ACTIVE, GROUP, ROW, ROWS = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
PLACE_COLUMNS = 12
# Places in `control`, each in a cache line of its own; after them two counters for each thread's range.
PHASE, DONE, DONE_2, HELPERS, COUNTERS, LINE = 0, 8, 16, 24, 32, 8
OBSERVING, MOVING = 1, 2  # phases


@kernel
def _array(places, slot, column, start, n, like):
    return carray(pointer(places[slot, column] + start * like.itemsize, like), n)


@kernel
def wait(control, place, least, pause):
    """Until another thread has brought a number in `control` so far."""
    tries = 0
    while fetch(control, place) < least:
        tries += 1
        if tries > 4000 and pause != 0:
            number_from(pause)


@kernel
def start(control, phase, threads):
    """Let a pass begin. Until then no thread finds an item in it, however late it comes from the step before."""
    control[DONE if phase == OBSERVING else DONE_2] = 0
    for whose in range(threads):
        store(control, COUNTERS + 2 * LINE * whose + (0 if phase == OBSERVING else LINE), 0)
    store(control, PHASE, phase)


@kernel
def _fill(w, at, n, inner, cell, kappa, own, r, leaf):
    """κ of each scalar of a chunk that begins at `at` within its slot."""
    run, first = at // inner, 0
    if inner == 1:
        shared, factor = kappa[cell + run : cell + run + n], own[cell + run : cell + run + n]
        for i in range(n):
            w[i] = shared[i] + factor[i] * r[i] if leaf else shared[i]
        return
    while first < n:
        last = min(n, (run + 1) * inner - at)
        part, rates = w[first:last], r[first:last]
        if leaf:
            for i in range(last - first):
                part[i] = kappa[cell + run] + own[cell + run] * rates[i]
        else:
            part[:] = kappa[cell + run]
        run, first = run + 1, last


@kernel
def _sum(e, s, at, n, inner, row, sums, c, norms):
    """The products of a chunk into the rows of its runs; `row` is that of the slot's run 0."""
    run, first = at // inner, 0
    if inner == 1:
        dots, squares, moves = sums[0, row + run :], sums[1, row + run :], sums[2, row + run :]
        for i in range(n):
            dots[i] = e[i] * s[i]
        if norms:
            for i in range(n):
                squares[i] = e[i] * e[i]
                moves[i] = s[i] * s[i]
        return
    while first < n:
        last = min(n, (run + 1) * inner - at)
        dot, ee, ss = k.products(e[first:last], s[first:last], last - first, c, norms)
        sums[0, row + run] += dot
        sums[1, row + run] += ee
        sums[2, row + run] += ss
        run, first = run + 1, last


@kernel
def _sense(kind, a, b, x, p, w, s, n, c):
    if kind == ADAM:
        k.adam_sense(a, b, p, w, s, n, c)
    elif kind == AMSGRAD:
        k.adam_sense(a, x, p, w, s, n, c)
    elif kind == ADABOUND:
        k.adabound_sense(a, b, w, s, n, c)
    elif kind == AMSBOUND:
        k.adabound_sense(a, x, w, s, n, c)
    else:
        k.copy(a if kind == MOMENTUM else b, s, n)


@kernel
def _take(kind, e, a, b, x, n, c):
    if kind >= ADAM:
        k.adam_take(e, a, b, n, c)
        if kind == AMSGRAD or kind == AMSBOUND:
            k.running_maximum(b, x, n)
    elif kind == NESTEROV:
        k.nesterov_take(e, a, b, n, c)
    elif kind == MOMENTUM:
        k.momentum_take(e, a, n, c)
    else:
        k.copy(e, b, n)


@kernel
def _sense_and_take(kind, e, a, b, x, p, w, s, n, c):
    if kind == ADAM and c[k.DECOUPLED_] == c[k.ZERO]:
        k.adam_sense_and_take(e, a, b, s, n, c)
    else:
        _sense(kind, a, b, x, p, w, s, n, c)
        _take(kind, e, a, b, x, n, c)


@kernel
def _move(kind, a, b, x, p, w, n, c):
    if c[k.DECOUPLED] != c[k.ZERO]:
        k.decay(p, w, n, c)
    if kind == ADAM:
        k.adam_move(a, b, p, w, n, c)
    elif kind == AMSGRAD:
        k.adam_move(a, x, p, w, n, c)
    elif kind == ADABOUND:
        k.adabound_move(a, b, p, w, n, c)
    elif kind == AMSBOUND:
        k.adabound_move(a, x, p, w, n, c)
    else:
        k.sgd_move(a if kind == MOMENTUM else b, p, w, n)


@kernel
def _observe_item(item, chunk, kind, leaf, norms, places, c, kappa, sums, e, s, w, like):
    """Sums of an item; without a per-scalar level the gradient is taken in too."""
    slot = item[SLOT]
    inner, cell = places[slot, INNER], places[slot, CELL]
    at, stop = item[RUN] * inner + item[START], (item[LAST_RUN] - 1) * inner + item[STOP]
    row = item[OUT] - item[RUN]  # of run 0
    sums[:, item[OUT] : item[OUT] + item[LAST_RUN] - item[RUN]] = 0.0
    needs_kappa, turned = (
        c[k.DECOUPLED_] != c[k.ZERO] or kind >= ADABOUND,
        c[k.SIGN] != c[k.ONE] or c[k.L2] != c[k.ZERO],
    )
    while at < stop:
        n = min(chunk, stop - at)
        p, g = _array(places, slot, P, at, n, like), _array(places, slot, G, at, n, like)
        a, b = _array(places, slot, A, at, n, like), _array(places, slot, B, at, n, like)
        x, r = _array(places, slot, X, at, n, like), _array(places, slot, R, at, n, like)
        if needs_kappa:
            _fill(w, at, n, inner, cell, kappa[0], kappa[1], r, leaf)
        if turned:
            k.gradient(g, p, e, n, c)
            g = e
        if leaf:
            _sense(kind, a, b, x, p, w, s, n, c)
        else:
            _sense_and_take(kind, g, a, b, x, p, w, s, n, c)
        _sum(g, s, at, n, inner, row, sums, c, norms)
        at += n


@kernel
def _own_rates(e, s, r, w, at, n, inner, cell, kappa, c):
    """The scalars' own rates of a chunk learn, run by run. Returns their part of ∂f/∂γ."""
    run, first, slope = at // inner, 0, 0.0
    while first < n:
        last = min(n, (run + 1) * inner - at)
        shared, factor = e.dtype.type(kappa[0, cell + run]), e.dtype.type(kappa[1, cell + run])
        part = slice(first, last)
        slope += k.own_rates(e[part], s[part], r[part], w[part], last - first, shared, factor, c)
        run, first = run + 1, last
    return slope


@kernel
def _move_item(item, chunk, kind, leaf, places, c, kappa, last_kappa, e, s, w, like):
    """The parameter moves; with a per-scalar level, its rates and the rule's state do too. Returns their ∂f/∂γ."""
    slot, slope = item[SLOT], 0.0
    inner, cell = places[slot, INNER], places[slot, CELL]
    at, stop = item[RUN] * inner + item[START], (item[LAST_RUN] - 1) * inner + item[STOP]
    needs_kappa, turned = (
        c[k.DECOUPLED_] != c[k.ZERO] or kind >= ADABOUND,
        c[k.SIGN] != c[k.ONE] or c[k.L2] != c[k.ZERO],
    )
    one_rate = not leaf and item[LAST_RUN] - item[RUN] == 1
    if one_rate:
        w[:] = kappa[0, cell + item[RUN]]
    while at < stop:
        n = min(chunk, stop - at)
        p, g = _array(places, slot, P, at, n, like), _array(places, slot, G, at, n, like)
        a, b = _array(places, slot, A, at, n, like), _array(places, slot, B, at, n, like)
        x, r = _array(places, slot, X, at, n, like), _array(places, slot, R, at, n, like)
        if leaf:
            if needs_kappa:
                _fill(w, at, n, inner, cell, last_kappa[0], last_kappa[1], r, leaf)
            if turned:
                k.gradient(g, p, e, n, c)
                g = e
            _sense_and_take(kind, g, a, b, x, p, w, s, n, c)
            slope += _own_rates(g, s, r, w, at, n, inner, cell, kappa, c)
        elif not one_rate:
            _fill(w, at, n, inner, cell, kappa[0], kappa[1], r, leaf)
        _move(kind, a, b, x, p, w, n, c)
        at += n
    return slope


@kernel
def observe(me, threads, chunk, kind, leaf, norms, control, ranges, items, places, constants, kappa, sums, like):
    """First pass: Σ g·s, Σ g², Σ s² of every run of the items this thread takes."""
    e, s, w = (
        np.empty(k.LARGEST_CHUNK, like.dtype),
        np.empty(k.LARGEST_CHUNK, like.dtype),
        np.empty(k.LARGEST_CHUNK, like.dtype),
    )
    for turn in range(threads):
        whose = (me + turn) % threads
        first, count = ranges[whose], ranges[whose + 1] - ranges[whose]
        while True:
            taken = fetch_add(control, COUNTERS + 2 * LINE * whose, 1)
            if taken >= count:
                break
            item = items[first + taken]
            slot = item[SLOT]
            if places[slot, ACTIVE] != 0:
                _observe_item(item, chunk, kind, leaf, norms, places, constants[slot], kappa, sums, e, s, w, like)
            fetch_add(control, DONE, 1)


@kernel
def move(me, threads, chunk, kind, leaf, control, ranges, items, places, constants, kappa, last_kappa, slopes, like):
    """Second pass: every parameter moves."""
    e, s, w = (
        np.empty(k.LARGEST_CHUNK, like.dtype),
        np.empty(k.LARGEST_CHUNK, like.dtype),
        np.empty(k.LARGEST_CHUNK, like.dtype),
    )
    for turn in range(threads):
        whose = (me + turn) % threads
        last, count = ranges[whose + 1] - 1, ranges[whose + 1] - ranges[whose]
        while True:
            taken = fetch_add(control, COUNTERS + 2 * LINE * whose + LINE, 1)
            if taken >= count:
                break
            number = last - taken
            item = items[number]
            slot = item[SLOT]
            if places[slot, ACTIVE] != 0:
                c = constants[slot]
                slope = _move_item(item, chunk, kind, leaf, places, c, kappa, last_kappa, e, s, w, like)
                slopes[number] = slope
            fetch_add(control, DONE_2, 1)
