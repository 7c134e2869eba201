"""Sweeps: many runs, on one machine or a cluster, stopped and started again at will.

A `Plan` is a list of `Item`s, from Python, from a grid or from a file (`plan`, `reading`). `run` carries it out
(`running`): joblib's engines (`engines`) send each run to a worker (`work`), which claims it (`claims`) at the place of
the records, a folder or an object path (`places`, `objects`). What is done, failed and under way is always read from
that place (`board`), so that it is true after any crash and whoever did the work.
"""

from .board import Planned
from .plan import Item, Plan
from .running import EngineError, Failure, Outcome, run
from .status import STATES, State, survey, surveys
from .watch import Ended, Running, Standing, Watcher

__all__ = [
    "STATES",
    "Ended",
    "EngineError",
    "Failure",
    "Item",
    "Outcome",
    "Plan",
    "Planned",
    "Running",
    "Standing",
    "State",
    "Watcher",
    "run",
    "survey",
    "surveys",
]
