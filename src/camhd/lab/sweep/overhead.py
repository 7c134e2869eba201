"""What a sweep adds to its runs: `python -m camhd.lab.sweep.overhead`, on an idle machine.

It carries out many runs that do next to nothing, on the local engine, and prints the time that each takes beyond its
own training: starting processes, reading data, preparing, claiming, writing and reading records, looking on. The time
of the report of all these runs is printed, too.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from time import perf_counter

import torch
from torch import nn

from .. import data, report
from ..data import Dataset
from .engines import choose_engine
from .plan import Plan
from .running import run


def points() -> Dataset:
    """Eight points in two classes."""
    inputs = torch.randn(12, 2, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(12) % 2
    return data.from_tensors("eight-points", (inputs[:8], labels[:8]), (inputs[8:], labels[8:]))


def network() -> nn.Module:
    """Six weights."""
    return nn.Linear(2, 2)


def measure(runs: int, workers: int | None) -> tuple[float, float]:
    """Seconds that a sweep adds to each run, and seconds of the report of all of them."""
    where = "camhd.lab.sweep.overhead"
    plan = Plan.grid("overhead", model=f"{where}:network", data=f"{where}:points", epochs=1, seeds=runs)
    with tempfile.TemporaryDirectory() as folder:
        began = perf_counter()
        outcome = run(plan, folder, workers=workers)
        seconds = perf_counter() - began
        training = sum(float(outcome.at.result(one)["time"]["seconds"]) for one in outcome.done)
        at_once = choose_engine("local", None, workers, None, runs).workers or 1
        began = perf_counter()
        report.write(folder, Path(folder) / "report.html")
        return (seconds * at_once - training) / runs, perf_counter() - began


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What a sweep adds to its runs; run it on an idle machine.")
    parser.add_argument("--runs", type=int, default=1000, help="in the sweep (%(default)s)")
    parser.add_argument("--workers", type=int, help="at a time (one for each core)")
    given = parser.parse_args(arguments)
    each, reported = measure(given.runs, given.workers)
    print(
        f"{given.runs} runs: the sweep adds {1e3 * each:.1f} ms of a worker to each; the report takes {reported:.1f} s"
    )


if __name__ == "__main__":
    main()
