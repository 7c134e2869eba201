"""The laboratory: compare optimizers on real tasks, keep records, look at what the rates did.

`train` trains once and `load` reads records back. `import camhd` never imports any of it.
"""

from .records import Run, RunConfig, Runs, load
from .train import Settings, Watcher, train

__all__ = ["Run", "RunConfig", "Runs", "Settings", "Watcher", "load", "train"]
