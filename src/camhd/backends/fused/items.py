"""What a thread does with one work item in each of the two passes.

An item is a range of runs of one slot, or a part of one long run. Long runs go by one after the other (`run_items`).
Short ones go by many at a time, in chunks that pass through several loops while they are in the nearest cache
(`kernels`); so does everything that has a rate for each scalar.
"""

from __future__ import annotations

from . import kernels as k
from . import tables as t
from .jit import kernel
from .run_items import array_at, goes_by_runs, learn_and_move_runs, move_runs, observe_runs


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
def observe_item(item, chunk, kind, leaf, norms, places, c, kappa, sums, e, s, w, like):
    """Sums of an item; without a per-scalar level the gradient is taken in too."""
    slot = item[t.SLOT]
    inner, cell = places[slot, t.INNER], places[slot, t.CELL]
    at, stop = item[t.RUN] * inner + item[t.START], (item[t.LAST_RUN] - 1) * inner + item[t.STOP]
    row = item[t.OUT] - item[t.RUN]  # of run 0
    sums[:, item[t.OUT] : item[t.OUT] + item[t.LAST_RUN] - item[t.RUN]] = 0.0
    if goes_by_runs(kind, leaf, inner, c):
        observe_runs(item, kind, leaf, places, c, kappa[0], sums, e, like)
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
    if goes_by_runs(kind, leaf, inner, c):
        if leaf:
            return learn_and_move_runs(item, places, c, kappa, e, like)
        move_runs(item, kind, places, c, kappa, like)
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
