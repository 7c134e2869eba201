"""What a thread does with one work item in each of the two passes of a step with a trace of directions.

Plain SGD and Nesterov keep no direction: the second pass has the gradient still at hand. The sums of θ² that a step
needs are those that the second pass of the step before has left; where something may have written to the parameters
since, the first pass reads them once more. Both sum in the same order, so that it makes no difference which.
"""

from __future__ import annotations

from . import kernels as k
from . import tables as t
from . import trace_loops as loops
from .items import fill, move_chunk, take
from .jit import kernel
from .run_items import PIECE, array_at, move

DOT, GRAD, TRACE, LENGTH = 0, 1, 2, 3  # rows of the sums: g·D, g², D², d²
LONG = 256  # scalars from which on a run is better off by itself
AT_ONCE = 2048  # scalars of a long run that move before their squares are summed up, while the nearest cache has them


@kernel
def _take(kind, e, a, b, x, n, c):
    """The gradient into the rule's state, in which SGD and Nesterov keep no direction here."""
    if kind >= t.ADAM:
        take(kind, e, a, b, x, n, c)
    elif kind != t.SGD:
        k.momentum_take(e, a, n, c)


@kernel
def _direction(kind, e, a, b, x, p, s, n, c):
    """d_t of a piece; from `e`, `a` or a scratch array `s`."""
    if kind == t.SGD:
        return e
    if kind == t.MOMENTUM:
        return a
    if kind == t.NESTEROV:
        loops.nesterov_direction(e, a, s, n, c)
    elif kind == t.ADAM or kind == t.AMSGRAD:
        loops.adam_direction(a, p, s, n, c)
    elif kind == t.ADABOUND:
        loops.adabound_direction(a, b, s, n, c)
    else:
        loops.adabound_direction(a, x, s, n, c)
    return s


@kernel
def _add_squares(p, at, n, inner, row, sizes, c):
    """Σ θ² of a piece into the rows of its runs; `row` is that of the slot's run 0."""
    run, first = at // inner, 0
    if inner >= LONG:
        sizes[row + run] += loops.squares(p, n, c)
        return
    if inner == 1:
        for i in range(n):
            sizes[row + run + i] = p[i] * p[i]
        return
    while first < n:
        last = min(n, (run + 1) * inner - at)
        sizes[row + run] += loops.squares(p[first:last], last - first, c)
        run, first = run + 1, last


@kernel
def _measure(item, chunk, places, c, sizes, like):
    """Σ θ² of an item, in the pieces in which `move_item` goes through it."""
    slot, inner, row = item[t.SLOT], places[item[t.SLOT], t.INNER], item[t.OUT] - item[t.RUN]
    sizes[item[t.OUT] : item[t.OUT] + item[t.LAST_RUN] - item[t.RUN]] = 0.0
    whole = inner < LONG
    for run in range(item[t.RUN], item[t.RUN] + 1 if whole else item[t.LAST_RUN]):
        at = run * inner + item[t.START]
        stop = (item[t.LAST_RUN] - 1 if whole else run) * inner + item[t.STOP]
        while at < stop:
            n = min(chunk if whole else AT_ONCE, stop - at)
            _add_squares(array_at(places, slot, t.P, at, n, like), at, n, inner, row, sizes, c)
            at += n


@kernel
def _meet_runs(e, d, trace, at, n, inner, cell, memory, row, sums, c):
    """The sums of a chunk of short runs into their rows, and their traces take the directions in."""
    run, first = at // inner, 0
    while first < n:
        last = min(n, (run + 1) * inner - at)
        phi = d.dtype.type(memory[cell + run])
        found = loops.meet(e[first:last], d[first:last], trace[first:last], phi, last - first, c)
        for j in range(4):
            sums[j, row + run] += found[j]
        run, first = run + 1, last


@kernel
def _meet_scalars(e, d, trace, n, memory, sums):
    """The same where a run is a single scalar."""
    for i in range(n):
        sums[DOT, i], sums[GRAD, i] = e[i] * trace[i], e[i] * e[i]
        sums[TRACE, i], sums[LENGTH, i] = trace[i] * trace[i], d[i] * d[i]
    for i in range(n):
        trace[i] = d.dtype.type(memory[i]) * trace[i] + d[i]


