"""The levels: each one says which scalars of a parameter share a learning rate.

`Level.split` looks at one slot and answers with a `Split`: the family of rates that the tensor
draws from, and for each of its scalars which member. Tensors that name the same family share it;
so a weight and its bias meet in one layer, one gate or one unit.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .slots import PROJECTION, Slot

# Words in a tensor's name that do not tell one unit from another: a weight and its bias, the two
# halves of a weight-normalised or parametrized weight, the two inputs of a recurrent cell.
_ROLE = re.compile(r"weight_[gv]$|weight|bias|original\d*$")


@dataclass(frozen=True)
class Split:
    """How one tensor draws from one family of rates."""

    family: str
    count: int = 1  # how many rates the family has
    ids: Tensor | None = None  # which of them, broadcastable to the tensor; None: the only one
    labels: tuple[str, ...] | None = None  # their names, if they have any

    def __post_init__(self) -> None:
        if self.ids is None and self.count != 1:
            raise ValueError(f"a family of {self.count} rates needs 'ids' that say who uses which")


class Level(ABC):
    """A partition of all scalar parameters; every group of it holds one learning rate.

    Write your own by giving it a `name` and a `split`; it takes its place in the chain by how many
    groups it makes.
    """

    name: str
    rank: ClassVar[int] = 3  # the order among levels that make equally many groups
    per_scalar: ClassVar[bool] = False
    many: ClassVar[bool] = False  # a family has many rates: shown as a tensor, not as numbers

    @abstractmethod
    def split(self, slot: Slot) -> Split:
        """Which rates the scalars of this tensor share."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class Global(Level):
    """One rate for everything."""

    rank = 0

    def __init__(self) -> None:
        self.name = "global"

    def split(self, slot: Slot) -> Split:
        return Split("")


class Group(Level):
    """One rate for each torch param group, called by its ``name`` entry or its number."""

    rank = 1

    def __init__(self) -> None:
        self.name = "group"

    def split(self, slot: Slot) -> Split:
        return Split(slot.group_name)


class Block(Level):
    """One rate for each block, where a block is what your function says of a parameter's name.

    >>> halves = Block(lambda name: "encoder" if name.startswith("encoder.") else "rest")
    """

    rank = 2

    def __init__(self, block_of: Callable[[str], object], name: str = "block") -> None:
        if not callable(block_of):
            raise TypeError(
                f"'block_of' must be a function of the parameter's name, got {block_of!r}; "
                "for example camhd.levels.Block(lambda name: name.split('.')[0])."
            )
        self.name = name
        self.block_of = block_of

    def split(self, slot: Slot) -> Split:
        return Split(str(self.block_of(slot.name)))


class Layer(Level):
    """One rate for all tensors of one module (its weight and its bias)."""

    rank = 3

    def __init__(self) -> None:
        self.name = "layer"

    def split(self, slot: Slot) -> Split:
        return Split(slot.layer)


