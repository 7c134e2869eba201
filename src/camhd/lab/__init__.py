"""The laboratory: compare optimizers on real tasks, keep records, look at what the rates did.

`train` trains once, `compare` with several optimizers and seeds, and `load` reads records back. `import camhd` never
imports any of it.
"""

from .compare import Comparison, Entrant, compare
from .records import Run, RunConfig, Runs, load
from .train import Settings, Watcher, train

__all__ = ["Comparison", "Entrant", "Run", "RunConfig", "Runs", "Settings", "Watcher", "compare", "load", "train"]
