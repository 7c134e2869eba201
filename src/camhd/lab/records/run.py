"""One run as it is read back, and many of them as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...report import QUANTILES
from .config import RunConfig

if TYPE_CHECKING:
    import pandas as pd

Line = Mapping[str, Any]
METRICS = ("train_", "valid_", "averaged_")  # what metrics are of: averaged weights are judged as `valid_` are


@dataclass(frozen=True)
class Run:
    """One run.

    Args:
        config: everything that decided it.
        start: the line at the beginning of its history; empty if it has not begun.
        epochs: one line for each epoch.
        rates: one line for each time that the rates were written down.
        result: how it ended; None while it has not.
        folder: where its record lies; None if it was not kept.
        problems: what was wrong with the record, in words.
        failure: the traceback with which the run failed in a sweep; empty if it did not.
    """

    config: RunConfig
    start: Line = field(default_factory=dict)
    epochs: Sequence[Line] = ()
    rates: Sequence[Line] = ()
    result: Line | None = None
    folder: Path | None = None
    problems: tuple[str, ...] = ()
    failure: str = ""

    @property
    def status(self) -> str:
        """`finished`, `stopped` (early), `diverged`, `failed`, or `unfinished`."""
        if self.result is None:
            return "failed" if self.failure else "unfinished"
        return str(self.result["status"])

    @property
    def metric(self) -> str:
        """What the run is judged by: accuracy, r2 (regression) or loss (language)."""
        return str(self.start.get("metric", "loss"))

    @property
    def final(self) -> Line:
        """The last epoch's metrics, of an unfinished run too; empty if there is no epoch yet."""
        if self.result is not None:
            final: Line = self.result["final"]
            return final
        return metrics_of(self.epochs[-1]) if self.epochs else {}


def metrics_of(epoch: Line) -> dict[str, float]:
    """The losses, accuracies and so on of an epoch's line."""
    return {name: value for name, value in epoch.items() if name.startswith(METRICS)}


def run_from_lines(
    config: RunConfig,
    lines: Sequence[Line],
    result: Line | None,
    folder: Path | None = None,
    problems: tuple[str, ...] = (),
    failure: str = "",
) -> Run:
    """A run from the lines of its history."""
    kinds: dict[str, list[Line]] = {"start": [], "epoch": [], "rates": []}
    for line in lines:
        kinds.setdefault(str(line.get("kind")), []).append(line)
    start = kinds["start"][0] if kinds["start"] else {}
    return Run(config, start, tuple(kinds["epoch"]), tuple(kinds["rates"]), result, folder, problems, failure)


@dataclass(frozen=True)
class Runs:
    """Several runs, and what could not be read.

    Args:
        runs: in the order of their folders.
        problems: what was wrong with which folder, in words.
    """

    runs: tuple[Run, ...]
    problems: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    @property
    def epochs(self) -> pd.DataFrame:
        """One row for each epoch of each run."""
        return _frame(
            {**_who(run), "epoch": line["epoch"], "step": line["step"], **metrics_of(line), **line.get("time", {})}
            for run in self.runs
            for line in run.epochs
        )

    @property
    def results(self) -> pd.DataFrame:
        """One row for each run: its configuration, how it ended, its last and its best epoch."""
        return _frame(_result_row(run) for run in self.runs)

    @property
    def rates(self) -> pd.DataFrame:
        """One row for each rate that was written down: run, step, level, group (or quantile), rate."""
        return _frame(row for run in self.runs for row in _rate_rows(run))


def _who(run: Run) -> dict[str, Any]:
    config = run.config
    return {
        "id": config.id,
        "label": config.label or config.optimizer,
        "data": config.data,
        "model": config.model,
        "optimizer": config.optimizer,
        "seed": config.seed,
    }


def _result_row(run: Run) -> dict[str, Any]:
    result = run.result or {}
    config = {key: value for key, value in run.config.as_dict().items() if key not in ("format", "id", "options")}
    return {
        **config,
        **_who(run),
        "options": dict(run.config.options),
        "parameters": run.start.get("parameters"),
        "status": run.status,
        "steps": result.get("steps"),
        **{f"final_{name}": value for name, value in run.final.items()},
        **{f"best_{name}": value for name, value in result.get("best", {}).items()},
        **result.get("time", {}),
    }


def _rate_rows(run: Run) -> Iterator[dict[str, Any]]:
    names = run.start.get("groups") or {}
    for line in run.rates:
        for level, found in (line["rates"] or {}).items():
            pairs = (
                zip(names.get(level) or range(len(found["values"])), found["values"], strict=False)
                if "values" in found
                else zip(QUANTILES, found["quantiles"], strict=True)
            )
            for group, rate in pairs:
                yield {**_who(run), "step": line["step"], "level": level, "group": str(group), "rate": rate}


def _frame(rows: Iterator[dict[str, Any]]) -> pd.DataFrame:
    try:
        import pandas
    except ModuleNotFoundError as missing:
        if missing.name != "pandas":
            raise
        raise ModuleNotFoundError("tables of runs need pandas: pip install 'camhd[lab]'", name="pandas") from None
    return pandas.DataFrame(list(rows))
