"""How the rules with kernels are numbered, and what stands where in the tables of work items and of slots."""

from __future__ import annotations

SGD, MOMENTUM, NESTEROV, ADAM, AMSGRAD, ADABOUND, AMSBOUND = 0, 1, 2, 3, 4, 5, 6
SLOT, RUN, LAST_RUN, START, STOP, OUT = 0, 1, 2, 3, 4, 5  # columns of `items`
ITEM_COLUMNS = 6
# Columns of `places`: addresses of a slot's arrays; then the length of a run, the first cell, whether it takes part,
# the param group, the first row of its sums and how many rows a run has.
P, G, A, B, X, R, INNER, CELL, ACTIVE, GROUP, ROW, ROWS = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
PLACE_COLUMNS = 12
T = R  # the trace of directions: with one, there is no per-scalar level
