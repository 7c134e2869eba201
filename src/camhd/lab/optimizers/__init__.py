"""All optimizers that the lab compares, by name, and how each of them is driven.

    from camhd.lab import optimizers

    driver = optimizers.build("adam-cam-hd-2", model, options={"lr": 1e-3})
    driver.zero_grad(); loss = ...; driver.backward(loss); driver.step(loss)

`names()` lists them. A task, such as "lenet5", picks the settings of the paper for it; `task_of` finds the task of a
model. Optimizers of other packages run where those are installed.
"""

from .drivers import Driver
from .entry import Entry, from_function
from .paper import TASKS, batch_size, task_of
from .registry import build, entries, find, names

__all__ = [
    "TASKS",
    "Driver",
    "Entry",
    "batch_size",
    "build",
    "entries",
    "find",
    "from_function",
    "names",
    "task_of",
]
