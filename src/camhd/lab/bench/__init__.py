"""What a step costs: `camhd bench` without its command line.

`settings` says what to measure and `run` measures it: `cases` holds the models and the optimizers, `peers` those of
other packages, `timing` how a race is run, `measure`, `first_step` and `memory` what is read from it. A `Record` is
data; `report` makes tables of it and `plot` a picture.
"""

from .record import Record, Task, run
from .results import Failure, FirstStep, Peer, Result, Share, StateSize, StepTime
from .settings import Settings, quick
from .timing import Spread

__all__ = [
    "Failure",
    "FirstStep",
    "Peer",
    "Record",
    "Result",
    "Settings",
    "Share",
    "Spread",
    "StateSize",
    "StepTime",
    "Task",
    "quick",
    "run",
]
