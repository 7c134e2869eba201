"""A whole step, as each of its threads lives through it; and what one of them does between the passes."""

from __future__ import annotations

import numpy as np
from numba import carray

from . import block as at
from . import kernels as k
from . import learning as tree
from . import passes, tables
from .jit import kernel, pointer

# What a param group says at one step, by its place in a row of `now` and `last`.
SIGN, L2, DECOUPLED, B1, B2, EPS = 0, 1, 2, 3, 4, 5
MU, DAMP = 3, 4  # SGD: momentum, 1 − dampening
FINAL, RATE, PAPER, SQRT = 6, 7, 8, 9  # AdaBound: c·f, γ, whether the paper's bound, whether /√t
LEARNED, GIVEN, OWN_BETA, OWN_CAP = 10, 11, 12, 13  # c τ, c (1 − τ) α_∞, β and cap of the scalars' own rates
OPTIONS = 14
MIN_LR, MAX_LR, COMBINE_LR, SQUARES = 0, 1, 2, 3  # in `settings`; what g² counts for in v̂, at least
SETTINGS = 4
NOTHING_BEHIND, LEARNED_WELL, NOT_FINITE, NOT_RUN = 0, 1, 2, 3  # outcomes; the last one until there is another

WHOLE, REAL, BYTE = np.zeros(0, np.int64), np.zeros(0, np.float64), np.zeros(0, np.uint8)
STEP = np.zeros(0, np.float32)


@kernel
def numbers(block, place, n, like):
    return carray(pointer(block[place], like), n)


@kernel
def table(block, place, rows, columns, like):
    return carray(pointer(block[place], like), (rows, columns))


@kernel
def _bounds(c, options, t, low, high, slow):
    if options[RATE] > 0:
        c[low] = options[FINAL] * (1 - 1 / (options[RATE] * t + 1))
        c[high] = options[FINAL] * (1 + 1 / (options[RATE] * t + options[PAPER]))
        c[slow] = 1 / np.sqrt(t) if options[SQRT] > 0 else 1.0


@kernel
def _correction(options, t, corrected):
    """√(1 − β₂ᵗ), by which √v is too small in the first steps."""
    return np.sqrt(1 - options[B2] ** t) if corrected else 1.0


@kernel
def _take_squares(c, options, t, least):
    """What v keeps of itself and takes of g² (`camhd.rules.adam.square_shares`)."""
    c[k.B2], c[k.OMB2] = options[B2], 1 - options[B2]
    left = 1 - options[B2] ** t
    weight = min((1 - options[B1]) / (1 - options[B1] ** t), least)
    if weight > (1 - options[B2]) / left:
        before = max(1 - options[B2] ** (t - 1), 1 - options[B2])  # at the first step nothing is kept
        c[k.B2], c[k.OMB2] = (1 - weight) * left / before, weight * left


@kernel
def _prepare(kind, cosine, gamma_leaf, constants, steps, places, moved, first, now, last, settings):
    """The constants of every slot that takes part: this step's and the last one's. Counts the step."""
    for slot in range(len(places)):
        if places[slot, tables.ACTIVE] == 0:
            continue
        group = places[slot, tables.GROUP]
        c, new, old, back = constants[slot], now[group], last[group], moved[slot] != 0
        c[k.SIGN], c[k.L2] = new[SIGN], new[L2]
        c[k.DECOUPLED], c[k.DECOUPLED_] = new[DECOUPLED], old[DECOUPLED] if back else 0.0
        c[k.CHAIN], c[k.BETA] = old[LEARNED], new[OWN_BETA] * (1.0 if cosine else gamma_leaf)
        c[k.MIN_LR], c[k.MAX_LR], c[k.COSINE] = settings[MIN_LR], settings[MAX_LR], cosine
        c[k.GROW], c[k.SHRINK] = new[OWN_CAP], 1 / new[OWN_CAP]
        c[k.LEARNS] = back
        if kind <= tables.NESTEROV:
            c[k.B1], c[k.OMB1], c[k.B2] = new[MU], new[DAMP], new[MU]
            if first[slot]:  # the buffer starts as the gradient itself
                c[k.B1], c[k.OMB1] = 0.0, 1.0
                first[slot] = 0
            continue
        t = np.float64(steps[slot])
        corrected = kind < tables.ADABOUND  # Adam's ε stands beside √v̂
        c[k.EPS_], c[k.SCALE_] = old[EPS] * _correction(old, t, corrected), 0.0
        if back and t > 0:
            c[k.SCALE_] = _correction(old, t, True) / (1 - old[B1] ** t)
            _bounds(c, old, t, k.LOW_, k.HIGH_, k.SLOW_)
        t += 1
        steps[slot] = t
        c[k.B1], c[k.OMB1] = new[B1], 1 - new[B1]
        largest = kind == tables.AMSGRAD or kind == tables.AMSBOUND  # a maximum never forgets
        _take_squares(c, new, t, 0.0 if largest else settings[SQUARES])
        c[k.EPS], c[k.SCALE] = new[EPS] * _correction(new, t, corrected), _correction(new, t, True) / (1 - new[B1] ** t)
        _bounds(c, new, t, k.LOW, k.HIGH, k.SLOW)


