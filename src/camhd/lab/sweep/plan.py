"""A plan: a list of runs, each as plain data that any machine can read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from .. import optimizers
from ..choices import choose
from ..compare import Entrant
from ..records.text import plain
from ..train import Settings


@dataclass(frozen=True, kw_only=True)
class Item(Settings):
    """One run of a plan: what `camhd.lab.train` takes, as words and numbers only.

    Model, data and optimizer are names of the catalogs, or functions of your own by their place:
    "package.module:function" or "FILE.py:function". The other arguments are those of `Settings`.

    Args:
        model: a name such as "ffnn:100,100".
        data: a name such as "digits".
        optimizer: a name such as "adam"; options may follow it, as in "adam:lr=0.01".
        options: of the optimizer, in place of its defaults.
        label: what tables call the optimizer.
        seed: decides initial weights, order of examples, augmentation and dropout.

    >>> Item(optimizer="adam:lr=0.01", epochs=3, seed=1).options
    {'lr': 0.01}
    """

    model: str = "ffnn:100,100"
    data: str = "digits"
    optimizer: str = "adam"
    options: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("model", "data", "optimizer"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise ValueError(
                    f"'{name}' must be a name, or the place of a function as module:function, got {value!r}."
                )
        if self.optimizer.partition(":")[0].strip() in optimizers.names():
            entrant = Entrant.parse(self.optimizer)
            object.__setattr__(self, "optimizer", entrant.optimizer)
            object.__setattr__(self, "options", {**entrant.options, **self.options})
        object.__setattr__(self, "options", plain(self.options))
        self.settings("cpu")  # the device may be one that only the machines of a cluster have

    def settings(self, device: str | None = None) -> Settings:
        """How to train, checked; on the run's own device if none is named."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(Settings)}
        return Settings(**{**values, "device": device or self.device})

    def as_dict(self) -> dict[str, Any]:
        """What differs from the defaults, for JSON."""
        usual = {entry.name: entry.default for entry in fields(self)} | {"options": {}}
        return {name: getattr(self, name) for name, value in usual.items() if getattr(self, name) != value}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Item:
        """What `as_dict` gave, or a table of a plan file."""
        if not isinstance(values, Mapping):
            raise ValueError(f"a run must be a table of names and values, got {values!r}.")
        for name in values:
            choose("run", name, NAMES)
        return cls(**values)

    def __str__(self) -> str:
        words = [f"{self.optimizer} on {self.data} with {self.model}", *(f"{k}={v}" for k, v in self.options.items())]
        return f"{', '.join(words)}, seed {self.seed}"


NAMES = tuple(entry.name for entry in fields(Item))


@dataclass(frozen=True)
class Plan:
    """Several runs under one name.

    Args:
        name: of the plan; the command line puts its records into `runs/<name>`.
        items: the runs, in the order in which they are begun.
        path: a folder in which modules of your own are looked for, beside Python's own; None for no other.

    >>> plan = Plan.grid(name="rates", optimizer=["adam", "adam-hd"], options={"lr": [0.1, 0.01]}, seeds=2, epochs=3)
    >>> len(plan.items), plan.items[0].options, plan.items[-1].seed
    (8, {'lr': 0.1}, 1)
    """

    name: str
    items: tuple[Item, ...]
    path: str | None = None

    def __post_init__(self) -> None:
        if not self.name or self.name.startswith(".") or any(letter in self.name for letter in '/\\:*?"<>|'):
            raise ValueError(
                f"'name' of a plan must do as the name of a folder, got {self.name!r}; take letters and -."
            )
        items = tuple(self.items)
        if not items:
            raise ValueError(f"the plan {self.name!r} must have at least one run, but has none.")
        wrong = next((item for item in items if not isinstance(item, Item)), None)
        if wrong is not None:
            raise TypeError(f"'items' of a plan must be camhd.lab.sweep.Item, got {wrong!r}.")
        object.__setattr__(self, "items", items)

    def __len__(self) -> int:
        return len(self.items)

    @classmethod
    def grid(cls, name: str = "sweep", **choices: Any) -> Plan:
        """Every combination of some choices; one of each before the second seed of any.

        Args:
            name: of the plan.
            choices: the arguments of `Item`, and `seeds` (how many, or which). A list holds alternatives, and so does a
                list inside `options`; anything else is the same for all runs.
        """
        return cls(name, tuple(combinations(choices)))

    @classmethod
    def from_file(cls, path: str | Path) -> Plan:
        """A plan from a .toml or .json file, or from `plan()` in a .py file; `FILE.py:function` names another one."""
        from .reading import read_plan

        return read_plan(path)


def combinations(choices: Mapping[str, Any]) -> Iterator[Item]:
    """The runs of a grid."""
    if "seeds" in choices and "seed" in choices:
        raise ValueError("'seed' and 'seeds' contradict each other; give 'seeds', how many or which.")
    for name in choices:
        choose("grid", name, (*NAMES, "seeds"))
    given = dict(choices)
    seeds, options = _seeds(given.pop("seeds", given.pop("seed", 0)), "seeds" in choices), given.pop("options", {})
    if not isinstance(options, Mapping):
        raise ValueError(f"'options' of a grid must be a table of names and values, got {options!r}.")
    axes = [(name, _alternatives(name, value)) for name, value in given.items()]
    inner = [(name, _alternatives(name, value)) for name, value in options.items()]
    for seed in seeds:
        for values in itertools.product(*(found for _, found in axes)):
            for chosen in itertools.product(*(found for _, found in inner)):
                fixed = dict(zip((name for name, _ in axes), values, strict=True))
                yield Item(**fixed, options=dict(zip((name for name, _ in inner), chosen, strict=True)), seed=seed)


def _seeds(value: Any, counted: bool) -> Sequence[int]:
    if isinstance(value, (list, tuple, range)):
        return list(_alternatives("seeds", value))
    if not isinstance(value, int) or isinstance(value, bool) or (counted and value < 1):
        raise ValueError(f"'seeds' must be a whole number, 1 or more, or a list of seeds, got {value!r}.")
    return range(value) if counted else [value]


def _alternatives(name: str, value: Any) -> Sequence[Any]:
    if not isinstance(value, (list, tuple, range)):
        return [value]
    if not value:
        raise ValueError(f"'{name}' of a grid must have at least one alternative, but has none.")
    return list(value)
