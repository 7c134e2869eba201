"""How a study is watched: a bar on a terminal, plain lines elsewhere; on standard error, so that output stays clean."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..lab.records import RunConfig
from ..lab.tune import Ended, Onlooker
from ..lab.tune.drawing import spelled


@contextmanager
def watching(trials: int) -> Iterator[Onlooker]:
    """A display for a study of so many trials."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _Lines(trials)
        return
    columns = (
        TextColumn("trials"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[best]}"),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[now]}"),
    )
    with Progress(*columns, console=console) as bars:
        yield _Bar(bars, trials)


def ending(trial: Ended) -> str:
    """How a trial ended, in a line.

    >>> ending(Ended(3, "pruned", 0.5, {"lr": 0.01}, "", 4))
    'trial 3: loss 0.5000  lr 0.01  stopped as hopeless'
    """
    words = [f"trial {trial.number}:", *([] if trial.loss is None else [f"loss {told(trial.loss)} "])]
    words += [f"{name} {spelled(value)} " for name, value in trial.found.items()]
    why = trial.error.partition("\n")[0] or "its process died too often"
    how = {"complete": "", "pruned": "stopped as hopeless", "fail": f"failed: {why}"}
    return " ".join([*words, how[trial.state]]).rstrip()


def told(loss: float) -> str:
    """A loss for people.

    >>> told(0.25), told(3e20), told(float("inf"))
    ('0.2500', '3e+20', 'inf')
    """
    return f"{loss:.4f}" if loss < 1e4 else f"{loss:.4g}"


class _Lines:
    """One line for each trial."""

    def __init__(self, trials: int) -> None:
        self._trials = trials

    def epoch(self, trial: int, config: RunConfig, epoch: int, loss: float) -> None:
        """Too much for lines."""

    def ended(self, trial: Ended) -> None:
        print(f"[{trial.done}/{self._trials}] {ending(trial)}", file=sys.stderr, flush=True)

    def count(self, done: int, best: float | None) -> None:
        """Every line says it."""


class _Bar:
    """A bar for all trials, and what is under way."""

    def __init__(self, bars: Progress, trials: int) -> None:
        self._bars = bars
        self._task = bars.add_task("", total=trials, best="", now="")

    def epoch(self, trial: int, config: RunConfig, epoch: int, loss: float) -> None:
        fold = f" {config.split}" if config.split.startswith("fold") else ""
        now = f"trial {trial}{fold} epoch {epoch}/{config.epochs} loss {told(loss)}"
        self._bars.update(self._task, now=escape(now))

    def ended(self, trial: Ended) -> None:
        self._bars.console.print(escape(ending(trial)))

    def count(self, done: int, best: float | None) -> None:
        self._bars.update(self._task, completed=done, best="" if best is None else f"best {told(best)}")
