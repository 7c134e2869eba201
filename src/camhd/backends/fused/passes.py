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

from . import kernels as k
from .items import move_item, observe_item
from .jit import fetch, fetch_add, kernel, number_from, store
from .tables import ACTIVE, SLOT

# Places in `control`, each in a cache line of its own; after them two counters for each thread's range.
PHASE, DONE, DONE_2, HELPERS, COUNTERS, LINE = 0, 8, 16, 24, 32, 8
OBSERVING, MOVING = 1, 2  # phases


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
def observe(me, threads, chunk, kind, leaf, norms, control, ranges, items, places, constants, kappa, sums, like):
    """First pass: Σ g·s, Σ g², Σ s² of every run of the items this thread takes."""
    e, s, w = (
        np.empty(k.LARGEST_CHUNK, like.dtype),
        np.empty(k.LARGEST_CHUNK, like.dtype),
        np.empty(k.LARGEST_CHUNK, like.dtype),
    )
    for turn in range(threads):
        whose, done = (me + turn) % threads, 0  # said once: a number that two cores write to goes to and fro
        first, count = ranges[whose], ranges[whose + 1] - ranges[whose]
        while True:
            taken = fetch_add(control, COUNTERS + 2 * LINE * whose, 1)
            if taken >= count:
                break
            item = items[first + taken]
            slot = item[SLOT]
            if places[slot, ACTIVE] != 0:
                observe_item(item, chunk, kind, leaf, norms, places, constants[slot], kappa, sums, e, s, w, like)
            done += 1
        if done:
            fetch_add(control, DONE, done)


@kernel
def move(me, threads, chunk, kind, leaf, control, ranges, items, places, constants, kappa, last_kappa, slopes, like):
    """Second pass: every parameter moves."""
    e, s, w = (
        np.empty(k.LARGEST_CHUNK, like.dtype),
        np.empty(k.LARGEST_CHUNK, like.dtype),
        np.empty(k.LARGEST_CHUNK, like.dtype),
    )
    for turn in range(threads):
        whose, done = (me + turn) % threads, 0
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
                slope = move_item(item, chunk, kind, leaf, places, c, kappa, last_kappa, e, s, w, like)
                slopes[number] = slope
            done += 1
        if done:
            fetch_add(control, DONE_2, done)
