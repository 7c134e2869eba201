"""`RateLogger`: rates and weights to a CSV file, to TensorBoard, to other loggers or to any function."""

from __future__ import annotations

import csv
import inspect
import os
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from typing_extensions import Self

from ..optim import Optimizer
from .flat import Record, numbers, scalars, tag
from .moving import moving
from .reading import LIMIT, groups, snapshot, weights
from .shell import inside
from .summary import BINS

COLUMNS = ("step", "kind", "level", "name", "value")


class RateLogger:
    """Writes what `snapshot` and `weights` say, every so many steps of the optimizer, from any training loop.

    It hangs itself behind the optimizer's `step`; nothing else in the loop changes. `log()` writes at once.

    Args:
        optimizer: any torch optimizer.
        to: the path of a CSV file (one row for each number: step, kind, level, name, value); a TensorBoard
            `SummaryWriter`; anything that takes `scalars` and a step by `log_metrics` or `log` (a Lightning logger, a
            W&B run, `mlflow`); or a function of the step and of `{"rates": snapshot, "weights": weights}`.
        every: how many steps lie between two entries; None to write only when `log()` is called.
        limit: up to how many rates of a level are written one by one.
        append: go on writing to a CSV file that is there, instead of writing a new one.

    >>> from camhd import Adam
    >>> model = torch.nn.Linear(4, 2)
    >>> opt, seen = Adam(model, lr=0.5), []
    >>> with RateLogger(opt, lambda step, found: seen.append((step, found["rates"]["global"]["values"])), every=2):
    ...     for _ in range(4):
    ...         opt.step()
    >>> seen
    [(2, [0.5]), (4, [0.5])]
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        to: str | os.PathLike[str] | Callable[[int, Record], Any] | Any,
        every: int | None = 100,
        *,
        limit: int = LIMIT,
        append: bool = False,
    ) -> None:
        optimizer = inside(optimizer)
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"RateLogger needs a torch.optim.Optimizer, got {type(optimizer).__name__}.")
        if every is not None and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
            raise ValueError(f"'every' must be a number of steps from 1 on, or None for log() alone, got {every!r}.")
        self.optimizer, self.every, self.limit = optimizer, every, limit
        self.steps = 0  # of an optimizer that does not count them itself
        self._sink: _Sink | None = _sink(to, optimizer, limit, append)
        self._hook = optimizer.register_step_post_hook(self._after_step)

    @property
    def step(self) -> int:
        """At which step the optimizer is; counted from the start of this logger unless the optimizer knows."""
        tree = self.optimizer.tree if isinstance(self.optimizer, Optimizer) else None
        return self.steps if tree is None else tree.state.step

    def log(self) -> None:
        """Write an entry now."""
        if self._sink is None:
            raise ValueError("RateLogger is closed; make a new one, with append=True for the same CSV file.")
        rates = snapshot(self.optimizer, self.limit)
        if rates is not None:
            self._sink.write(self.step, {"rates": rates, "weights": weights(self.optimizer)})

    def close(self) -> None:
        """Leave the optimizer alone and close the file; a SummaryWriter is flushed and stays open."""
        self._hook.remove()
        if self._sink is not None:
            self._sink.close()
        self._sink = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        self.steps += 1
        if self.every is not None and self.step % self.every == 0:
            self.log()


class _Sink:
    """A function to call."""

    def __init__(self, function: Callable[[int, Record], Any]) -> None:
        self.function = function

    def write(self, step: int, record: Record) -> None:
        self.function(step, record)

    def close(self) -> None:
        """Nothing to close."""


class _Csv(_Sink):
    def __init__(self, path: Path, names: Callable[[], Mapping[str, list[str] | None]], append: bool) -> None:
        self.names = names
        goes_on = append and path.exists() and path.stat().st_size > 0
        if goes_on:
            _check_columns(path)
        self.file = path.open("a" if goes_on else "w", newline="", encoding="utf-8")
        self.rows = csv.writer(self.file)
        if not goes_on:
            self.rows.writerow(COLUMNS)

    def write(self, step: int, record: Record) -> None:
        self.rows.writerows((step, *row) for row in numbers(record, self.names()))
        self.file.flush()

    def close(self) -> None:
        self.file.close()


class _TensorBoard(_Sink):
    def __init__(
        self, writer: Any, names: Callable[[], Mapping[str, list[str] | None]], optimizer: torch.optim.Optimizer
    ) -> None:
        self.writer, self.names, self.optimizer = writer, names, optimizer

    def write(self, step: int, record: Record) -> None:
        for name, value in moving(self.optimizer).items():
            self.writer.add_scalar(name, value, step)
        for kind, level, name, value in numbers(record, self.names()):
            self.writer.add_scalar(tag(kind, level, name), value, step)
        for level, found in record["rates"].items():
            if found.get("histogram") and found["histogram"]["low"] is not None:
                self._histogram(f"rates (log10)/{level}", found["histogram"], step)

    def _histogram(self, tag: str, histogram: Mapping[str, Any], step: int) -> None:
        low, high, counts = histogram["low"], histogram["high"], histogram["counts"]
        edges = [low + (high - low) * i / BINS for i in range(BINS + 1)]
        middles = [(a + b) / 2 for a, b in pairwise(edges)]
        total = sum(n * x for n, x in zip(counts, middles, strict=True))
        squares = sum(n * x * x for n, x in zip(counts, middles, strict=True))
        self.writer.add_histogram_raw(tag, low, high, sum(counts), total, squares, edges[1:], counts, step)

    def close(self) -> None:
        self.writer.flush()


class _Metrics(_Sink):
    def __init__(self, log: Callable[..., Any], optimizer: torch.optim.Optimizer, limit: int) -> None:
        self.log, self.optimizer, self.limit = log, optimizer, limit

    def write(self, step: int, record: Record) -> None:
        self.log(scalars(self.optimizer, self.limit), step=step)


def _sink(to: Any, optimizer: torch.optim.Optimizer, limit: int, append: bool) -> _Sink:
    def names() -> Mapping[str, list[str] | None]:
        return groups(optimizer, limit)

    if isinstance(to, (str, os.PathLike)):
        return _Csv(Path(to), names, append)
    if hasattr(to, "add_scalar"):
        return _TensorBoard(to, names, optimizer)
    log = getattr(to, "log_metrics", None) or getattr(to, "log", None)
    if callable(log) and "step" in inspect.signature(log).parameters:  # Python's own logging has another log()
        return _Metrics(log, optimizer, limit)
    if callable(to):
        return _Sink(to)
    raise TypeError(
        "'to' must be the path of a CSV file, a TensorBoard SummaryWriter or a function, or have log_metrics() or "
        f"log() with a step, got {type(to).__name__}."
    )


def _check_columns(path: Path) -> None:
    with path.open(newline="", encoding="utf-8") as file:
        found = next(csv.reader(file), [])
    if tuple(found) != COLUMNS:
        raise ValueError(
            f"append=True needs a file that a RateLogger wrote, with the columns {', '.join(COLUMNS)}, but "
            f"{str(path)!r} begins with {', '.join(found)!r}; give another path."
        )
