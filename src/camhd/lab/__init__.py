"""The laboratory: compare optimizers on real tasks, keep records, look at what the rates did.

`import camhd` never imports it.
"""

from .records import Run, RunConfig, Runs, load

__all__ = ["Run", "RunConfig", "Runs", "load"]