@kernel
def _take_runs(item, kind, places, c, memory, sums, e, s, like):
    """The first pass over an item of long runs, each of which has one φ."""
    slot, turned = item[t.SLOT], c[k.SIGN] != c[k.ONE] or c[k.L2] != c[k.ZERO]
    inner, cell = places[slot, t.INNER], places[slot, t.CELL]
    at_once = kind == t.ADAM or kind == t.NESTEROV or kind == t.MOMENTUM
    longest = PIECE if at_once and not turned else k.LARGEST_CHUNK
    for run in range(item[t.RUN], item[t.LAST_RUN]):
        at, stop = run * inner + item[t.START], run * inner + item[t.STOP]
        phi, out = like.dtype.type(memory[cell + run]), item[t.OUT] + run - item[t.RUN]
        while at < stop:
            n = min(longest, stop - at)
            p, g = array_at(places, slot, t.P, at, n, like), array_at(places, slot, t.G, at, n, like)
            a, b = array_at(places, slot, t.A, at, n, like), array_at(places, slot, t.B, at, n, like)
            x, trace = array_at(places, slot, t.X, at, n, like), array_at(places, slot, t.T, at, n, like)
            if turned:
                k.gradient(g, p, e, n, c)
                g = e
            if kind == t.ADAM and c[k.DECOUPLED] == c[k.ZERO]:
                found = loops.adam(g, a, b, trace, phi, n, c)
            elif kind == t.ADAM:
                found = loops.adamw(g, a, b, p, trace, phi, n, c)
            elif kind == t.NESTEROV:
                found = loops.nesterov(g, a, trace, phi, n, c)
            elif kind == t.MOMENTUM:
                found = loops.momentum(g, a, trace, phi, n, c)
            else:
                _take(kind, g, a, b, x, n, c)
                found = loops.meet(g, _direction(kind, g, a, b, x, p, s, n, c), trace, phi, n, c)
            for j in range(4):
                sums[j, out] += found[j]
            at += n


@kernel
def take_item(item, chunk, kind, places, c, memory, sums, sizes, stale, e, s, like):
    """The first pass: sums, state and trace of an item; its Σ θ² if what is known of it may be wrong."""
    slot, turned = item[t.SLOT], c[k.SIGN] != c[k.ONE] or c[k.L2] != c[k.ZERO]
    inner, cell, row = places[slot, t.INNER], places[slot, t.CELL], item[t.OUT] - item[t.RUN]
    if stale:
        _measure(item, chunk, places, c, sizes, like)
    sums[:, item[t.OUT] : item[t.OUT] + item[t.LAST_RUN] - item[t.RUN]] = 0.0
    if inner >= LONG:
        _take_runs(item, kind, places, c, memory, sums, e, s, like)
        return
    at, stop = item[t.RUN] * inner + item[t.START], (item[t.LAST_RUN] - 1) * inner + item[t.STOP]
    while at < stop:
        n = min(chunk, stop - at)
        p, g = array_at(places, slot, t.P, at, n, like), array_at(places, slot, t.G, at, n, like)
        a, b = array_at(places, slot, t.A, at, n, like), array_at(places, slot, t.B, at, n, like)
        x, trace = array_at(places, slot, t.X, at, n, like), array_at(places, slot, t.T, at, n, like)
        if turned:
            k.gradient(g, p, e, n, c)
            g = e
        _take(kind, g, a, b, x, n, c)
        d = _direction(kind, g, a, b, x, p, s, n, c)
        if inner == 1:
            _meet_scalars(g, d, trace, n, memory[cell + at : cell + at + n], sums[:, row + at : row + at + n])
        else:
            _meet_runs(g, d, trace, at, n, inner, cell, memory, row, sums, c)
        at += n


@kernel
def _move_run(kind, g, a, b, x, p, kappas, n, c):
    """A long run moves with the one κ in `kappas`; AMSGrad moves as Adam does, AMSBound as AdaBound with another v."""
    if kind == t.AMSGRAD:
        move(t.ADAM, a, b, p, kappas, n, c)
    elif kind == t.AMSBOUND:
        move(t.ADABOUND, a, x, p, kappas, n, c)
    elif kind == t.NESTEROV:
        loops.nesterov_move(g, a, p, c.dtype.type(kappas[0]), n, c)
    else:
        move(kind, a, g if kind == t.SGD else b, p, kappas, n, c)


@kernel
def move_item(item, chunk, kind, places, c, kappa, sizes, e, s, w, like):
    """The second pass: an item moves, and leaves its Σ θ²."""
    slot, turned = item[t.SLOT], c[k.SIGN] != c[k.ONE] or c[k.L2] != c[k.ZERO]
    inner, cell, row = places[slot, t.INNER], places[slot, t.CELL], item[t.OUT] - item[t.RUN]
    sizes[item[t.OUT] : item[t.OUT] + item[t.LAST_RUN] - item[t.RUN]] = 0.0
    whole = inner < LONG
    for run in range(item[t.RUN], item[t.RUN] + 1 if whole else item[t.LAST_RUN]):
        at = run * inner + item[t.START]
        stop = (item[t.LAST_RUN] - 1 if whole else run) * inner + item[t.STOP]
        while at < stop:
            n = min(chunk if whole else AT_ONCE, stop - at)
            p, g = array_at(places, slot, t.P, at, n, like), array_at(places, slot, t.G, at, n, like)
            a, b = array_at(places, slot, t.A, at, n, like), array_at(places, slot, t.B, at, n, like)
            x = array_at(places, slot, t.X, at, n, like)
            if turned and kind < t.ADAM:  # these keep no direction, but the gradient is still there
                k.gradient(g, p, e, n, c)
                g = e
            if whole:
                d = _direction(kind, g, a, b, x, p, s, n, c) if kind < t.ADAM else b
                fill(w, at, n, inner, cell, kappa, kappa, w, False)
                move_chunk(t.SGD if kind < t.ADAM else kind, a, d, x, p, w, n, c)
            else:
                _move_run(kind, g, a, b, x, p, kappa[cell + run : cell + run + 1], n, c)
            _add_squares(p, at, n, inner, row, sizes, c)
            at += n
