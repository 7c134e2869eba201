"""How training is watched: bars on a terminal, plain lines elsewhere; on standard error, so that output stays clean."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from ..lab.records import Run, metrics_of
from ..lab.train import Progress, Watcher

REFRESH = 0.1  # seconds


@contextmanager
def watching(runs: int, every_epoch: bool = False) -> Iterator[Watcher]:
    """A display for so many runs.

    Args:
        runs: how many there will be.
        every_epoch: where there is no terminal, a line for each epoch and not only for each run.
    """
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _Lines(runs, every_epoch)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[told]}"),
        TimeRemainingColumn(compact=True),
    )
    with Bars(*columns, console=console) as bars:
        yield _Bars(bars, runs)


def name_of(run: Run | Progress) -> str:
    """Who runs."""
    return f"{run.config.label or run.config.optimizer}, seed {run.config.seed}"


def told(metrics: Mapping[str, float], rate: float | None = None) -> str:
    """The numbers that one looks at.

    >>> told({"loss": 0.25, "accuracy": 0.915}, 1e-3)
    'loss 0.2500  accuracy 91.5 %  rate 1.00e-03'
    """
    words = [
        f"{name} {100 * value:.1f} %" if name.endswith("accuracy") else f"{name} {value:.4f}"
        for name, value in metrics.items()
    ]
    return "  ".join([*words, *([] if rate is None else [f"rate {rate:.2e}"])])


def ending(run: Run, before: bool = False) -> str:
    """How a run ended, in a line; `before` says that it had ended before."""
    final = {name.removeprefix("valid_"): value for name, value in run.final.items() if name.startswith("valid_")}
    seconds = float(run.result["time"]["seconds"]) if run.result is not None else 0.0
    how = [] if run.status == "finished" else [run.status]
    return "  ".join(
        [f"{name_of(run)}: {told(final)}", f"{seconds:.1f} s", *how, *(["from its record"] if before else [])]
    )


class _Lines(Watcher):
    """One line at a time."""

    def __init__(self, runs: int, every_epoch: bool) -> None:
        self._runs, self._every_epoch, self._done = runs, every_epoch, 0
        self._running = False

    def begun(self, progress: Progress) -> None:
        self._running = True
        if progress.step:
            print(f"{name_of(progress)} goes on after step {progress.step:,}.", file=sys.stderr, flush=True)

    def epoch_ended(self, progress: Progress, epoch: Mapping[str, Any]) -> None:
        if self._every_epoch:
            words = told({name.replace("_", " "): value for name, value in metrics_of(epoch).items()}, progress.rate())
            print(f"epoch {epoch['epoch']}/{progress.config.epochs}  {words}", file=sys.stderr, flush=True)

    def ended(self, run: Run) -> None:
        self._done += 1
        print(f"[{self._done}/{self._runs}] {ending(run, not self._running)}", file=sys.stderr, flush=True)
        self._running = False


class _Bars(Watcher):
    """A bar for all runs, if there are several, and one for the run that is under way."""

    def __init__(self, bars: Bars, runs: int) -> None:
        self._bars = bars
        self._all = bars.add_task("all runs", total=runs, told="") if runs > 1 else None
        self._one: TaskID | None = None
        self._last = 0.0

    def begun(self, progress: Progress) -> None:
        self._one = self._bars.add_task(
            escape(name_of(progress)), total=progress.steps, completed=progress.step, told=""
        )

    def stepped(self, progress: Progress) -> None:
        now = perf_counter()
        if self._one is not None and now - self._last >= REFRESH:
            self._last = now
            self._bars.update(self._one, completed=progress.step, told=told(progress.metrics(), progress.rate()))

    def ended(self, run: Run) -> None:
        self._bars.console.print(escape(ending(run, before=self._one is None)))
        if self._one is not None:
            self._bars.remove_task(self._one)
            self._one = None
        if self._all is not None:
            self._bars.advance(self._all)
