"""Runs as tables of text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..lab.bench.report import Table
from ..lab.compare import Comparison, Row, notes
from ..lab.records import Run, RunConfig, metrics_of
from ..lab.statistics import Summary


def comparison(found: Comparison) -> Table:
    """Mean ± standard error, n, Welch's p against the first row, the metric at averaged weights, time of a step."""
    config = found.rows[0].runs[0].config
    judged = "test" if found.split == "full" else "validation"
    columns = ["optimizer", f"{judged} {_title(found.metric)}", "n", "p"]
    columns += [f"{judged} loss"] if found.metric != "loss" else []
    some = any(row.averaged.count for row in found.rows)
    columns += ["averaged weights"] if some else []
    rows = [
        (
            row.label,
            _summary(row.metric, found.metric),
            str(row.metric.count),
            "" if math.isnan(row.p) else f"{row.p:.2g}",
            *([_summary(row.loss, "loss")] if found.metric != "loss" else []),
            *([_summary(row.averaged, found.metric)] if some else []),
            "" if math.isnan(row.step_ms) else f"{row.step_ms:.3g}",
            _ends(row),
        )
        for row in found.rows
    ]
    columns += ["ms/step", "ended"]
    words = [f"{found.model} on {found.data}", *([] if found.split == "full" else [found.split])]
    words += [
        f"{config.epochs} epoch{'s' * (config.epochs > 1)}",
        f"batches of {config.batch_size}",
        *([config.augment] if config.augment else []),
    ]
    words[-1] += "; mean ± S.E."
    return Table("\n".join([", ".join(words), *notes(found.runs)]), columns, rows, left=1)


def one(run: Run) -> list[Table]:
    """A run by itself: what it was, and its epochs."""
    facts = {
        "status": run.status,
        "parameters": f"{run.start.get('parameters', 0):,}",
        **{name: value for name, value in run.config.as_dict().items() if name not in ("format", "id", "fingerprint")},
    }
    about = Table(
        "\n".join([run.config.id, *notes([run])]),
        ("what", "value"),
        [(name, _text(value)) for name, value in facts.items()],
        left=2,
    )
    names = list(metrics_of(run.epochs[0])) if run.epochs else []
    rows = [
        (
            str(line["epoch"]),
            *(_number(line[name], name.partition("_")[2]) for name in names),
            f"{line['time']['seconds']:.3g}",
        )
        for line in run.epochs
    ]
    columns = ("epoch", *(_title(name) for name in names), "seconds")
    return [about, Table("Epochs", columns, rows, left=0)]


def each(runs: Sequence[Run]) -> Table:
    """One row for each run."""
    rows = [
        (
            run.config.id,
            run.config.label or run.config.optimizer,
            run.status,
            f"{len(run.epochs)}/{run.config.epochs}",
            _number(run.final.get(f"valid_{run.metric}", math.nan), run.metric),
            run.metric,
        )
        for run in runs
    ]
    return Table(
        "\n".join(["Runs", *notes(runs)]), ("run", "optimizer", "status", "epochs", "final", "metric"), rows, left=3
    )


def as_dict(run: Run) -> dict[str, Any]:
    """A run for JSON, without its history of rates."""
    return {
        "folder": None if run.folder is None else str(run.folder),
        "status": run.status,
        "config": run.config.as_dict(),
        "epochs": list(run.epochs),
        "final": dict(run.final),
        "result": None if run.result is None else dict(run.result),
        "problems": list(run.problems),
    }


def file_name(config: RunConfig) -> str:
    """The name of a report on one problem."""
    return "".join(letter if letter.isalnum() else "-" for letter in f"{config.data}-{config.model}") + ".html"


def _ends(row: Row) -> str:
    """Only what is unusual."""
    return ", ".join(f"{count} {how}" for how, count in row.ends.items() if how != "finished")


def _title(name: str) -> str:
    return name.replace("accuracy", "accuracy, %").replace("r2", "R²").replace("_", " ")


def _number(value: float, metric: str) -> str:
    if metric == "accuracy":
        return f"{100 * value:.2f}"
    return f"{value:.4f}" if 1e-3 <= abs(value) < 1e4 else f"{value:.4g}"


def _summary(found: Summary, metric: str) -> str:
    if not found.count:
        return ""
    error = "" if math.isnan(found.error) else f" ± {_number(found.error, metric)}"
    return _number(found.mean, metric) + error


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(inner)}" for name, inner in value.items())
    return "+".join(map(str, value)) if isinstance(value, list) else "–" if value is None else str(value)
