"""Where runs come from: the one place of the report that knows how records are read.

A run is boiled down as it is read, so that a thousand of them fit into memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

# More snapshots of the rates than this are not drawn: a screen has no more columns.
COLUMNS = 160
# What happened to a run, and whether its last numbers may stand in a table.
COUNTED = ("finished", "stopped", "diverged")

Values: TypeAlias = Mapping[str, Any]


class Run(Protocol):
    """What the report needs of `camhd.lab.records.Run`."""

    @property
    def config(self) -> Values: ...
    @property
    def start(self) -> Values | None: ...
    @property
    def epochs(self) -> Sequence[Values]: ...
    @property
    def rates(self) -> Sequence[Values]: ...
    @property
    def result(self) -> Values | None: ...


Source: TypeAlias = str | Path | Run


@dataclass(frozen=True)
class Entry:
    """One run, boiled down.

    Attributes:
        where: The run's folder, or its id; for people.
        status: `finished`, `stopped`, `diverged`; `unfinished`, `failed` or `damaged` runs have no last numbers.
        reason: Why it is not finished, in words.
        config: What decided the run.
        start: What was known at its start: groups, number of parameters.
        epochs: The metrics of every epoch, as numbers; `seconds` since the start and `optimizer_seconds` among them.
        snapshots: The rates at some steps; at most `COLUMNS`.
        final: The metrics at the end.
        best: The metrics of the best epoch.
        time: Seconds in all, and milliseconds per step.
        environment: Versions and machine.
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
    environment: Values = field(default_factory=dict)

    @property
    def counted(self) -> bool:
        """Whether its last numbers may stand in a table."""
        return self.status in COUNTED


def entries(sources: Source | Iterable[Source]) -> Iterator[Entry]:
    """Every run in folders (at any depth) or in memory."""
    given = [sources] if isinstance(sources, (str, Path)) or not isinstance(sources, Iterable) else list(sources)
    for source in given:
        if not isinstance(source, (str, Path)):
            yield boil_down(source, str(source.config.get("id", "a run in memory")))
            continue
        yield from _read(Path(source))


def boil_down(run: Run, where: str) -> Entry:
    """Keep what a page shows."""
    result = run.result or {}
    epochs = _epochs(run.epochs)
    metrics = [{k: v for k, v in row.items() if not k.endswith("seconds")} for row in epochs]
    status = str(result.get("status", "unfinished"))
    done, planned = len(epochs), run.config.get("epochs")
    reason = str(result.get("error", "") or (f"{done} of {planned} epochs" if status == "unfinished" else ""))
    return Entry(
        where=where,
        status=status,
        reason=reason,
        config=run.config,
        start=run.start or {},
        epochs=epochs,
        snapshots=thinned(run.rates, COLUMNS),
        final=numbers(result.get("final") or (metrics[-1] if metrics else {})),
        best=numbers(result.get("best") or {}),
        time=numbers(result.get("time") or {}),
        environment=result.get("environment") or {},
    )


def _epochs(rows: Sequence[Values]) -> list[dict[str, float]]:
    found, clock = [], 0.0
    for row in rows:
        time = numbers(row.get("time") or {})
        clock += time.get("seconds", math.nan)
        found.append(numbers(row) | {"seconds": clock, "optimizer_seconds": time.get("optimizer_seconds", math.nan)})
    return found


def thinned(rows: Sequence[Values], limit: int) -> list[Values]:
    """Every second, fourth, eighth … row, and the last one, so that runs of different length keep rows in common."""
    stride = 1
    while -(-len(rows) // stride) > limit:
        stride *= 2
    kept = list(rows[::stride])
    return kept if not rows or kept[-1] is rows[-1] else [*kept, rows[-1]]


def numbers(values: Values) -> dict[str, float]:
    """Those values that are numbers; `"nan"` and `"inf"` are the records' spelling of such."""
    found = {}
    for key, value in values.items():
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if is_number or value in ("nan", "inf", "-inf"):
            found[key] = float(value)
    return found


# Until camhd.lab.records is here.


@dataclass(frozen=True)
class _Run:
    config: Values
    start: Values | None
    epochs: Sequence[Values]
    rates: Sequence[Values]
    result: Values | None


def _read(folder: Path) -> Iterator[Entry]:
    for path in sorted(folder.rglob("config.json")):
        where = path.parent
        try:
            lines = [json.loads(line) for line in (where / "history.jsonl").read_text().splitlines()]
            of = {kind: [line for line in lines if line["kind"] == kind] for kind in ("start", "epoch", "rates")}
            done = where / "result.json"
            result = json.loads(done.read_text()) if done.exists() else None
            run = _Run(json.loads(path.read_text()), of["start"][0], of["epoch"], of["rates"], result)
        except (OSError, ValueError, LookupError) as error:
            yield Entry(where.name, "damaged", f"{type(error).__name__}: {error}")
            continue
        yield boil_down(run, where.name)
