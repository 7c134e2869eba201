"""The long-horizon rule on vectors of cells and rates: `camhd.hyper.LongHorizon` and `camhd.tree.bounds` once more.

In one call without a torch operation, in float64, and in the order of docs/default-rule.md. A cell is the part of one
tensor that shares all rates; its layer is that of its slot.
"""

from __future__ import annotations

import numpy as np

from . import tables
from .jit import kernel, kernel_for_python
from .learning import ONE_GROUP, ROW_BY_ROW
from .trace_items import DOT, GRAD, LENGTH, TRACE

SIZE = 4  # Σ θ², after the four sums of the first pass
CELL_ROWS = 5
# The rule's settings, by their place in `horizon`.
MEMORY, FAST, STEADY, PATIENCE, FAVOUR, SETTLE, SPREAD, BOOST, SMALL, TIE, REACH = range(11)
FIRST, BOUND, FLOOR, SUDDEN, RECENT, SQUARES = range(11, 17)
HORIZON = 17
SQUARE, SEEN, AGAINST, PEAK, SLOPE, PAST_SLOPE = range(6)  # rows of the rule's state
STATE = ("square", "seen", "against", "peak", "slope", "past_slope")
STATE_ROWS = len(STATE)
# Rows of `work`: for each rate, sums over its group and what it is to become.
PULL, GRADS, TRACES, FACTORS, MOVED, SIZES, LOGS, NUMBERS, RATE, NEW = range(10)  # the rule's state from NEW on
WORK_ROWS = NEW + STATE_ROWS
LAYER_LENGTH, LAYER_SIZE, LAYER_MOVED, USUAL, CAP, PART = range(6)  # rows of `layers`
LAYER_ROWS = 6


@kernel
def _end(places, slot, cells):
    return places[slot + 1, tables.CELL] if slot + 1 < len(places) else cells


@kernel
def _into_cells(rows, count, pieces, found):
    """Sums of runs, which a long run has in pieces, into its cells."""
    for i in range(count):
        total = 0.0
        for piece in range(pieces):
            total += rows[i * pieces + piece]
        found[i] = total


@kernel_for_python
def gather(places, sums, sizes, cells):
    """Sums of runs into cells; 0 for slots that have no gradient."""
    for slot in range(len(places)):
        first, row, pieces = places[slot, tables.CELL], places[slot, tables.ROW], places[slot, tables.ROWS]
        end = _end(places, slot, cells.shape[1])
        if places[slot, tables.ACTIVE] == 0:
            cells[:, first:end] = 0.0
            continue
        for j in range(SIZE):
            _into_cells(sums[j, row:], end - first, pieces, cells[j, first:end])
        _into_cells(sizes[row:], end - first, pieces, cells[SIZE, first:end])


@kernel
def measure(places, cells, kappa, usual, layer_of, layers, horizon):
    """What the sums mean: nothing of a trace that has not moved anything; weights are at least so large; by layer."""
    layers[:] = 0.0
    floor = horizon[FLOOR] ** 2
    for slot in range(len(places)):
        layer, least = layer_of[slot], floor * places[slot, tables.INNER]
        for cell in range(places[slot, tables.CELL], _end(places, slot, cells.shape[1])):
            if not kappa[cell] > 0:
                cells[DOT, cell] = cells[GRAD, cell] = cells[TRACE, cell] = 0.0
            cells[SIZE, cell] = max(cells[SIZE, cell], least) if cells[LENGTH, cell] > 0 else 0.0
            layers[LAYER_LENGTH, layer] += cells[LENGTH, cell]
            layers[LAYER_SIZE, layer] += cells[SIZE, cell]
            layers[LAYER_MOVED, layer] += kappa[cell]
            layers[USUAL, layer] = max(layers[USUAL, layer], usual[cell])


@kernel
def _add(work, at, factor, chain, dot, grads, traces, moved, sizes):
    work[PULL, at] += factor * dot
    work[GRADS, at] += grads
    work[TRACES, at] += traces
    work[FACTORS, at] += chain * chain * traces
    work[MOVED, at] += moved
    work[SIZES, at] += sizes


