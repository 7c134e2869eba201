"""Runs sorted into tasks and methods: a method's runs differ in nothing but seed or fold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..records import metrics_of
from .source import Entry

# Entries of a configuration that tell runs of one method apart, or say nothing.
_OF_THE_RUN = ("id", "seed", "format", "label")
_MORE_WORDS = 3


@dataclass(frozen=True)
class Metric:
    """A number that runs are compared by.

    Attributes:
        key: Its name in the records.
        title: Its name for people.
        percent: Whether it is a fraction shown in percent.
        higher: Whether more is better.
    """

    key: str
    title: str
    percent: bool
    higher: bool


@dataclass
class Method:
    """Runs that differ in nothing but seed or fold."""

    label: str
    config: Mapping[str, Any]
    runs: list[Entry] = field(default_factory=list)
    name: str = ""

    @property
    def names(self) -> tuple[str, str, str]:
        """By any of which it may be called."""
        return self.name, self.label, str(self.config.get("optimizer"))

    @cached_property
    def counted(self) -> list[Entry]:
        """Runs whose last numbers may stand in a table."""
        return [run for run in self.runs if run.counted]

    @cached_property
    def shown(self) -> list[Entry]:
        """Runs whose curves are drawn: unfinished ones only as long as there is nothing else."""
        return self.counted or [run for run in self.runs if run.epochs]

    def finals(self, metric: str) -> list[float]:
        """The metric at the end of every counted run that has it."""
        return [run.final[metric] for run in self.counted if metric in run.final]

    def bests(self, metric: str) -> list[float]:
        """The metric in the best epoch of every counted run that has it."""
        return [run.best[metric] for run in self.counted if metric in run.best]


@dataclass
class Task:
    """Methods that were given the same problem: one table, one set of curves."""

    model: str
    data: str
    split: str
    methods: list[Method] = field(default_factory=list)
    title: str = ""

    @property
    def name(self) -> str:
        """What is trained on what; its title, if it has one."""
        if self.title:
            return self.title
        return f"{self.model} on {self.data}" + ("" if self.split == "full" else f", {self.split}")

    @cached_property
    def metrics(self) -> list[Metric]:
        """What was measured after every epoch; the most telling first."""
        rows = (row for method in self.methods for run in method.shown for row in (run.final, *run.epochs[-1:]))
        keys = {key for row in rows for key in metrics_of(row)} - {"train_seconds"}
        judged = [f"valid_{run.start['metric']}" for m in self.methods for run in m.runs if "metric" in run.start][:1]
        known = [*judged, "valid_accuracy", "valid_r2", "valid_loss", "train_loss", "train_accuracy", *sorted(keys)]
        return [self._metric(key) for key in dict.fromkeys(known) if key in keys]

    def _metric(self, key: str) -> Metric:
        kind, _, rest = key.partition("_")
        judged = "test" if self.split == "full" else "validation"
        names = {"valid": judged, "averaged": f"averaged weights: {judged}", "train": "training"}
        words = f"{names[kind]} {rest}" if kind in names else key
        words = words.replace("_", " ").replace(" r2", " R²")
        lower = any(word in key for word in ("loss", "error", "perplexity"))
        return Metric(key, words[0].upper() + words[1:], percent="accuracy" in key, higher=not lower)

    @property
    def differing(self) -> list[str]:
        """Entries of the configuration in which the methods differ."""
        flats = [flat(method.config) for method in self.methods]
        keys = dict.fromkeys(key for one in flats for key in one)
        return [key for key in keys if len({_text(one.get(key)) for one in flats}) > 1]


def tasks(runs: Iterable[Entry], first: str | None = None) -> list[Task]:
    """Sort runs into tasks and methods, in the order in which they come.

    Args:
        runs: Runs that have a configuration.
        first: The method that the others are compared with: a label, a name or an optimizer's name.
    """
    found: dict[str, Task] = {}
    methods: dict[tuple[str, str], Method] = {}
    for run in runs:
        config = {k: v for k, v in run.config.items() if k not in _OF_THE_RUN}
        config["split"] = re.sub(r"^fold:\d+/(\d+)$", r"\1 folds", str(config.get("split", "full")))
        model, data, split = (str(config.get(key, "?")) for key in ("model", "data", "split"))
        task = found.setdefault(_text([model, data, split]), Task(model, data, split))
        key = task.name, _text(config)
        if key not in methods:
            label = str(run.config.get("label") or config.get("optimizer", "?"))
            methods[key] = Method(label, config)
            task.methods.append(methods[key])
        methods[key].runs.append(run)
    for task in found.values():
        _name(task.methods)
        task.methods.sort(key=lambda method: first not in method.names)
    return list(found.values())


def _name(methods: Sequence[Method]) -> None:
    """Labels are names where they are unique; otherwise the name says what differs."""
    for label in dict.fromkeys(method.label for method in methods):
        same = [method for method in methods if method.label == label]
        flats = [flat(method.config) for method in same]
        keys = dict.fromkeys(key for one in flats for key in one)
        differ = [key for key in keys if len({_text(one.get(key)) for one in flats}) > 1]
        taken: set[str] = set()
        for method, values in zip(same, flats, strict=True):
            words = [f"{key.removeprefix('options.')} {shown(values.get(key))}" for key in differ[:_MORE_WORDS]]
            name = f"{label} ({', '.join(words)})" if words else label
            number = 2
            while name in taken:
                name, number = f"{label} ({', '.join(words)}) #{number}", number + 1
            taken.add(name)
            method.name = name


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested entries under dotted names.

    >>> flat({"model": "lenet5", "options": {"lr": 0.001}})
    {'model': 'lenet5', 'options.lr': 0.001}
    """
    found: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def shown(value: Any) -> str:
    """A value of a configuration as people write it.

    >>> shown(1e-07), shown(None), shown([0.5, 0.5]), shown("fold:1/5")
    ('1e-07', 'none', '0.5, 0.5', 'fold:1/5')
    """
    if isinstance(value, (list, tuple)):
        return ", ".join(map(shown, value))
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
