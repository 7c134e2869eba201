"""The two passes over all parameters: work items, each a piece of one parameter, taken by whichever thread is free.

An item is a range of runs of one slot, or a part of one long run. A run is one cell: a stretch of memory whose scalars
share all rates above the per-scalar level. What items there are does not depend on how many threads take them, so
neither do the sums.

Each thread has a range of items of its own, the same at every step, because they may still be in its core's cache. The
second pass goes through a range backwards: what the first one read last is still there. A thread that is through with
its range takes what others have left, but not the last few items of a thread that is at work: to move those to another
core and back at every step costs more than to wait for them, if the two have no cache in common.
"""

from __future__ import annotations

import numpy as np

from . import kernels as k
from .items import move_item, observe_item
from .jit import fetch, fetch_add, kernel, number_from, store
from .tables import ACTIVE, LAST_RUN, RUN, SLOT, START, STOP

# Places in `control`, each in a cache line of its own; after them two lines for each thread's range, one for each pass:
# how many items are taken, and whether the thread itself has come.
PHASE, DONE, DONE_2, HELPERS, COUNTERS, LINE = 0, 8, 16, 24, 32, 8
TAKEN, COME = 0, 1
OBSERVING, MOVING = 1, 2  # phases
# What a thread knows of a pass: its number, in whose range it is (0: its own, 1: the next one's, …), how many items it
# has taken there, how many of the others it leaves, and how often it looks at them before it takes them all the same.
ME, TURN, HELD, LEAVE, PATIENCE = 0, 1, 2, 3, 4
PART_LEFT, SCALARS_LEFT = 4, 131_072  # what is left to a thread that is at work: 1/4 of its range, or that much


@kernel
def wait(control, place, least, pause):
    """Until another thread has brought a number in `control` so far."""
    tries = 0
    while fetch(control, place) < least:
        tries += 1
        if tries > 4000 and pause != 0:
            number_from(pause)


@kernel
def line(whose, phase):
    """The place in `control` for a thread's range in a pass."""
    return COUNTERS + 2 * LINE * whose + (0 if phase == OBSERVING else LINE)


@kernel
def done_in(phase):
    """The place in `control` for the number of items that are done in a pass."""
    return DONE if phase == OBSERVING else DONE_2


@kernel
def start(control, phase, threads):
    """Let a pass begin. Until then no thread finds an item in it, however late it comes from the step before."""
    control[done_in(phase)] = 0
    for whose in range(threads):
        place = line(whose, phase)
        store(control, place + TAKEN, 0)
        store(control, place + COME, 0)
    store(control, PHASE, phase)


@kernel
def come(me, phase, control):
    """A thread comes to a pass, and says so. Returns what it knows of it."""
    store(control, line(me, phase) + COME, 1)
    mine = np.zeros(5, np.int64)
    mine[ME] = me
    return mine


@kernel
def next_item(mine, phase, threads, control, ranges, items):
    """The next item for a thread, by its number; −1 if there is none left for it."""
    while mine[TURN] < threads:
        whose = (mine[ME] + mine[TURN]) % threads
        first, count = ranges[whose], ranges[whose + 1] - ranges[whose]
        if mine[TURN] > 0 and mine[HELD] == 0 and count > 0:
            _be_patient(mine, items[first], count)
        taken = _take(mine, phase, control, line(whose, phase), count, len(items))
        if taken < count:
            mine[HELD] += 1
            return first + (taken if phase == OBSERVING else count - 1 - taken)
        if mine[HELD] > 0:  # said once: a number that two cores write to goes to and fro
            fetch_add(control, done_in(phase), mine[HELD])
        mine[HELD], mine[TURN] = 0, mine[TURN] + 1
    return -1


@kernel
def _be_patient(mine, item, count):
    """In another thread's range: how many items are left to that thread, and how often to look what it does."""
    scalars = max(1, (item[LAST_RUN] - item[RUN]) * (item[STOP] - item[START]))
    mine[LEAVE] = max(count // PART_LEFT, SCALARS_LEFT // scalars)
    mine[PATIENCE] = 4000 + 2 * scalars  # some times as long as an item takes


@kernel
def _take(mine, phase, control, place, count, total):
    """The next item of a range, by its number in it; `count` or more if there is none left to be taken."""
    last = -1
    while mine[PATIENCE] > 0 and fetch(control, place + COME) != 0:
        taken = fetch(control, place + TAKEN)  # seldom: each look keeps the thread waiting that is looked at
        if taken >= count:
            return taken
        if count - taken > mine[LEAVE]:
            break
        if taken == last:  # the thread stands still, and patience was of no avail
            mine[PATIENCE] = 0
            break
        last = taken
        for _ in range(mine[PATIENCE]):
            if (
                fetch(control, done_in(phase)) + mine[HELD] >= total
            ):  # what it has done here itself, it has not said yet
                return count
    return fetch_add(control, place + TAKEN, 1)


@kernel
def observe(me, threads, chunk, kind, leaf, norms, control, ranges, items, places, constants, kappa, sums, like):
    """First pass: Σ g·s, Σ g², Σ s² of every run of the items this thread takes."""
    e, s, w = (
        np.empty(k.LARGEST_CHUNK, like.dtype),
        np.empty(k.LARGEST_CHUNK, like.dtype),
        np.empty(k.LARGEST_CHUNK, like.dtype),
    )
    mine = come(me, OBSERVING, control)
    while True:
        number = next_item(mine, OBSERVING, threads, control, ranges, items)
        if number < 0:
            break
        item = items[number]
        slot = item[SLOT]
        if places[slot, ACTIVE] != 0:
            observe_item(item, chunk, kind, leaf, norms, places, constants[slot], kappa, sums, e, s, w, like)


@kernel
def move(me, threads, chunk, kind, leaf, control, ranges, items, places, constants, kappa, last_kappa, slopes, like):
    """Second pass: every parameter moves."""
    e, s, w = (
        np.empty(k.LARGEST_CHUNK, like.dtype),
        np.empty(k.LARGEST_CHUNK, like.dtype),
        np.empty(k.LARGEST_CHUNK, like.dtype),
    )
    mine = come(me, MOVING, control)
    while True:
        number = next_item(mine, MOVING, threads, control, ranges, items)
        if number < 0:
            break
        item = items[number]
        slot = item[SLOT]
        if places[slot, ACTIVE] != 0:
            slope = move_item(item, chunk, kind, leaf, places, constants[slot], kappa, last_kappa, e, s, w, like)
            slopes[number] = slope
