"""Several optimizers on one problem, several seeds each, and whether the differences mean anything."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .records import Run
from .statistics import Summary, summarize, welch
from .train import Job, Settings, Watcher, execute, open_data, prepare
from .train.job import Data, MakeOptimizer, Model
from .train.run import MINUTES

PROBLEM = ("model", "data", "fingerprint", "split", "epochs", "batch_size", "augment", "dtype", "loss_scale")
OPTIMIZERS = ("adam", "adam-hd", "adam-cam-hd-2", "adam-cam-hd-3")


@dataclass(frozen=True)
class Entrant:
    """One row of a comparison.

    Args:
        optimizer: a name of the registry, or a function that makes an optimizer from a model.
        options: in place of its defaults.
        label: what the table calls it; None for the optimizer's own label and the options given here.
    """

    optimizer: MakeOptimizer
    options: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None

    @classmethod
    def parse(cls, text: str) -> Entrant:
        """An entrant from the words of a command line.

        >>> Entrant.parse("adam-cam-hd-2:lr=0.01,levels=global+filter").options
        {'lr': 0.01, 'levels': ('global', 'filter')}
        """
        name, _, rest = text.strip().partition(":")
        return cls(name, dict(parse_option(option) for option in rest.split(",") if option))


def parse_option(text: str) -> tuple[str, Any]:
    """`lr=0.01` as a name and a value; `+` stands between several values.

    >>> parse_option("faithful=true"), parse_option("betas=0.8+0.99")
    (('faithful', True), ('betas', (0.8, 0.99)))
    """
    name, equals, value = text.strip().partition("=")
    if not (name.isidentifier() and equals and value):
        raise ValueError(f"an option must be of the form name=value, such as lr=0.01, got {text!r}.")
    return name, _value(value)


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return float(text) if re.fullmatch(r"[-+]?(inf|nan)", text) else ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return tuple(_value(part) for part in text.split("+")) if "+" in text else text


def split_entrants(texts: Iterable[str]) -> list[str]:
    """Optimizers given one by one, or several with commas between them; what has a = belongs to the one before.

    >>> split_entrants(["adam,adam-hd:lr=0.1,hyper_lr=1e-6", "sgd"])
    ['adam', 'adam-hd:lr=0.1,hyper_lr=1e-6', 'sgd']
    """
    found: list[str] = []
    for text in texts:
        for number, piece in enumerate(filter(None, (piece.strip() for piece in text.split(",")))):
            if number and "=" in piece and ":" not in piece.partition("=")[0]:
                found[-1] += ("," if ":" in found[-1] else ":") + piece
            else:
                found.append(piece)
    return found


@dataclass(frozen=True)
class Row:
    """What became of one entrant.

    Args:
        label: what the table calls it.
        runs: one for each seed.
        metric: the final validation metric: mean, standard error, number of runs.
        loss: the final validation loss, likewise.
        averaged: the metric at averaged weights, likewise; of no run if the optimizer has none.
        p: of Welch's test that the metric's mean is that of the first row; nan where there is no test.
        step_ms: the mean over the runs of the median time of an optimizer step.
    """

    label: str
    runs: tuple[Run, ...]
    metric: Summary
    loss: Summary
    averaged: Summary
    p: float
    step_ms: float

    @property
    def ends(self) -> dict[str, int]:
        """How many runs ended how."""
        found: dict[str, int] = {}
        for run in self.runs:
            found[run.status] = found.get(run.status, 0) + 1
        return found


@dataclass(frozen=True)
class Comparison:
    """A table of runs on one problem.

    Args:
        model: that was trained.
        data: on which it was trained.
        split: of the data.
        metric: by which the rows are judged.
        rows: in order; the first is the one that the others are compared with.
    """

    model: str
    data: str
    split: str
    metric: str
    rows: tuple[Row, ...]

    @property
    def runs(self) -> tuple[Run, ...]:
        """All of them."""
        return tuple(run for row in self.rows for run in row.runs)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "model": self.model,
            "data": self.data,
            "split": self.split,
            "notes": notes(self.runs),
            "metric": f"valid_{self.metric}",
            "rows": [
                {
                    "label": row.label,
                    "optimizer": row.runs[0].config.optimizer,
                    "options": dict(row.runs[0].config.options),
                    "n": row.metric.count,
                    "mean": row.metric.mean,
                    "standard_error": row.metric.error,
                    "p": row.p,
                    "loss_mean": row.loss.mean,
                    "loss_standard_error": row.loss.error,
                    "averaged_mean": row.averaged.mean,
                    "averaged_standard_error": row.averaged.error,
                    "step_ms": row.step_ms,
                    "ends": row.ends,
                    "runs": [str(run.folder or run.config.id) for run in row.runs],
                }
                for row in self.rows
            ],
        }


def compare(
    model: Model,
    data: Data,
    optimizers: Sequence[MakeOptimizer | Entrant] = OPTIMIZERS,
    settings: Settings | None = None,
    *,
    seeds: int | Sequence[int] = 3,
    folder: str | Path | None = None,
    overwrite: bool = False,
    checkpoint_minutes: float = MINUTES,
    watcher: Watcher | None = None,
) -> Comparison:
    """Train with every optimizer and every seed, and compare what came out.

    With a folder, runs that are finished there are taken as they are, and interrupted ones go on.

    Args:
        model: a name, or a function that makes a model.
        data: a name, a data set, or a function that makes one.
        optimizers: names (with options, as in "adam:lr=0.01"), functions that make an optimizer, or `Entrant`s.
        settings: how to train.
        seeds: how many (0, 1, …), or which.
        folder: where the runs get their folders; None keeps no records on disk.
        overwrite: run everything again.
        checkpoint_minutes: between two checkpoints.
        watcher: is told how it goes.

    Example:
        >>> found = compare("ffnn:16", "digits", ["adam", "sgd:lr=0.5"], Settings(epochs=2), seeds=2)
        >>> [(row.label, row.metric.count) for row in found.rows]
        [('Adam', 2), ('SGD, lr 0.5', 2)]
    """
    jobs = plan(model, data, optimizers, settings, seeds)
    runs = [execute(job, folder, not overwrite, overwrite, checkpoint_minutes, watcher) for job in jobs]
    return tables(runs)[0]


def plan(
    model: Model,
    data: Data,
    optimizers: Sequence[MakeOptimizer | Entrant] = OPTIMIZERS,
    settings: Settings | None = None,
    seeds: int | Sequence[int] = 3,
) -> list[Job]:
    """The jobs of a comparison, all of them checked; the arguments are those of `compare`."""
    settings = settings or Settings()
    source = open_data(data, settings.split)
    numbers = range(seeds) if isinstance(seeds, int) else seeds
    if not numbers:
        raise ValueError(f"'seeds' must be one or more, got {seeds!r}.")
    if not optimizers:
        raise ValueError("'optimizers' must be one or more, got none.")
    jobs = [
        prepare(model, source, entrant.optimizer, settings, seed=seed, options=entrant.options, label=entrant.label)
        for entrant in map(_entrant, optimizers)
        for seed in numbers
    ]
    return list({job.config.id: job for job in jobs}.values())  # the same one twice is one


def _entrant(given: MakeOptimizer | Entrant) -> Entrant:
    if isinstance(given, Entrant):
        return given
    return Entrant.parse(given) if isinstance(given, str) else Entrant(given)


def tables(runs: Sequence[Run]) -> list[Comparison]:
    """Runs sorted by problem, and in each by everything but the seed, in the order in which they come.

    Runs that were trained for longer, on other batches, or on another part of the data are another problem.
    """
    problems: dict[tuple[Any, ...], dict[str, list[Run]]] = {}
    for run in runs:
        problem = tuple(getattr(run.config, name) for name in PROBLEM)
        problems.setdefault(problem, {}).setdefault(run.config.group, []).append(run)
    return [_comparison(list(rows.values())) for rows in problems.values()]


def notes(runs: Sequence[Run]) -> list[str]:
    """What a reader must know of the data, wherever results on them are shown; each note once."""
    return list(dict.fromkeys(str(run.start["note"]) for run in runs if run.start.get("note")))


def _comparison(groups: list[list[Run]]) -> Comparison:
    config = groups[0][0].config
    metric = next((run.metric for runs in groups for run in runs if run.start), "loss")
    first = _finals(groups[0], f"valid_{metric}")
    rows = []
    for number, runs in enumerate(groups):
        values = _finals(runs, f"valid_{metric}")
        times = [run.result["time"].get("step_ms") for run in runs if run.result is not None]
        rows.append(
            Row(
                label=runs[0].config.label or runs[0].config.optimizer,
                runs=tuple(runs),
                metric=summarize(values),
                loss=summarize(_finals(runs, "valid_loss")),
                averaged=summarize(_finals(runs, f"averaged_{metric}")),
                p=welch(values, first) if number else float("nan"),
                step_ms=summarize([time for time in times if time is not None]).mean,
            )
        )
    return Comparison(config.model, config.data, config.split, metric, tuple(rows))


def _finals(runs: Sequence[Run], name: str) -> list[float]:
    """Of the runs that have ended."""
    return [float(run.final[name]) for run in runs if run.result is not None and name in run.final]
