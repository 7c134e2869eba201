"""One run, one folder: `config.json`, `history.jsonl`, `result.json`.

`config.json` holds everything that decides the run. `history.jsonl` has one JSON object on each line, in the order of
the steps: a line "start", lines "rates" and lines "epoch". `result.json` is written last. Whatever depends on the
clock is inside an object called "time", so that two runs of one configuration differ in nothing else. Numbers that
are not finite are written as "nan", "inf" and "-inf".

A run that failed in a sweep has a `failure.txt` with its traceback in place of a result.

`load` reads runs back (into pandas, if wanted), `read` reads one; `InFolder` writes one.
"""

from .checkpoint import CheckpointError
from .config import FORMAT, RunConfig
from .environment import environment
from .files import DiskError, RunLockedError
from .read import find, load, read
from .run import Run, Runs, metrics_of
from .write import InFolder, InMemory, Record

__all__ = [
    "FORMAT",
    "CheckpointError",
    "DiskError",
    "InFolder",
    "InMemory",
    "Record",
    "Run",
    "RunConfig",
    "RunLockedError",
    "Runs",
    "environment",
    "find",
    "load",
    "metrics_of",
    "read",
]
