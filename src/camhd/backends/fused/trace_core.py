"""A whole step with a trace of directions, as each of its threads lives through it; the shape is that of `core`."""

from __future__ import annotations

import numpy as np

from . import block as at
from . import core, horizon, passes, tables
from . import kernels as k
from . import learning as tree
from .core import BYTE, GIVEN, LEARNED, OPTIONS, REAL, WHOLE, numbers, open_step, table
from .jit import kernel
from .trace_items import AT_ONCE, move_item, take_item

SUM_ROWS = horizon.SIZE


@kernel
def _take_in(me, threads, chunk, kind, control, ranges, items, places, constants, memory, sums, sizes, stale, like):
    """First pass: sums, states and traces of the items this thread takes."""
    e, s = np.empty(k.LARGEST_CHUNK, like.dtype), np.empty(k.LARGEST_CHUNK, like.dtype)
    mine = passes.come(me, passes.OBSERVING, control)
    while True:
        number = passes.next_item(mine, passes.OBSERVING, threads, control, ranges, items)
        if number < 0:
            break
        item = items[number]
        slot = item[tables.SLOT]
        if places[slot, tables.ACTIVE] != 0:
            c, unknown = constants[slot], stale[slot] != 0
            take_item(item, chunk, kind, places, c, memory, sums, sizes, unknown, e, s, like)


@kernel
def _move(me, threads, chunk, kind, control, ranges, items, places, constants, kappa, sizes, like):
    """Second pass: every parameter moves."""
    e, s, w = (
        np.empty(max(k.LARGEST_CHUNK, AT_ONCE), like.dtype),
        np.empty(k.LARGEST_CHUNK, like.dtype),
        np.empty(k.LARGEST_CHUNK, like.dtype),
    )
    mine = passes.come(me, passes.MOVING, control)
    while True:
        number = passes.next_item(mine, passes.MOVING, threads, control, ranges, items)
        if number < 0:
            break
        item = items[number]
        slot = item[tables.SLOT]
        if places[slot, tables.ACTIVE] != 0:
            move_item(item, chunk, kind, places, constants[slot], kappa, sizes, e, s, w, like)


@kernel
def _learn(block, like):
    """Rates learn, γ learns, κ at every cell and what each trace remembers: steps 4 to 10 of the rule."""
    slots, cells, count = block[at.SLOT_COUNT], block[at.CELL_COUNT], block[at.RATE_COUNT]
    groups, levels, rows = block[at.GROUP_COUNT], block[at.LEVEL_COUNT], block[at.ROW_COUNT]
    places = table(block, at.PLACES, slots, tables.PLACE_COLUMNS, WHOLE)
    form, base = table(block, at.FORM, levels, slots, WHOLE), table(block, at.BASE, levels, slots, WHOLE)
    index = table(block, at.INDEX, levels, cells, WHOLE)
    rates, weights = numbers(block, at.RATES, count, like), numbers(block, at.WEIGHTS, levels, like)
    alpha, memory = numbers(block, at.LAST_ALPHA, cells, like), numbers(block, at.MEMORY, cells, like)
    usual = numbers(block, at.USUAL, cells, like)
    layer_of = numbers(block, at.LAYER_OF, slots, WHOLE)
    layers = table(block, at.LAYERS, horizon.LAYER_ROWS, block[at.LAYER_COUNT], REAL)
    settings, rule = numbers(block, at.SETTINGS, core.SETTINGS, REAL), numbers(block, at.HORIZON, horizon.HORIZON, REAL)
    of_cells = table(block, at.CELLS, horizon.CELL_ROWS, cells, REAL)
    work, slope = table(block, at.WORK, horizon.WORK_ROWS, count, REAL), numbers(block, at.SLOPE, levels, REAL)
    state = table(block, at.RULE_STATE, horizon.STATE_ROWS, count, like)
    last = table(block, at.LAST, groups, OPTIONS, REAL)
    gamma, old_weights = tree.gammas(weights, block[at.COMBINE]), weights.copy()
    horizon.gather(places, table(block, at.SUMS, SUM_ROWS, rows, REAL), numbers(block, at.SIZES, rows, REAL), of_cells)
    horizon.measure(places, of_cells, alpha, usual, layer_of, layers, rule)
    finite = horizon.sum_up(
        places, of_cells, alpha, form, base, index, rates, last, LEARNED,
        table(block, at.BETA, levels, groups, REAL), slope, work,
    )  # fmt: skip
    parents, caps = numbers(block, at.PARENTS, count, WHOLE), numbers(block, at.CAPS, count, REAL)
    finite &= horizon.propose(rates, state, parents, rule, settings, caps, work)
    if block[at.COMBINE] != tree.FIXED and settings[core.COMBINE_LR] > 0:
        candidate = tree.new_weights(weights, slope, settings[core.COMBINE_LR], block[at.COMBINE])
        finite &= np.isfinite(candidate).all()
        if finite:
            weights[:] = candidate
    if finite:
        rates[:], state[:] = work[horizon.RATE], work[horizon.NEW : horizon.WORK_ROWS]
    settings[core.SQUARES] = horizon.square_weight(state, rule)
    block[at.OUTCOME] = core.LEARNED_WELL if finite else core.NOT_FINITE
    numbers(block, at.LAST_WEIGHTS, levels, like)[:] = old_weights
    horizon.limit(layers, rule)
    horizon.pull_down(places, cells, form, base, index, rates, layer_of, layers, settings[core.MIN_LR], work)
    horizon.hand_down(
        places, form, base, index, rates, gamma, table(block, at.NOW, groups, OPTIONS, REAL), LEARNED, GIVEN,
        layer_of, layers, alpha, memory, usual, rule[horizon.MEMORY], table(block, at.KAPPA, 2, cells, REAL),
    )  # fmt: skip


