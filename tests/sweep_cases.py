"""Models and data of one's own for the sweeps' tests, found by their place; no worker needs more than torch."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
from torch import Tensor, nn
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
    return nn.Sequential(Gate(_note("SWEEP_LOG")), nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))


class Gate(nn.Module):
    """Lets everything through, but may hold up a run in its midst.

    Environment variable SWEEP_HOLD names a file with a number: later models than the one of that number wait at their
    fifth batch, until the number is larger or the file is gone.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number, self.calls = number, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        path = os.environ.get("SWEEP_HOLD")
        while self.calls == 5 and path is not None and self.number > _allowed(path):
            time.sleep(0.02)
        return x


def _allowed(path: str) -> float:
    try:
        return float(Path(path).read_text())
    except FileNotFoundError:
        return float("inf")


def broken() -> nn.Module:
    """A mistake of the user's."""
    _note("SWEEP_LOG")
    raise RuntimeError("no such layer")


def broken_once() -> nn.Module:
    """Works at the second attempt."""
    if _note("SWEEP_LOG") == 1:
        raise OSError("the disk was away")
    return network()


def leaves() -> nn.Module:
    """Ends its process politely."""
    _note("SWEEP_LOG")
    raise SystemExit(3)


def _note(variable: str) -> int:
    """Add a line to the file that an environment variable names; gives the number of lines."""
    path = os.environ.get(variable)
    if path is None:
        return 0
    with open(path, "ab") as file:
        file.write(b"%d\n" % os.getpid())
    return len(Path(path).read_bytes().splitlines())
