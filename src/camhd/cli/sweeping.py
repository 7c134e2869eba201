"""How a sweep is watched: one bar on a terminal, plain lines elsewhere; on standard error, as output is data."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from ..lab.sweep import Ended, Standing, Watcher
from .progress import told

SHOWN = 4  # runs that are named while they are under way


@contextmanager
def watching() -> Iterator[Watcher]:
    """A display for a sweep."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _Lines()
        return
    columns = (BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn("{task.fields[told]}"))
    with Progress(*columns, console=console) as bars:
        yield _Bar(bars)


def line(ended: Ended) -> str:
    """How a run ended.

    >>> from camhd.lab.sweep import Item
    >>> line(Ended("digits-…", Item(seed=3), "Adam", "finished", "accuracy", 0.915, 1.25))
    'Adam, seed 3: accuracy 91.5 %  1.2 s'
    """
    name = f"{ended.label}, seed {ended.item.seed}"
    if ended.status == "failed":
        return f"{name}: FAILED  {ended.message}"
    how = [] if ended.status == "finished" else [ended.status]
    return "  ".join([f"{name}: {told({ended.metric: ended.value})}", f"{ended.seconds:.1f} s", *how])


def summary(standing: Standing) -> str:
    """What runs, what failed, the best so far, and how long it will take."""
    words = [f"{len(standing.running)} running"]
    if standing.running:
        names = [
            f"{one.label}, seed {one.seed}"
            + (f" {one.step / one.steps:.0%}" if one.steps else "")
            + ("" if one.mine else f" on {one.host}")
            for one in standing.running[:SHOWN]
        ]
        more = len(standing.running) - len(names)
        words[0] += f" ({'; '.join(names)}{f'; {more} more' if more else ''})"
    words += [f"{standing.failed} failed"] if standing.failed else []
    if standing.best is not None:
        best = standing.best
        words.append(f"best {told({best.metric: best.value})} ({best.label}, seed {best.item.seed})")
    words += [f"{duration(standing.left)} left"] if standing.left else []
    return " · ".join(words)


def duration(seconds: float) -> str:
    """As people say it.

    >>> duration(59), duration(3661), duration(90_000)
    ('59 s', '1 h 1 min', '25 h')
    """
    minutes = round(seconds / 60)
    if seconds < 60:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 and minutes < 600 else "")


class _Lines(Watcher):
    """A line for each run that ends."""

    def __init__(self) -> None:
        self._standing: Standing | None = None
        self._count = 0

    def ended(self, ended: Ended) -> None:
        self._count += 1
        total = "" if self._standing is None else f"/{self._standing.total}"
        before = 0 if self._standing is None else self._standing.before
        print(f"[{before + self._count}{total}] {line(ended)}", file=sys.stderr, flush=True)

    def changed(self, standing: Standing) -> None:
        first = self._standing is None
        self._standing = standing
        if first and standing.before:
            print(f"{standing.before} of {standing.total} runs have ended before.", file=sys.stderr, flush=True)

    def broken(self, error: Exception) -> None:
        print(_again(error), file=sys.stderr, flush=True)


class _Bar(Watcher):
    """One bar for everything, and a line for each run that failed."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._task = bars.add_task("", total=None, told="")

    def ended(self, ended: Ended) -> None:
        if ended.status == "failed":
            self._bars.console.print(escape(line(ended)))

    def changed(self, standing: Standing) -> None:
        completed = standing.done + standing.failed
        self._bars.update(self._task, total=standing.total, completed=completed, told=escape(summary(standing)))

    def broken(self, error: Exception) -> None:
        self._bars.console.print(escape(_again(error)))


def _again(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"A worker was lost ({type(error).__name__}: {text[0] if text else ''}); going on with new ones."
