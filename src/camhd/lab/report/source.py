"""Where runs come from: the one place of the report that knows how records are read.

A run is boiled down as soon as it is read, so that a thousand of them fit into memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from .. import records
from ..records import Run

# More snapshots of the rates than this are not drawn: a screen has no more columns.
COLUMNS = 160
# How a run ended whose last numbers may stand in a table.
COUNTED = ("finished", "stopped", "diverged")

Source: TypeAlias = str | Path | Run
Values: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Entry:
    """One run, boiled down.

    Attributes:
        where: The name of the run's folder, or its id; for people.
        status: `finished`, `stopped` or `diverged`; a run that is `unfinished`, `failed` or `damaged` has no last
            numbers.
        reason: What is wrong with it, in words.
        config: What decided the run; empty if that could not be read.
        start: What was known at its start: groups, number of parameters, a note about the data.
        epochs: The metrics of every epoch, and three times: `seconds` since the start of the run, `train_seconds` and
            `optimizer_seconds` of the epoch.
        snapshots: The rates at some steps; at most `COLUMNS`.
        final: The metrics at the end.
        best: The metrics of the best epoch.
        time: Seconds in all, and milliseconds per step.
        started: When, as the record says it.
        environment: Versions and machine.
        steps: Taken until the end; nan of a run that has not ended.
    """

    where: str
    status: str
    reason: str = ""
    config: Values = field(default_factory=dict)
    start: Values = field(default_factory=dict)
    epochs: Sequence[Mapping[str, float]] = ()
    snapshots: Sequence[Values] = ()
    final: Mapping[str, float] = field(default_factory=dict)
    best: Mapping[str, float] = field(default_factory=dict)
    time: Mapping[str, float] = field(default_factory=dict)
    started: str = ""
    environment: Values = field(default_factory=dict)
    steps: float = math.nan

    @property
    def counted(self) -> bool:
        """Whether its last numbers may stand in a table."""
        return self.status in COUNTED


def entries(sources: Source | Iterable[Source]) -> Iterator[Entry]:
    """Every run in folders, however deep, or in memory; one that cannot be read is an entry too."""
    given = [sources] if isinstance(sources, (str, Path, Run)) else list(sources)
    yield from (boil_down(source) for source in given if isinstance(source, Run))
    for folder in records.find([source for source in given if not isinstance(source, Run)]):
        try:
            run = records.read(folder)
        except (OSError, ValueError) as error:
            yield Entry(folder.name, "damaged", str(error))
        else:
            yield boil_down(run)


def boil_down(run: Run) -> Entry:
    """Keep what a page shows."""
    result = run.result or {}
    wrong = [*run.problems, *([str(result["error"])] if result.get("error") else [])]
    if run.status == "unfinished":
        wrong.append(f"{len(run.epochs)} of {run.config.epochs} epochs")
    return Entry(
        where=run.folder.name if run.folder else run.config.id,
        status=run.status,
        reason="; ".join(wrong),
        config=run.config.as_dict(),
        start=run.start,
        epochs=_epochs(run.epochs),
        snapshots=thinned(run.rates, COLUMNS),
        final=numbers(run.final),
        best=numbers(result.get("best") or {}),
        time=numbers(result.get("time") or {}),
        started=str((result.get("time") or {}).get("started", "")),
        environment=result.get("environment") or {},
        steps=float(result.get("steps", math.nan)),
    )


def _epochs(rows: Sequence[Values]) -> list[dict[str, float]]:
    found, clock = [], 0.0
    for row in rows:
        time = numbers(row.get("time") or {})
        clock += time.get("seconds", math.nan)
        times = {name: time.get(name, math.nan) for name in ("train_seconds", "optimizer_seconds")}
        found.append({**numbers(row), **times, "seconds": clock})
    return found


def thinned(rows: Sequence[Values], limit: int) -> list[Values]:
    """Every second, fourth, eighth … row, and the last one, so that runs of different length keep rows in common."""
    stride = 1
    while -(-len(rows) // stride) > limit:
        stride *= 2
    kept = list(rows[::stride])
    return kept if not rows or kept[-1] is rows[-1] else [*kept, rows[-1]]


def numbers(values: Values) -> dict[str, float]:
    """Those values that are numbers."""
    return {k: float(v) for k, v in values.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