@kernel
def _learn(block, like):
    """Lines 2 to 5: rates learn, γ learns (unless scalars' own rates still have to say theirs), κ at every cell."""
    slots, cells = block[at.SLOT_COUNT], block[at.CELL_COUNT]
    groups, levels = block[at.GROUP_COUNT], block[at.LEVEL_COUNT]
    places, moved = (
        table(block, at.PLACES, slots, tables.PLACE_COLUMNS, WHOLE),
        numbers(block, at.MOVED, slots, BYTE),
    )
    now, settings = table(block, at.NOW, groups, OPTIONS, REAL), numbers(block, at.SETTINGS, SETTINGS, REAL)
    count, combine, cosine, leaf = block[at.RATE_COUNT], block[at.COMBINE], block[at.COSINE] != 0, block[at.LEAF] != 0
    weights = numbers(block, at.WEIGHTS, levels + leaf, like)
    last_weights = numbers(block, at.LAST_WEIGHTS, levels + leaf, like)
    rates = numbers(block, at.RATES, count, like)
    form, base = table(block, at.FORM, levels, slots, WHOLE), table(block, at.BASE, levels, slots, WHOLE)
    index, slope = table(block, at.INDEX, levels, cells, WHOLE), numbers(block, at.SLOPE, levels + leaf, REAL)
    gamma, old_weights = tree.gammas(weights, combine), weights.copy()
    block[at.OUTCOME] = NOTHING_BEHIND
    if block[at.LOOKS_BACK] != 0:
        sums, of_cells = table(block, at.SUMS, 3, block[at.ROW_COUNT], REAL), table(block, at.CELLS, 3, cells, REAL)
        work = table(block, at.WORK, 4, count, REAL)
        tree.gather(places, moved, sums, of_cells, cells, cosine)
        finite = tree.learn(
            places, of_cells, form, base, index, rates, numbers(block, at.SCALES, count, REAL),
            table(block, at.LAST, groups, OPTIONS, REAL), LEARNED, table(block, at.BETA, levels, groups, REAL),
            gamma, cosine, settings, numbers(block, at.CAPS, count, REAL), slope, work,
        )  # fmt: skip
        if combine != tree.FIXED and settings[COMBINE_LR] > 0 and not leaf:
            candidate = tree.new_weights(weights, slope, settings[COMBINE_LR], combine)
            finite &= np.isfinite(candidate).all()
            if finite:
                weights[:] = candidate
        if finite:
            rates[:] = work[3]
        block[at.OUTCOME] = LEARNED_WELL if finite else NOT_FINITE
    if block[at.OUTCOME] != LEARNED_WELL:
        table(block, at.CONSTANTS, slots, k.CONSTANTS, like)[:, k.LEARNS] = 0.0  # no scalar's own rate moves either
    last_weights[:] = old_weights
    kappa = table(block, at.KAPPA, 2, cells, REAL)
    tree.spread(places, form, base, index, rates, gamma, now, LEARNED, GIVEN, kappa)


@kernel
def _finish(block, items, places, moved, settings, like):
    """γ learns after the second pass, which is where the scalars' own rates say their part of ∂f/∂γ."""
    count, combine = block[at.LEVEL_COUNT] + 1, block[at.COMBINE]
    slopes, slope = numbers(block, at.SLOPES, len(items), REAL), numbers(block, at.SLOPE, count, REAL)
    for item in range(len(items)):
        slot = items[item, tables.SLOT]
        if places[slot, tables.ACTIVE] != 0 and moved[slot] != 0:
            slope[-1] += slopes[item]
    if combine != tree.FIXED and settings[COMBINE_LR] > 0:
        weights = numbers(block, at.WEIGHTS, count, like)
        candidate = tree.new_weights(weights, slope, settings[COMBINE_LR], combine)
        if np.isfinite(candidate).all():
            weights[:] = candidate