class Gate(Level):
    """One rate for each gate of an LSTM or GRU layer; other layers are one group each."""

    rank = 4

    def __init__(self) -> None:
        self.name = "gate"

    def split(self, slot: Slot) -> Split:
        if not slot.named:
            raise ValueError(
                "'levels' has 'gate', which needs to know the modules, but the parameters came without "
                "names; pass the model itself or model.named_parameters() instead of model.parameters()."
            )
        if slot.gates is None:
            raise ValueError(
                f"'levels' has 'gate', but the gates of {slot.name!r} cannot be told from names and shapes; "
                "pass the model itself instead of named parameters."
            )
        family = f"{slot.layer}.{slot.part}" if slot.part else slot.layer
        if not slot.gates:
            return Split(family if slot.part.endswith(PROJECTION) else slot.layer)
        rows, gates = slot.shape[0], len(slot.gates)
        if rows % gates:
            raise ValueError(
                f"'gate' splits the rows of {slot.name!r} into {gates} gates, but it has {rows} rows; "
                "leave 'gate' out of 'levels' for this model."
            )
        ids = torch.arange(gates).repeat_interleave(rows // gates)
        return Split(family, gates, _along(ids, 0, slot), slot.gates)


class Unit(Level):
    """One rate for each output filter of a convolution or each output neuron of a linear layer.

    A unit is a row of the weight and the matching entry of the bias (``axis="output"``), or a
    column of the weight (``axis="input"``; a bias has no columns and is one unit of its own).
    ``filter`` is the same level by the name that fits a convolution.
    """

    rank = 5
    many = True

    def __init__(self, axis: str = "output", name: str = "unit") -> None:
        if axis not in ("output", "input"):
            raise ValueError(f"'axis' must be 'output' or 'input', got {axis!r}; rows are 'output'.")
        self.name = name
        self.axis = axis

    def split(self, slot: Slot) -> Split:
        if self.axis == "input":
            ids = _inputs(slot)
            return Split(slot.name) if ids is None else Split(slot.name, int(ids.max()) + 1 if ids.numel() else 0, ids)
        ids = _outputs(slot)
        family = _unit_family(slot)
        return Split(family) if ids is None else Split(family, int(ids.max()) + 1 if ids.numel() else 0, ids)


class Parameter(Level):
    """One rate for each scalar."""

    rank = 6
    per_scalar = True

    def __init__(self) -> None:
        self.name = "parameter"

    def split(self, slot: Slot) -> Split:
        ids = torch.arange(slot.numel).reshape(slot.shape)
        return Split(slot.name, slot.numel, ids)


def _along(ids: Tensor, dim: int, slot: Slot) -> Tensor:
    """A vector of ids laid along one dimension of the tensor."""
    shape = [1] * len(slot.shape)
    shape[dim] = -1 if ids.numel() else 0
    return ids.reshape(shape)


def _channels(slot: Slot, across: int, inside: int) -> Tensor:
    """Channel numbers of a grouped convolution: `across` has all of them in order, `inside` one group's."""
    within = _along(torch.arange(slot.shape[inside]), inside, slot)
    if slot.channel_groups == 1:
        return within
    of_group = torch.arange(slot.shape[across]) // max(slot.shape[across] // slot.channel_groups, 1)
    return _along(of_group, across, slot) * slot.shape[inside] + within


def _outputs(slot: Slot) -> Tensor | None:
    if not slot.shape:
        return None
    if slot.transposed and len(slot.shape) > 1:
        return _channels(slot, across=0, inside=1)
    return _along(torch.arange(slot.shape[0]), 0, slot)


def _inputs(slot: Slot) -> Tensor | None:
    if len(slot.shape) < 2:
        return None
    if slot.transposed:
        return _along(torch.arange(slot.shape[0]), 0, slot)
    return _channels(slot, across=0, inside=1)


def _unit_family(slot: Slot) -> str:
    if slot.part:
        return f"{slot.layer}.{slot.part}"
    rest = "_".join(word for word in re.split(r"[._]+", _ROLE.sub("", slot.local)) if word)
    if rest in ("ih", "hh"):  # LSTMCell, GRUCell, RNNCell
        rest = ""
    return f"{slot.layer}.{rest}" if rest else slot.layer


def level(spec: str | Level) -> Level:
    """A level from its name; a `Level` is returned as it is.

    >>> level("filter")
    Unit('filter')
    """
    if isinstance(spec, Level):
        return spec
    makers: dict[str, Callable[[], Level]] = {
        "global": Global, "group": Group, "layer": Layer, "gate": Gate,
        "unit": Unit, "filter": lambda: Unit(name="filter"), "parameter": Parameter,
    }  # fmt: skip
    if spec == "block":
        raise ValueError(
            "'levels' has 'block', which needs a function of the parameter's name; "
            "pass camhd.levels.Block(lambda name: …) in its place."
        )
    if not isinstance(spec, str) or spec not in makers:
        raise ValueError(
            f"'levels' must be made of {', '.join(repr(name) for name in makers)} or camhd.levels objects, "
            f"got {spec!r}."
        )
    return makers[spec]()
