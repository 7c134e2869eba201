"""Vectors of cells: the arithmetic between tensors, cells, param groups and levels.

A layout (`camhd.levels.layout`) on a device. `sum_to` sums a parameter's scalars into its cells,
`gather` makes one vector from what the parameters have, `sum_up` sums it into the groups of a level,
`spread` brings rates back to cells, `by_slot` shapes a parameter's cells so that they broadcast to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ..levels import Layout
from .local import LocalLayout
from .scattered import Scattered
from .state import Rows


class Cells:
    """The layout's index vectors, and for each cell the lr0 of its param group.

    Args:
        layout: who shares a rate with whom.
        lr0s: the first lr of each torch param group.
        like: a tensor that says where the vectors live and in which precision.
    """

    def __init__(self, layout: Layout, lr0s: Sequence[float], like: Tensor) -> None:
        self.layout, self.lr0s = layout, list(lr0s)
        self.device, self.dtype = like.device, like.dtype
        self.groups = [partition.groups.to(self.device) for partition in layout.partitions]
        self.counts, self.total = layout.cell_counts, layout.cells
        self.dims = [
            tuple(dim for dim, size in enumerate(cells) if size == 1 and slot.shape[dim] != 1)
            for slot, cells in zip(layout.slots, layout.cell_shapes, strict=True)
        ]  # those that `sum_to` sums over
        self.whole = [count == 1 for count in self.counts]
        self.by_rows = [len(shape) > 0 and shape[0] != 1 for shape in layout.cell_shapes]
        self.per_group = layout.cells_per_group()
        self.per_group += [0] * (len(self.lr0s) - len(self.per_group))
        self._first = torch.tensor(self.lr0s, dtype=self.dtype, device=self.device)
        self._units = torch.where(self._first > 0, self._first, 1)
        self._layers: Tensor | None = None
        self.ratios: list[Tensor | None] = [None] * len(self.groups)
        self._starts: list[Tensor] = []
        self.alike = len(set(self.lr0s)) == 1
        self._holders: dict[tuple[int, int], Tensor] = {}
        self._sizes: dict[int, Tensor] = {}
        self._numbers: Tensor | None = None
        self.divided = layout if isinstance(layout, LocalLayout) else None  # over several processes
        self._scattered: Scattered | None = None
        self._once: dict[int | None, Tensor | None] = {}

    @property
    def lr0(self) -> Tensor:
        """The first lr at each cell."""
        return self.by_group(self._first.unbind())

    @property
    def unit(self) -> Tensor:
        """The first lr at each cell, or 1 where that is 0."""
        return self.by_group(self._units.unbind())

    @property
    def layers(self) -> Tensor:
        """The layer of each cell."""
        if self._layers is None:
            self._layers = self.layout.by_slot(self.layout.layer_of_slot).to(self.device)
        return self._layers

    def by_group(self, values: Sequence[float | Tensor]) -> Tensor:
        """One value in all cells of a param group; a single value takes no room."""
        if len(values) == 1:
            return torch.as_tensor(values[0], dtype=self.dtype, device=self.device).expand(self.total)
        return self.times_by_group(torch.ones(self.total, dtype=self.dtype, device=self.device), values)

    def times_by_group(self, cells: Tensor, values: Sequence[float | Tensor]) -> Tensor:
        """Cells times one value for each param group."""
        if len(values) == 1:
            only = values[0]
            return cells if isinstance(only, float) and only == 1 else cells * only
        parts = cells.split(self.per_group)
        return torch.cat([part * value for part, value in zip(parts, values, strict=True)])

    def sum_to(self, slot: int, scalars: Tensor) -> Tensor:
        """The scalars of a parameter, or of some of its rows, summed into its cells."""
        dims = self.dims[slot]
        return scalars.sum(dims, keepdim=True) if dims else scalars

    def dot(self, slot: int, one: Tensor, other: Tensor) -> Tensor:
        """The product of two tensors summed into the cells; without a tensor in between where that is one number."""
        if self.whole[slot] and one.is_contiguous() and other.is_contiguous():
            return torch.dot(one.view(-1), other.view(-1))
        return self.sum_to(slot, one * other)

    def join(self, slot: int, parts: Sequence[Tensor]) -> Tensor:
        """The cells of a parameter from those of all its rows, in order."""
        if len(parts) == 1:
            return parts[0]
        return torch.cat(list(parts)) if self.by_rows[slot] else torch.stack(list(parts)).sum(0)

    def rows(self, slot: int, cells: Tensor, rows: Rows) -> Tensor:
        """What some rows of a parameter need of its cells."""
        return cells if rows is None or not self.by_rows[slot] else cells[rows]

    def gather(self, parts: Mapping[int, Tensor]) -> Tensor:
        """One vector from what some of the slots have; 0 for the others."""
        if len(parts) == len(self.counts):
            return torch.cat([parts[slot].reshape(-1) for slot in range(len(self.counts))])
        zeros = torch.zeros(max(self.counts, default=0), dtype=self.dtype, device=self.device)
        pieces = [parts[slot].reshape(-1) if slot in parts else zeros[:count] for slot, count in enumerate(self.counts)]
        return torch.cat(pieces)

    def by_slot(self, cells: Tensor) -> list[Tensor]:
        """The cells of every parameter, shaped to broadcast to it."""
        parts = cells.split(self.counts)
        return [part.view(shape) for part, shape in zip(parts, self.layout.cell_shapes, strict=True)]

    def sum_up(self, level: int, cells: Tensor) -> Tensor:
        """Cells summed into the groups of a level."""
        count = self.layout.partitions[level].count
        if count == 1:
            return cells.sum().reshape(1)
        return cells.new_zeros(count).index_add_(0, self.groups[level], cells)

    def spread(self, level: int, rates: Tensor) -> Tensor:
        """The rates of a level, at each cell, in units of the cell's own lr0."""
        one = self.layout.partitions[level].count == 1
        at_cells = rates.expand(self.total) if one else rates.index_select(0, self.groups[level])
        ratio = self.ratios[level]
        return at_cells if ratio is None else at_cells * ratio

    def starts(self, level: int, lr: float) -> Tensor:
        """Where a level's rates start: at their members' lr0, or at `lr` (unless it is 0) where those differ."""
        count, lr0 = self.layout.partitions[level].count, self.lr0
        if len(set(self.lr0s)) == 1:
            return torch.full((1,), self.lr0s[0], dtype=self.dtype, device=self.device).expand(count)
        if self.divided is not None:  # a group's members may lie elsewhere
            everywhere = Cells(self.divided.full, self.lr0s, self._first)
            return everywhere.starts(level, lr)[self.divided.ids[level].to(self.device)]
        groups = self.groups[level].long()
        low = lr0.new_full((count,), float("inf")).scatter_reduce(0, groups, lr0, "amin")
        high = lr0.new_zeros(count).scatter_reduce(0, groups, lr0, "amax")
        return torch.where(low == high, high, lr) if lr > 0 else high

    def least(self, level: int, values: Sequence[float]) -> float | Tensor:
        """The smallest of the values that a rate's members have, one value for each param group."""
        if len(set(values)) == 1:
            return values[0]
        if self.divided is not None:  # a group's members may lie elsewhere
            everywhere = Cells(self.divided.full, self.lr0s, self._first).least(level, values)
            assert isinstance(everywhere, Tensor)
            return everywhere[self.divided.ids[level].to(self.device)]
        count, groups = self.layout.partitions[level].count, self.groups[level].long()
        of_cells = torch.tensor(values, dtype=self.dtype, device=self.device)
        of_cells = of_cells.repeat_interleave(torch.tensor(self.per_group, device=self.device), output_size=self.total)
        return of_cells.new_full((count,), math.inf).scatter_reduce(0, groups, of_cells, "amin")

    def refer(self, starts: Sequence[Tensor], alike: bool) -> None:
        """A shared rate stands for each member as a multiple of that member's lr0: note the factors.

        If all start `alike`, there is one lr0 and every factor is 1.
        """
        self._starts, self.alike, lr0 = list(starts), alike, self.lr0
        for level, start in enumerate(starts):
            at_cells = start[self.groups[level]]
            self.ratios[level] = None if alike else _ratio(lr0, at_cells)

    def ratio_at(self, level: int, param_groups: Tensor, groups: Tensor) -> float | Tensor:
        """The same factors for members anywhere: of these param groups, in these groups of a level."""
        return 1.0 if self.alike else _ratio(self._first[param_groups], self._starts[level][groups])

    def seen_from(self, level: int, above: int, rates: Tensor) -> Tensor:
        """The rates of a level above, at each group of `level` and in that level's units."""
        if (level, above) not in self._holders:
            self._holders[level, above] = self.layout.ancestors(level, above).to(self.device)
        holders = self._holders[level, above]
        own, theirs = self._starts[level], self._starts[above][holders]
        return rates[holders] * torch.where(own == theirs, 1, own / theirs)

    @property
    def scattered(self) -> Scattered:
        """The cells of which no process has all, where parameters are divided over several."""
        if self._scattered is None:
            assert self.divided is not None
            self._scattered = Scattered(self.divided, self._first)
        return self._scattered

    @property
    def numbers(self) -> Tensor:
        """How many scalars each cell has."""
        if self._numbers is None:
            counts = [
                math.prod(slot.shape) // max(n, 1) for slot, n in zip(self.layout.slots, self.counts, strict=True)
            ]
            self._numbers = self.layout.by_slot(counts).to(self.device, self.dtype)
        return self._numbers

    def sizes(self, level: int) -> Tensor:
        """|G| of each group of a level."""
        if level not in self._sizes:
            self._sizes[level] = self.layout.sizes(level).to(self.device, self.dtype)
        return self._sizes[level]

    def once(self, cells: Tensor, level: int | None = None) -> Tensor:
        """Cells as they count in sums over all processes, where copies of a parameter count once."""
        if self.divided is None:
            return cells
        if level not in self._once:
            counted = self.divided.once(level)
            self._once[level] = None if counted is None else counted.to(self.device, self.dtype)
        factors = self._once[level]
        return cells if factors is None else cells * factors

    def counted(self, slot: int) -> bool:
        """Whether a parameter's sums count here."""
        return self.divided is None or self.divided.shards.pieces[slot].counted


def _ratio(lr0: Tensor, start: Tensor) -> Tensor:
    return torch.where(start == lr0, 1, lr0 / start)
