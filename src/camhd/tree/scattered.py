"""Cells of which no process has all: what those that do must know of each other.

A cell's scalars lie on one process if the tensor is divided between its cells (rows, with rates of rows), and on
several otherwise (rows, with one rate for the whole tensor). What is not a plain sum over scalars, such as the size of
a cell's weights, which counts as no less than a floor, is found when the whole cell is known.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .local import LocalLayout, along
from .placements import put_together


class Shares(NamedTuple):
    """How many scalars each parameter has in each group that all processes keep, of one level."""

    slots: Tensor
    groups: Tensor
    numbers: Tensor


class Scattered:
    """The cells of a layout that all processes must hear of, in an order that is the same everywhere.

    Args:
        layout: this process's part of it.
        like: a tensor that says where vectors of cells live and in which precision.
    """

    def __init__(self, layout: LocalLayout, like: Tensor) -> None:
        full = layout.full
        kept = [any(level[slot] for level in layout.divided) for slot in range(len(full.slots))]
        slots = [slot for slot, own in enumerate(kept) if not own]
        starts = torch.tensor([0, *layout.cell_counts]).cumsum(0).tolist()
        here, there, self.total = [], [], 0
        for slot in slots:
            shape, count = full.cell_shapes[slot], full.cell_counts[slot]
            places = (torch.arange(count) + self.total).view(shape)
            there.append(layout.shards.pieces[slot].take(places, along(shape, full.slots[slot].shape)).flatten())
            here.append(torch.arange(starts[slot], starts[slot + 1]))
            self.total += count
        device, dtype = like.device, like.dtype
        self._here, self._there = _joined(here).to(device), _joined(there).to(device)
        self.whole = layout.by_slot([int(own) for own in kept]).to(device, torch.bool)  # cells that lie here alone
        counts = [full.cell_counts[slot] for slot in slots]
        per_cell = [full.slots[slot].numel // max(count, 1) for slot, count in zip(slots, counts, strict=True)]
        self.numbers = _repeated(per_cell, counts).to(device, dtype)  # how many scalars each has
        self.layers = _repeated([full.layer_of_slot[slot] for slot in slots], counts).to(device)
        self.layer_of_slot = torch.tensor(full.layer_of_slot, device=device)
        self.group_of_slot = torch.tensor([slot.group for slot in full.slots], device=device)
        self._among: tuple[frozenset[int], Tensor] | None = None
        self._groups, self.shares = [], []
        for level, shared in enumerate(layout.shared):
            places = torch.zeros(full.partitions[level].count, dtype=torch.int64)
            places[layout.ids[level][:shared]] = torch.arange(shared)
            of_slot = [places[groups.long()] for groups in full.partitions[level].groups.split(full.cell_counts)]
            self._groups.append(_joined([of_slot[slot] for slot in slots]).to(device))
            self.shares.append(_shares(layout, level, of_slot, like))
        self._shared = layout.shared

    def take(self, cells: Tensor) -> Tensor:
        """What this process has of them, from a vector of its cells; to be summed over all processes."""
        return cells.new_zeros(self.total).index_add_(0, self._there, cells.index_select(0, self._here))

    def sum_up(self, level: int, values: Tensor) -> Tensor:
        """Numbers of theirs summed into those groups of a level that all processes keep."""
        return values.new_zeros(self._shared[level]).index_add_(0, self._groups[level], values)

    def among(self, slots: Collection[int]) -> Tensor:
        """Whether each parameter is one of these."""
        wanted = frozenset(slots)
        if self._among is None or self._among[0] != wanted:  # mostly the same from step to step
            flags = [slot in wanted for slot in range(len(self.layer_of_slot))]
            self._among = wanted, torch.tensor(flags, device=self.layer_of_slot.device)
        return self._among[1]


def cell_dims(layout: LocalLayout, slot: int) -> list[int]:
    """The dimensions along which a parameter's cells are divided over processes; none if every process has all."""
    shape, index = layout.full.cell_shapes[slot], layout.shards.pieces[slot].index
    return [dim for dim in along(shape, layout.full.slots[slot].shape) if index[dim] is not None]


def whole_cells(layout: LocalLayout, slot: int, part: Tensor) -> Tensor:
    """A vector of a parameter's cells, from those that are here: a DTensor, if other processes have others.

    Where no vector can be divided as the cells are, they are put together; then all processes must ask for it.
    """
    dims, shape = cell_dims(layout, slot), layout.full.cell_shapes[slot]
    if not dims:
        return part
    count, long = layout.full.cell_counts[slot], [dim for dim, size in enumerate(shape) if size > 1]
    if count < 2 or (dims == long and len(dims) == 1):
        return layout.shards.wrap_part(slot, [0 if dim in dims else None for dim in range(len(shape))], part, (count,))
    places = [dim if dim in dims else None for dim in range(len(shape))]
    cells = layout.shards.wrap_part(slot, places, part.view(layout.cell_shapes[slot]), shape)
    return put_together(cells).flatten()


def own_cells(layout: LocalLayout, slot: int, whole: Tensor) -> Tensor:
    """What this process has of such a vector; the reverse."""
    cells = put_together(whole).view(layout.full.cell_shapes[slot])
    return layout.shards.pieces[slot].take(cells, cell_dims(layout, slot)).reshape(-1)


def check_cells(layout: LocalLayout) -> None:
    """Refuse cells that are divided in a way that a traced rule cannot follow."""
    for slot in layout.slots:
        for level, (above, own) in enumerate(zip(layout.divided, layout.divided[1:], strict=False)):
            # A rate is pulled to the one above it, so a process that keeps it must know that one.
            if above[slot.index] and not own[slot.index]:
                upper, lower = layout.names[level], layout.names[level + 1]
                raise ValueError(
                    f"hyper_rule='long_horizon' pulls the rates of the level {lower!r}, which all processes keep, to "
                    f"those of {upper!r}, but those of {slot.name!r} are kept with its rows; leave one of the two "
                    "levels out, or use hyper_rule='additive'."
                )


def _shares(layout: LocalLayout, level: int, of_slot: Sequence[Tensor], like: Tensor) -> Shares:
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    for slot, groups in enumerate(of_slot):
        if not layout.divided[level][slot]:
            some, counts = groups.unique(return_counts=True)
            per_cell = layout.full.slots[slot].numel // max(len(groups), 1)
            found.append((torch.full_like(some, slot), some, counts * per_cell))
    slots, groups, numbers = (_joined(parts) for parts in (zip(*found, strict=True) if found else ((), (), ())))
    return Shares(slots.to(like.device), groups.to(like.device), numbers.to(like))


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([torch.zeros(0, dtype=torch.int64), *parts])


def _repeated(values: Sequence[int], counts: Sequence[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.int64).repeat_interleave(torch.tensor(counts, dtype=torch.int64))
