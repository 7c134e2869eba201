"""What a level needs to know of a parameter: its name, its shape and the module that owns it.

A `Slot` is one parameter tensor seen from the tree of learning rates. Everything here is names and
shapes; no value of a parameter is ever read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

ROOT = "(root)"

LSTM_GATES = ("input", "forget", "cell", "output")  # the order in which torch stacks the rows
GRU_GATES = ("reset", "update", "new")
PROJECTION = "projection"  # of an LSTM's hidden state: rows without gates

_RECURRENT = re.compile(r"^(?:weight|bias)_(?P<kind>ih|hh|hr)(?:_(?P<part>l\d+(?:_reverse)?))?$")
_WRAPPERS = ("_orig_mod.", "_checkpoint_wrapped_module.", "_fsdp_wrapped_module.")
_PARAMETRIZED = re.compile(r"^(?P<layer>.*?)(?:^|\.)parametrizations\.(?P<local>.+)$")
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, *_TRANSPOSED)


@dataclass(frozen=True)
class Owner:
    """What only the module can tell of its tensors: names and shapes do not show it."""

    gates: tuple[str, ...] = ()
    transposed: bool = False  # a transposed convolution: outputs lie along dimension 1
    channel_groups: int = 1  # `groups` of a convolution


@dataclass(frozen=True)
class Slot:
    """One parameter tensor, as the levels see it (complex tensors as pairs of reals)."""

    index: int
    name: str
    shape: tuple[int, ...]
    group: int  # which torch param group
    group_name: str
    layer: str  # the module that owns it
    local: str  # its name inside that module; "" if it has no name
    gates: tuple[str, ...] | None = ()  # None: recurrent, but its gates cannot be told
    part: str = ""  # of a recurrent module: "l0", "l1_reverse", …
    transposed: bool = False
    channel_groups: int = 1

    @property
    def named(self) -> bool:
        return self.local != ""

    @property
    def numel(self) -> int:
        return int(torch.Size(self.shape).numel())


def owners_of(model: nn.Module) -> dict[str, Owner]:
    """What the modules tell of their own parameters, by full name; a tied tensor goes to its first owner."""
    owners: dict[str, Owner] = {}
    for prefix, module in model.named_modules():
        owner = _owner(module)
        for local, parameter in module.named_parameters(recurse=False):
            if parameter is not None:
                owners.setdefault(f"{prefix}.{local}" if prefix else local, owner)
    return owners


def _owner(module: nn.Module) -> Owner:
    if isinstance(module, (nn.LSTM, nn.LSTMCell)):
        return Owner(gates=LSTM_GATES)
    if isinstance(module, (nn.GRU, nn.GRUCell)):
        return Owner(gates=GRU_GATES)
    if isinstance(module, _CONVOLUTIONS):
        return Owner(transposed=isinstance(module, _TRANSPOSED), channel_groups=module.groups)
    return Owner()


def unwrapped(name: str) -> str:
    """The name without what torch.compile and other wrappers put into it.

    >>> unwrapped("_orig_mod.fc1.weight")
    'fc1.weight'
    """
    for wrapper in _WRAPPERS:
        name = name.replace(wrapper, "")
    return name


def split_name(name: str) -> tuple[str, str]:
    """The layer and the name inside it: ``fc1.weight`` → ``("fc1", "weight")``.

    >>> split_name("fc1.weight"), split_name("scale")
    (('fc1', 'weight'), ('(root)', 'scale'))
    >>> split_name("fc.parametrizations.weight.original0")
    ('fc', 'weight.original0')
    """
    name = unwrapped(name)
    parametrized = _PARAMETRIZED.match(name)
    if parametrized:
        layer, local = parametrized["layer"], parametrized["local"]
    else:
        layer, _, local = name.rpartition(".")
    return layer or ROOT, local


def slots_of(groups: Sequence[Mapping[str, Any]], owners: Mapping[str, Owner] | None = None) -> list[Slot]:
    """The slots of all parameters in these param groups, in order."""
    tensors = [
        (index, group, parameter, name)
        for index, group in enumerate(groups)
        for parameter, name in zip(group["params"], _names(group), strict=True)
    ]
    recurrent_width = _recurrent_widths((name, parameter) for _, _, parameter, name in tensors)
    slots = []
    for position, (index, group, parameter, name) in enumerate(tensors):
        shape = tuple(torch.view_as_real(parameter).shape if parameter.is_complex() else parameter.shape)
        group_name = str(group.get("name", index))
        if name is None:
            label = str(position)
            slots.append(Slot(position, label, shape, index, group_name, layer=label, local=""))
            continue
        layer, local = split_name(name)
        owner = owners.get(name) if owners else None
        gates, part = _gates(layer, local, owner, recurrent_width)
        owner = owner or Owner()
        slots.append(
            Slot(position, unwrapped(name), shape, index, group_name, layer, local, gates, part,
                 owner.transposed, owner.channel_groups)
        )  # fmt: skip
    return slots


def _names(group: Mapping[str, Any]) -> Sequence[str | None]:
    return group.get("param_names") or [None] * len(group["params"])


def _recurrent_widths(tensors: Iterable[tuple[str | None, torch.Tensor]]) -> dict[tuple[str, str], float]:
    """Rows over columns of every recurrent hidden-to-hidden matrix, by layer and part."""
    widths = {}
    for name, tensor in tensors:
        layer, local = split_name(name) if name is not None else ("", "")
        match = _RECURRENT.match(local)
        if match and match["kind"] == "hh" and tensor.dim() == 2:
            widths[layer, match["part"] or ""] = tensor.shape[0] / max(tensor.shape[1], 1)
    return widths


def _gates(
    layer: str, local: str, owner: Owner | None, widths: Mapping[tuple[str, str], float]
) -> tuple[tuple[str, ...] | None, str]:
    """The gates whose rows are stacked in this tensor, and which part of its module it belongs to."""
    match = _RECURRENT.match(local)
    if not match:
        return (), ""
    part = match["part"] or ""
    if match["kind"] == "hr":  # an LSTM's projection of its hidden state has no gates
        return (), f"{part}.{PROJECTION}"
    if owner is not None:
        return owner.gates, part
    # Names alone: the hidden-to-hidden matrix has as many blocks of rows as gates. A projected LSTM
    # has more than four times as many rows as columns, because its projection is the smaller side.
    width = widths.get((layer, part))
    if width is None:
        return None, part
    if width >= 4:
        return LSTM_GATES, part
    return {3.0: (GRU_GATES, part), 1.0: ((), part)}.get(width, (None, part))
