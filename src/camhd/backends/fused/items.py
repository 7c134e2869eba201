"""What a thread does with one work item in each of the two passes.

An item is a range of runs of one slot, or a part of one long run. Long runs go by one after the other, each in a few
loops that know its one rate (`runs`). Short ones go by many at a time, in chunks that pass through several loops while
they are in the nearest cache (`kernels`); so does everything that has a rate for each scalar.
"""

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
def fill(w, at, n, inner, cell, kappa, own, r, leaf):
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
    if kind == t.ADAM or kind == t.AMSGRAD:
        k.adam_sense(a, p, w, s, n, c)
    elif kind == t.ADABOUND:
        k.adabound_sense(a, b, w, s, n, c)
    elif kind == t.AMSBOUND:
        k.adabound_sense(a, x, w, s, n, c)
    else:
        k.copy(a if kind == t.MOMENTUM else b, s, n)


@kernel
def take(kind, e, a, b, x, n, c):
    if kind == t.ADAM:
        k.adam_take(e, a, b, n, c)
    elif kind == t.AMSGRAD:
        k.amsgrad_take(e, a, b, x, n, c)
    elif kind >= t.ADABOUND:
        k.moments_take(e, a, b, n, c)
        if kind == t.AMSBOUND:
            k.running_maximum(b, x, n)
    elif kind == t.NESTEROV:
        k.nesterov_take(e, a, b, n, c)
    elif kind == t.MOMENTUM:
        k.momentum_take(e, a, n, c)
    else:
        k.copy(e, b, n)


@kernel
def _sensed(kind, a, b, x, p, w, s, n, c):
    """The sensitivity of a chunk up to `_scale`: state that has it, or the scratch array `s`."""
    if kind <= t.NESTEROV:
        return a if kind == t.MOMENTUM else b
    if kind <= t.AMSGRAD and c[k.DECOUPLED_] == c[k.ZERO]:
        return a
    _sense(kind, a, b, x, p, w, s, n, c)
    return s


@kernel
def _scale(kind, c):
    """What `_sensed` leaves out."""
    return c[k.SCALE_] if t.ADAM <= kind <= t.AMSGRAD and c[k.DECOUPLED_] == c[k.ZERO] else c[k.ONE]


@kernel
def move_chunk(kind, a, b, x, p, w, n, c):
    if c[k.DECOUPLED] != c[k.ZERO]:
        k.decay(p, w, n, c)
    if kind == t.ADAM or kind == t.AMSGRAD:
        k.adam_move(a, p, w, n, c)
    elif kind == t.ADABOUND:
        k.adabound_move(a, b, p, w, n, c)
    elif kind == t.AMSBOUND:
        k.adabound_move(a, x, p, w, n, c)
    else:
        k.sgd_move(a if kind == t.MOMENTUM else b, p, w, n)


@kernel
def _goes_by_runs(kind, leaf, inner, c):
    if leaf:
        return inner >= LONG and kind == t.ADAM and c[k.DECOUPLED] == c[k.DECOUPLED_] == c[k.COSINE] == c[k.ZERO]
    return inner >= LONG and kind != t.AMSGRAD and kind != t.AMSBOUND


@kernel
def _observe_run(kind, leaf, g, a, b, p, kappa, n, c):
    if leaf:
        return runs.adam_products(g, a, n, c)
    if kind == t.ADAM:
        if c[k.DECOUPLED_] == c[k.ZERO]:
            return runs.adam_observe(g, a, b, n, c)
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
def _observe_runs(item, kind, leaf, places, c, kappa, sums, e, like):
    """Sums of an item of long runs; without a per-scalar level the gradient is taken in too."""
    slot, turned = item[t.SLOT], c[k.SIGN] != c[k.ONE] or c[k.L2] != c[k.ZERO]
    inner, cell, longest = places[slot, t.INNER], places[slot, t.CELL], k.LARGEST_CHUNK if turned else PIECE
    each, many = item[t.STOP] - item[t.START], item[t.LAST_RUN] - item[t.RUN]
    if kind == t.ADAM and each <= PIECE and not (leaf or turned) and c[k.DECOUPLED_] == c[k.ZERO]:
        at, n = item[t.RUN] * inner + item[t.START], many * each
        g, a = array_at(places, slot, t.G, at, n, like), array_at(places, slot, t.A, at, n, like)
        b = array_at(places, slot, t.B, at, n, like)
        runs.adam_observe_many(g, a, b, each, sums[:, item[t.OUT] : item[t.OUT] + many], c)
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
            dot, ee, ss = _observe_run(kind, leaf, g, a, b, p, rate, n, c)
            sums[0, out] += dot
            sums[1, out] += ee
            sums[2, out] += ss
            at += n


@kernel
def _move_runs(item, kind, places, c, kappa, like):
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
def _learn_and_move_runs(item, places, c, kappa, e, like):
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