@kernel
def open_step(block, control, like):
    """Thread 0 makes everything ready for the first pass and lets it begin."""
    # What was κ is the last one's now.
    block[at.KAPPA], block[at.LAST_KAPPA] = block[at.LAST_KAPPA], block[at.KAPPA]
    slots, groups, gamma_leaf = block[at.SLOT_COUNT], block[at.GROUP_COUNT], 0.0
    if block[at.LEAF] != 0:
        weights = numbers(block, at.WEIGHTS, block[at.LEVEL_COUNT] + 1, like)
        gamma_leaf = tree.gammas(weights, block[at.COMBINE])[-1]
    _prepare(
        block[at.KIND], block[at.COSINE], gamma_leaf, table(block, at.CONSTANTS, slots, k.CONSTANTS, like),
        numbers(block, at.STEPS, slots, STEP), table(block, at.PLACES, slots, tables.PLACE_COLUMNS, WHOLE),
        numbers(block, at.MOVED, slots, BYTE), numbers(block, at.FIRST, slots, BYTE),
        table(block, at.NOW, groups, OPTIONS, REAL), table(block, at.LAST, groups, OPTIONS, REAL),
        numbers(block, at.SETTINGS, SETTINGS, REAL),
    )  # fmt: skip
    passes.start(control, passes.OBSERVING, block[at.THREADS])


@kernel
def _close(block, items, places, moved, like):
    """Thread 0 sees that all parameters have moved, and notes what the next step looks back on."""
    groups = block[at.GROUP_COUNT]
    if block[at.LEAF] != 0 and block[at.OUTCOME] == LEARNED_WELL:
        _finish(block, items, places, moved, numbers(block, at.SETTINGS, SETTINGS, REAL), like)
    for slot in range(len(places)):
        moved[slot] = places[slot, tables.ACTIVE] != 0
    table(block, at.LAST, groups, OPTIONS, REAL)[:] = table(block, at.NOW, groups, OPTIONS, REAL)


@kernel
def work(block, me, like):
    """One thread's part of a step. Thread 0 makes the step; the others help with the passes."""
    kind, leaf, threads, do, chunk = (
        block[at.KIND], block[at.LEAF] != 0, block[at.THREADS], block[at.DO], block[at.CHUNK]
    )  # fmt: skip
    slots, cells, pause = block[at.SLOT_COUNT], block[at.CELL_COUNT], block[at.PAUSE]
    control = numbers(block, at.CONTROL, passes.COUNTERS + 2 * passes.LINE * threads, WHOLE)
    ranges = numbers(block, at.RANGES, threads + 1, WHOLE)
    items = table(block, at.ITEMS, block[at.ITEM_COUNT], tables.ITEM_COLUMNS, WHOLE)
    places = table(block, at.PLACES, slots, tables.PLACE_COLUMNS, WHOLE)
    constants = table(block, at.CONSTANTS, slots, k.CONSTANTS, like)
    if do & at.OBSERVE:
        if me == 0:
            open_step(block, control, like)
        passes.wait(control, passes.PHASE, passes.OBSERVING, pause)
        norms = block[at.COSINE] != 0 or block[at.LEARNS_HERE] == 0
        passes.observe(
            me, threads, chunk, kind, leaf, norms, control, ranges, items, places, constants,
            table(block, at.LAST_KAPPA, 2, cells, REAL), table(block, at.SUMS, 3, block[at.ROW_COUNT], REAL), like,
        )  # fmt: skip
    if me == 0 and do & at.LEARN:
        passes.wait(control, passes.DONE, len(items), pause)
        _learn(block, like)
    if do & at.MOVE:
        if me == 0:
            passes.start(control, passes.MOVING, threads)
        passes.wait(control, passes.PHASE, passes.MOVING, pause)
        passes.move(
            me, threads, chunk, kind, leaf, control, ranges, items, places, constants,
            table(block, at.KAPPA, 2, cells, REAL), table(block, at.LAST_KAPPA, 2, cells, REAL),
            numbers(block, at.SLOPES, len(items), REAL), like,
        )  # fmt: skip
    if me == 0:
        passes.wait(control, passes.DONE_2 if do & at.MOVE else passes.DONE, len(items), pause)
        if do & at.MOVE:
            _close(block, items, places, numbers(block, at.MOVED, slots, BYTE), like)
