"""Training: one visible loop (`loop`), what surrounds it, and nothing hidden.

`prepare` turns names or functions into a `Job` and checks everything; `execute` carries it out; `train` does both.
`loop` has the steps; `tasks` the losses and metrics; `schedule` the schedules of the learning rate; `seeds` and
`interrupt` what makes a run repeatable and stoppable; `watch` what a progress display is told; `parallel` what several
processes that share a run do together.
"""

from . import own
from .job import Job, again, open_data, prepare
from .parallel import check_started, leads
from .run import execute, train
from .settings import Settings
from .watch import Progress, Watcher

__all__ = [
    "Job",
    "Progress",
    "Settings",
    "Watcher",
    "again",
    "check_started",
    "execute",
    "leads",
    "open_data",
    "own",
    "prepare",
    "train",
]
