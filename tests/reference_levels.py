"""The levels of the literal algorithm (:mod:`reference`), from names and shapes by the table of section 2."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

Scalars = dict[str, Tensor]  # one number per scalar parameter: parameter name → tensor of its shape
Options = Mapping[str, Any]

ROOT_TO_LEAF = ("global", "group", "block", "layer", "gate", "unit", "filter", "parameter")


def layer_of(name: str) -> str:
    """The module that owns a parameter. One without a name is called by its number, its own layer."""
    return name if name.isdigit() else name.rpartition(".")[0] or "(root)"


def cell_of(name: str) -> str:
    """Like :func:`layer_of`, but each layer of a stacked recurrent module by itself: ``lstm.l0``, ``lstm.l1``."""
    stacked = re.search(r"(?:weight|bias)_(?:ih|hh)_(l\d+(?:_reverse)?)$", name)
    return f"{layer_of(name)}.{stacked[1]}" if stacked else layer_of(name)


def group_key(level: str, name: str, shape: torch.Size, at: tuple[int, ...], o: Options) -> Any:
    """Which group of ``level`` owns the scalar at coordinates ``at`` of parameter ``name``."""
    if level == "global":
        return "global"
    if level == "group":
        return str(o["param_group"])
    if level == "block":
        return o["blocks"](name)
    if level == "layer":
        return layer_of(name)
    if level == "gate":
        gates = o["gates"].get(layer_of(name))
        if gates is None:
            return layer_of(name)
        return f"{cell_of(name)}.{gates[at[0] * len(gates) // shape[0]]}"
    if level in ("unit", "filter") and o["axis"] == "input":
        return (name, at[1] if len(at) > 1 else 0)
    if level in ("unit", "filter"):
        return (cell_of(name), at[o["output_dim"].get(name, 0)] if at else 0)
    if level == "parameter":
        return (name, at)
    raise ValueError(f"'levels' knows {', '.join(ROOT_TO_LEAF)}, but '{level}' was asked for.")


class Partition:
    """One level: ``keys`` names its groups, ``index[name]`` says for every scalar which group owns it."""

    def __init__(self, level: str, shapes: Mapping[str, torch.Size], options: Mapping[str, Options]):
        self.level = level
        numbers: dict[Any, int] = {}
        self.index: dict[str, Tensor] = {}
        for name, shape in shapes.items():
            self.index[name] = torch.zeros(shape, dtype=torch.long)
            for at in itertools.product(*map(range, shape)):
                key = group_key(level, name, shape, at, options[name])
                self.index[name][at] = numbers.setdefault(key, len(numbers))
        self.keys = list(numbers)

    def down(self, rates: Tensor) -> Scalars:
        """Hand one number per group down to every scalar of the group."""
        return {name: rates[index] for name, index in self.index.items()}

    def up(self, scalars: Scalars) -> Tensor:
        """Sum a number per scalar up to one number per group."""
        total = torch.zeros(len(self.keys), dtype=torch.float64)
        for name, index in self.index.items():
            total.index_add_(0, index.flatten(), scalars[name].flatten())
        return total

    def named(self, rates: Tensor) -> Any:
        """The rates as ``camhd`` shows them: a float, floats by name, or tensors by name."""
        if self.level == "global":
            return float(rates[0])
        if self.level == "parameter":
            return self.down(rates)
        if self.level not in ("unit", "filter"):
            return {key: float(rate) for key, rate in zip(self.keys, rates, strict=True)}
        owners = dict.fromkeys(owner for owner, _ in self.keys)
        return {o: torch.stack([r for k, r in zip(self.keys, rates, strict=True) if k[0] == o]) for o in owners}