@kernel
def _close(block, places, moved, stale):
    """Thread 0 sees that all parameters have moved, and notes what the next step looks back on."""
    groups = block[at.GROUP_COUNT]
    for slot in range(len(places)):
        moved[slot] = places[slot, tables.ACTIVE] != 0
        if moved[slot]:
            stale[slot] = 0
    table(block, at.LAST, groups, OPTIONS, REAL)[:] = table(block, at.NOW, groups, OPTIONS, REAL)


@kernel
def work(block, me, like):
    """One thread's part of a step. Thread 0 makes the step; the others help with the passes."""
    kind, threads, do, chunk, pause = block[at.KIND], block[at.THREADS], block[at.DO], block[at.CHUNK], block[at.PAUSE]
    slots, cells, rows = block[at.SLOT_COUNT], block[at.CELL_COUNT], block[at.ROW_COUNT]
    control = numbers(block, at.CONTROL, passes.COUNTERS + 2 * passes.LINE * threads, WHOLE)
    ranges = numbers(block, at.RANGES, threads + 1, WHOLE)
    items = table(block, at.ITEMS, block[at.ITEM_COUNT], tables.ITEM_COLUMNS, WHOLE)
    places = table(block, at.PLACES, slots, tables.PLACE_COLUMNS, WHOLE)
    constants = table(block, at.CONSTANTS, slots, k.CONSTANTS, like)
    sizes, stale = numbers(block, at.SIZES, rows, REAL), numbers(block, at.STALE, slots, BYTE)
    if do & at.OBSERVE:
        if me == 0:
            open_step(block, control, like)
        passes.wait(control, passes.PHASE, passes.OBSERVING, pause)
        _take_in(
            me, threads, chunk, kind, control, ranges, items, places, constants,
            numbers(block, at.MEMORY, cells, like), table(block, at.SUMS, SUM_ROWS, rows, REAL), sizes, stale, like,
        )  # fmt: skip
    if me == 0 and do & at.LEARN:
        passes.wait(control, passes.DONE, len(items), pause)
        _learn(block, like)
    if do & at.MOVE:
        if me == 0:
            passes.start(control, passes.MOVING, threads)
        passes.wait(control, passes.PHASE, passes.MOVING, pause)
        kappa = table(block, at.KAPPA, 2, cells, REAL)[0]
        _move(me, threads, chunk, kind, control, ranges, items, places, constants, kappa, sizes, like)
    if me == 0:
        passes.wait(control, passes.DONE_2 if do & at.MOVE else passes.DONE, len(items), pause)
        if do & at.MOVE:
            _close(block, places, numbers(block, at.MOVED, slots, BYTE), stale)
