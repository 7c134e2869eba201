"""An entry of the registry: what an optimizer is called, what it is set to, and how it is built."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from .drivers import Driver
from .paper import TASKS

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Package:
    """A package that must be installed."""

    name: str  # on PyPI
    module: str  # what is imported

    @property
    def installed(self) -> bool:
        return importlib.util.find_spec(self.module.partition(".")[0]) is not None


@dataclass(frozen=True)
class Entry:
    """One optimizer of the registry.

    `function` makes the optimizer (or a `Driver` of its own) from a model and options; what it is given first is the
    module of `package`, if there is one.
    """

    name: str
    label: str  # for people
    function: Callable[..., torch.optim.Optimizer | Driver]
    accepts: tuple[str, ...]  # the names of its options; () for whatever `function` takes
    defaults: Mapping[str, Any] = field(default_factory=dict)
    paper: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by task
    package: Package | None = None

    @property
    def installed(self) -> bool:
        """Whether it can be built here."""
        return self.package is None or self.package.installed

    def resolve(self, options: Mapping[str, Any] | None = None, task: str | None = None) -> dict[str, Any]:
        """All options as they will be: the defaults, then the paper's settings for the task, then those given here."""
        if task is not None and task not in TASKS:
            raise ValueError(
                f"'task' must be one of {', '.join(map(repr, TASKS))} or None, got {task!r}; "
                "camhd.lab.optimizers.task_of(model) gives the task of a model's name."
            )
        given = dict(options or {})
        self._check(given)
        of_paper = self.paper.get(task, NOTHING) if task is not None else NOTHING
        return {**self.defaults, **of_paper, **given}

    def build(self, model: nn.Module, options: Mapping[str, Any] | None = None, task: str | None = None) -> Driver:
        """The optimizer over a model, ready to be driven. Options that are not given are those of `resolve`."""
        resolved = {name: _tupled(value) for name, value in self.resolve(options, task).items()}
        arguments = [model] if self.package is None else [self._module(self.package), model]
        made = self.function(*arguments, **resolved)
        if isinstance(made, Driver):
            return made
        if not isinstance(made, torch.optim.Optimizer):
            raise TypeError(
                f"the function of optimizer {self.name!r} must return a torch.optim.Optimizer or a "
                f"camhd.lab.optimizers.Driver, got {type(made).__name__}."
            )
        return Driver(made)

    def _module(self, package: Package) -> Any:
        if not package.installed:
            raise ImportError(
                f"optimizer {self.name!r} needs the package {package.name!r}, which is not installed; "
                f"pip install 'camhd[peers]', or pip install {package.name}."
            )
        return importlib.import_module(package.module)

    def _check(self, options: Mapping[str, Any]) -> None:
        """Refuse an option that does not exist, and name the nearest one."""
        for name in options:
            if self.accepts and name not in self.accepts:
                near = difflib.get_close_matches(name, self.accepts, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"its options are {', '.join(self.accepts)}."
                raise ValueError(f"optimizer {self.name!r} has no option {name!r}; {hint}")


def from_function(
    function: Callable[..., torch.optim.Optimizer | Driver], name: str = "own", label: str | None = None
) -> Entry:
    """An entry for an optimizer of your own.

    Args:
        function: makes a torch optimizer from a model; further arguments of it are options.
        name: what it is called in records.
        label: what it is called in tables.

    >>> entry = from_function(lambda model, lr=0.1: torch.optim.Rprop(model.parameters(), lr=lr), "rprop", "Rprop")
    >>> entry.build(nn.Linear(2, 2), {"lr": 0.01}).rate()
    0.01
    """
    if not callable(function):
        raise TypeError(f"'function' must make an optimizer from a model, got {function!r}.")
    return Entry(name, label or name, function, option_names(function, skip=1))


def option_names(function: Callable[..., Any], skip: int, extra: Mapping[str, Any] = NOTHING) -> tuple[str, ...]:
    """The names of a function's arguments but for the first ones, and extra names in place of `**options`."""
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    found = list(inspect.signature(function).parameters.values())[skip:]
    return (*(p.name for p in found if p.kind not in kinds), *extra)


def _tupled(value: Any) -> Any:
    """Lists, which is what JSON makes of tuples, as tuples."""
    return tuple(value) if isinstance(value, list) else value
