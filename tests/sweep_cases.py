"""Models and data of one's own for the sweeps' tests, found by their place; no worker needs more than torch."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from camhd.lab import data


def points() -> data.Dataset:
    """Three classes that a line can almost tell apart."""
    numbers = torch.Generator().manual_seed(0)
    labels = torch.arange(120) % 3
    inputs = torch.randn(120, 4, generator=numbers) + F.one_hot(labels, 4) * 2.0
    return data.from_tensors("points", (inputs[:90], labels[:90]), (inputs[90:], labels[90:]))


def network() -> nn.Module:
    """With dropout, so that a run depends on its random numbers at every step."""
    _note("SWEEP_LOG")
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))


def broken() -> nn.Module:
    """A mistake of the user's."""
    _note("SWEEP_LOG")
    raise RuntimeError("no such layer")


def broken_once() -> nn.Module:
    """Works at the second attempt."""
    if _note("SWEEP_LOG") == 1:
        raise OSError("the disk was away")
    return network()


def deadly() -> nn.Module:
    """Takes its process with it, as compiled code may do."""
    _note("SWEEP_LOG")
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def _note(variable: str) -> int:
    """Add a line to the file that an environment variable names; gives the number of lines."""
    path = os.environ.get(variable)
    if path is None:
        return 0
    with open(path, "ab") as file:
        file.write(b"%d\n" % os.getpid())
    return len(Path(path).read_bytes().splitlines())