@kernel
def sum_up(places, cells, kappa, form, base, index, rates, last, learned, beta, slope, work):
    """Σ over every group of every level, and ∂f/∂γ; whether all of g·D is finite."""
    work[: SIZES + 1] = 0.0
    slope[:] = 0.0
    finite = True
    for slot in range(len(places)):
        first, group = places[slot, tables.CELL], places[slot, tables.GROUP]
        end, chain = _end(places, slot, cells.shape[1]), -last[group, learned]
        dot, grads, traces, moved, sizes = 0.0, 0.0, 0.0, 0.0, 0.0
        for cell in range(first, end):
            dot += cells[DOT, cell]
            grads += cells[GRAD, cell]
            traces += cells[TRACE, cell]
            moved += np.float64(kappa[cell]) ** 2 * cells[LENGTH, cell]
            sizes += cells[SIZE, cell]
        finite &= np.isfinite(dot)
        for i in range(len(form)):
            factor, at = chain * beta[i, group], base[i, slot]
            if form[i, slot] == ONE_GROUP:
                _add(work, at, factor, chain, dot, grads, traces, moved, sizes)
                slope[i] += chain * rates[at] * dot
                continue
            for cell in range(first, end):
                at = base[i, slot] + (cell - first if form[i, slot] == ROW_BY_ROW else index[i, cell])
                step = np.float64(kappa[cell]) ** 2 * cells[LENGTH, cell]
                of_cell = cells[:, cell]
                _add(work, at, factor, chain, of_cell[DOT], of_cell[GRAD], of_cell[TRACE], step, of_cell[SIZE])
                slope[i] += chain * rates[at] * of_cell[DOT]
    return finite and np.isfinite(slope).all()


@kernel
def propose(rates, state, parents, horizon, bounds, caps, work):
    """What every rate and the rule's state become, into `work`; whether all of it is finite."""
    finite, power_of, power = True, -1.0, 0.0
    for at in range(len(rates)):
        rate, traces = np.float64(rates[at]), work[TRACES, at]
        work[RATE, at], work[NEW:WORK_ROWS, at] = rate, state[:, at]
        factor = np.sqrt(work[FACTORS, at] / traces) if traces > 0 else 0.0
        norm = np.sqrt(work[GRADS, at]) * np.sqrt(traces) * factor
        cosine = -work[PULL, at] / norm if norm > 0 else -work[PULL, at]
        if norm > 0 and cosine != 0:
            seen = state[SEEN, at] + 1.0
            square = horizon[SPREAD] * state[SQUARE, at] + (1 - horizon[SPREAD]) * cosine * cosine
            if seen != power_of:  # nearly all rates have seen equally much
                power_of, power = seen, 1 - horizon[SPREAD] ** seen
            y = min(max(cosine / np.sqrt(square / power), -1.0), 1.0)
            least = seen * min(seen / horizon[SETTLE], 1.0)
            against = max(state[AGAINST, at] + (2.0 if cosine < 0 else -horizon[FAVOUR]), least)
            fading = 1 / (1 + against / horizon[PATIENCE])
            sizes = work[SIZES, at]
            moved = np.sqrt(work[MOVED, at] / (sizes if sizes > 0 else 1.0))
            beta = horizon[FAST] * fading * (1 + horizon[BOOST] * fading * horizon[SMALL] / (horizon[SMALL] + moved))
            above = np.float64(rates[parents[at]]) if parents[at] >= 0 else 0.0
            if rate > 0 and above > 0:
                apart = np.log(rate / above)
                if y > 0 and apart > 0:
                    way = rate / horizon[REACH] * np.sqrt(traces / (sizes if sizes > 0 else 1.0))
                    y /= 1 + min(apart, 1.0) * way * way
                y -= horizon[TIE] * apart
            leading, peak = min(factor, 1.0) * beta * y, np.float64(state[PEAK, at])
            step = leading + min(factor, 1.0) * horizon[STEADY] * cosine
            if not np.isfinite(step):
                finite = False
            highest = max(peak, rate * (1 + max(leading, 0.0)))
            work[RATE, at] = min(rate * (1 + min(max(step, -0.5), 0.5)), highest)
            work[NEW + SQUARE, at], work[NEW + SEEN, at], work[NEW + AGAINST, at] = square, seen, against
            work[NEW + PEAK, at] = max(peak, work[RATE, at])
            slope = np.sqrt(work[GRADS, at])
            work[NEW + SLOPE, at] = horizon[SPREAD] * state[SLOPE, at] + (1 - horizon[SPREAD]) * slope
            work[NEW + PAST_SLOPE, at] = horizon[MEMORY] * state[PAST_SLOPE, at] + (1 - horizon[MEMORY]) * slope
        finite &= np.isfinite(work[RATE, at]) and np.isfinite(work[NEW + SQUARE, at])
        if rate > 0:  # from 0 every change is infinite
            work[RATE, at] = min(max(work[RATE, at], rate / caps[at]), rate * caps[at])
        work[RATE, at] = min(max(work[RATE, at], bounds[0]), bounds[1])
    return finite