@kernel
def observe_item(item, chunk, kind, leaf, norms, places, c, kappa, sums, e, s, w, like):
    """Sums of an item; without a per-scalar level the gradient is taken in too."""
    slot = item[t.SLOT]
    inner, cell = places[slot, t.INNER], places[slot, t.CELL]
    at, stop = item[t.RUN] * inner + item[t.START], (item[t.LAST_RUN] - 1) * inner + item[t.STOP]
    row = item[t.OUT] - item[t.RUN]  # of run 0
    sums[:, item[t.OUT] : item[t.OUT] + item[t.LAST_RUN] - item[t.RUN]] = 0.0
    if _goes_by_runs(kind, leaf, inner, c):
        _observe_runs(item, kind, leaf, places, c, kappa[0], sums, e, like)
        return
    needs_kappa, turned = (
        c[k.DECOUPLED_] != c[k.ZERO] or kind >= t.ADABOUND,
        c[k.SIGN] != c[k.ONE] or c[k.L2] != c[k.ZERO],
    )
    while at < stop:
        n = min(chunk, stop - at)
        p, g = array_at(places, slot, t.P, at, n, like), array_at(places, slot, t.G, at, n, like)
        a, b = array_at(places, slot, t.A, at, n, like), array_at(places, slot, t.B, at, n, like)
        x, r = array_at(places, slot, t.X, at, n, like), array_at(places, slot, t.R, at, n, like)
        if needs_kappa:
            fill(w, at, n, inner, cell, kappa[0], kappa[1], r, leaf)
        if turned:
            k.gradient(g, p, e, n, c)
            g = e
        _sum(g, _sensed(kind, a, b, x, p, w, s, n, c), at, n, inner, row, sums, c, norms)
        if not leaf:
            take(kind, g, a, b, x, n, c)
        at += n
    scale = _scale(kind, c)
    sums[0, item[t.OUT] : item[t.OUT] + item[t.LAST_RUN] - item[t.RUN]] *= scale
    sums[2, item[t.OUT] : item[t.OUT] + item[t.LAST_RUN] - item[t.RUN]] *= scale * scale


@kernel
def _own_rates(e, s, r, w, at, n, inner, cell, kappa, c):
    """The scalars' own rates of a chunk learn, run by run. Returns their part of ∂f/∂γ."""
    run, first, slope = at // inner, 0, 0.0
    while first < n:
        last = min(n, (run + 1) * inner - at)
        shared, factor = e.dtype.type(kappa[0, cell + run]), e.dtype.type(kappa[1, cell + run])
        part = slice(first, last)
        if c[k.SHRINK] == c[k.ZERO]:
            slope += k.own_rates(e[part], s[part], r[part], w[part], last - first, shared, factor, c)
        else:
            slope += k.own_capped_rates(e[part], s[part], r[part], w[part], last - first, shared, factor, c)
        run, first = run + 1, last
    return slope


@kernel
def move_item(item, chunk, kind, leaf, places, c, kappa, last_kappa, e, s, w, like):
    """The parameter moves; with a per-scalar level, its rates and the rule's state do too. Returns their ∂f/∂γ."""
    slot, slope = item[t.SLOT], 0.0
    inner, cell = places[slot, t.INNER], places[slot, t.CELL]
    at, stop = item[t.RUN] * inner + item[t.START], (item[t.LAST_RUN] - 1) * inner + item[t.STOP]
    needs_kappa, turned = (
        c[k.DECOUPLED_] != c[k.ZERO] or kind >= t.ADABOUND,
        c[k.SIGN] != c[k.ONE] or c[k.L2] != c[k.ZERO],
    )
    if _goes_by_runs(kind, leaf, inner, c):
        if leaf:
            return _learn_and_move_runs(item, places, c, kappa, e, like)
        _move_runs(item, kind, places, c, kappa, like)
        return slope
    one_rate = not leaf and item[t.LAST_RUN] - item[t.RUN] == 1
    if one_rate:
        w[: min(chunk, stop - at)] = kappa[0, cell + item[t.RUN]]
    while at < stop:
        n = min(chunk, stop - at)
        p, g = array_at(places, slot, t.P, at, n, like), array_at(places, slot, t.G, at, n, like)
        a, b = array_at(places, slot, t.A, at, n, like), array_at(places, slot, t.B, at, n, like)
        x, r = array_at(places, slot, t.X, at, n, like), array_at(places, slot, t.R, at, n, like)
        if leaf:
            if needs_kappa:
                fill(w, at, n, inner, cell, last_kappa[0], last_kappa[1], r, leaf)
            if turned:
                k.gradient(g, p, e, n, c)
                g = e
            _sense(kind, a, b, x, p, w, s, n, c)
            take(kind, g, a, b, x, n, c)
            slope += _own_rates(g, s, r, w, at, n, inner, cell, kappa, c)
        elif not one_rate:
            fill(w, at, n, inner, cell, kappa[0], kappa[1], r, leaf)
        move_chunk(kind, a, b, x, p, w, n, c)
        at += n
    return slope