@kernel
def square_weight(state, horizon):
    """What g² counts for in second moments at the next step, at least: what the root says, which is the first rate."""
    seen = state[SEEN, 0]
    return horizon[SQUARES] * state[SQUARE, 0] / (1 - horizon[SPREAD] ** seen) if seen > 0 else 0.0


@kernel
def limit(layers, horizon):
    """The largest α* of each layer, infinite where there is nothing to bound; what is taken of its step, and is usual.

    All of it, unless the direction is suddenly long.
    """
    for layer in range(layers.shape[1]):
        length, most = layers[LAYER_LENGTH, layer], np.inf
        layers[PART, layer] = 1.0
        if length > 0:
            part = horizon[BOUND] if layers[LAYER_MOVED, layer] > 0 else horizon[FIRST]
            most = np.sqrt(layers[LAYER_SIZE, layer] / length) * part
            length = np.sqrt(length)
            if np.isfinite(length):
                usual = layers[USUAL, layer] if layers[USUAL, layer] > 0 else length
                taken = min(length, horizon[SUDDEN] * usual)
                layers[USUAL, layer] = horizon[RECENT] * usual + (1 - horizon[RECENT]) * taken
                layers[PART, layer] = taken / length
        layers[CAP, layer] = most if np.isfinite(most) else np.inf


@kernel
def pull_down(places, cells, form, base, index, rates, layer_of, layers, min_lr, work):
    """No rate stays above the bound of its layers, or of several the geometric mean by size; nor below its own."""
    work[LOGS : NUMBERS + 1] = 0.0
    for slot in range(len(places)):
        cap = layers[CAP, layer_of[slot]]
        if places[slot, tables.ACTIVE] == 0 or not 0 < cap < np.inf:
            continue
        first, end, size = places[slot, tables.CELL], _end(places, slot, cells), np.float64(places[slot, tables.INNER])
        log = np.log(cap)
        for i in range(len(form)):
            if form[i, slot] == ONE_GROUP:
                work[LOGS, base[i, slot]] += log * size * (end - first)
                work[NUMBERS, base[i, slot]] += size * (end - first)
                continue
            for cell in range(first, end):
                at = base[i, slot] + (cell - first if form[i, slot] == ROW_BY_ROW else index[i, cell])
                work[LOGS, at] += log * size
                work[NUMBERS, at] += size
    for at in range(len(rates)):
        if work[NUMBERS, at] > 0:
            rates[at] = min(np.float64(rates[at]), max(np.exp(work[LOGS, at] / work[NUMBERS, at]), min_lr))


@kernel
def hand_down(
    places, form, base, index, rates, gamma, now, learned, given, layer_of, layers, last_alpha, memory, usual, kept,
    kappa,
):  # fmt: skip
    """κ of every cell that moves, within its bound; what its trace keeps of itself at the next step, and is usual."""
    cells = kappa.shape[1]
    for slot in range(len(places)):
        first, group, layer = places[slot, tables.CELL], places[slot, tables.GROUP], layer_of[slot]
        cap, part = layers[CAP, layer], layers[PART, layer]
        usual[first : _end(places, slot, cells)] = layers[USUAL, layer]
        if places[slot, tables.ACTIVE] == 0:
            continue
        for cell in range(first, _end(places, slot, cells)):
            alpha = 0.0
            for i in range(len(form)):
                at = base[i, slot]
                if form[i, slot] != ONE_GROUP:
                    at += cell - first if form[i, slot] == ROW_BY_ROW else index[i, cell]
                alpha += gamma[i] * rates[at]
            alpha = min(alpha, cap) * part
            before = np.float64(last_alpha[cell])
            memory[cell] = kept * (before / alpha if before > 0 and alpha > before else 1.0)
            last_alpha[cell] = alpha
            kappa[0, cell] = now[group, learned] * alpha + now[group, given]
