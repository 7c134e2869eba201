"""The layout of a tree: which rate moves which scalar, worked out once from names and shapes.

A *cell* is the smallest piece of a tensor that all levels above ``parameter`` treat as one: the
whole tensor under ``("global", "layer")``, one row under ``("global", "unit")``. Hypergradients are
summed per tensor into cells and from there on only vectors of cells are handled, however large
the network is. A ``parameter`` level, if there is one, lies below the cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from .kinds import Level, Split
from .slots import Slot


@dataclass(frozen=True)
class Family:
    """The rates that one set of tensors shares at one level: a run of that level's vector."""

    name: str
    start: int
    count: int
    labels: tuple[str, ...] | None

    @property
    def run(self) -> slice:
        return slice(self.start, self.start + self.count)


@dataclass(frozen=True)
class Partition:
    """One level above ``parameter``: its families, and for each cell the group it belongs to."""

    level: Level
    families: tuple[Family, ...]
    family_of_slot: tuple[Family, ...]
    groups: Tensor  # [cells] → index of the group; int32, and without storage of its own if there is one group

    @property
    def count(self) -> int:
        return sum(family.count for family in self.families)


@dataclass(frozen=True)
class Layout:
    """Who shares a rate with whom, for one chain of levels and one list of slots."""

    slots: tuple[Slot, ...]
    partitions: tuple[Partition, ...]  # root to leaf
    leaf: Level | None  # the per-scalar level, if the chain ends in one
    cell_shapes: tuple[tuple[int, ...], ...]  # per slot, broadcastable to its shape
    layers: tuple[str, ...]
    layer_of_slot: tuple[int, ...]

    @property
    def whole(self) -> Layout:
        """The layout of all processes, where the parameters are divided over several."""
        return self

    def members(self, level: int, family: Family) -> Sequence[int]:
        """The numbers that a family's rates have among the family's."""
        return range(family.count)

    def scalars(self, slot: int) -> Sequence[int]:
        """The numbers that a tensor's scalars have in it."""
        return range(self.slots[slot].numel)

    @property
    def levels(self) -> tuple[Level, ...]:
        coarse = tuple(partition.level for partition in self.partitions)
        return coarse if self.leaf is None else (*coarse, self.leaf)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(level.name for level in self.levels)

    @property
    def cell_counts(self) -> list[int]:
        return [int(torch.Size(shape).numel()) for shape in self.cell_shapes]

    @property
    def cells(self) -> int:
        return sum(self.cell_counts)

    def cells_per_group(self) -> list[int]:
        """How many cells each torch param group has; cells lie in the order of the groups."""
        counts = [0] * (1 + max((slot.group for slot in self.slots), default=-1))
        for slot, count in zip(self.slots, self.cell_counts, strict=True):
            counts[slot.group] += count
        return counts

    def sizes(self, level: int) -> Tensor:
        """|G|, the number of scalars in each group of a level."""
        partition = self.partitions[level]
        per_cell = [slot.numel // max(count, 1) for slot, count in zip(self.slots, self.cell_counts, strict=True)]
        return torch.zeros(partition.count, dtype=torch.int64).index_add_(0, partition.groups, self.by_slot(per_cell))

    def by_slot(self, values: Sequence[int]) -> Tensor:
        """One whole number in all cells of a slot."""
        return torch.tensor(values, dtype=torch.int64).repeat_interleave(torch.tensor(self.cell_counts))

    def ancestors(self, level: int, above: int) -> Tensor:
        """For each group of `level`, the group of the level `above` that holds it."""
        lower, upper = self.partitions[level], self.partitions[above]
        holders = torch.zeros(lower.count, dtype=torch.int32)
        holders[lower.groups] = upper.groups
        return holders


def lay_out(levels: Sequence[Level], slots: Sequence[Slot]) -> Layout:
    """Work out the layout of a chain of levels, in whatever order they were spelled."""
    names = [level.name for level in levels]
    if not names:
        raise ValueError("'levels' must name at least one level, got (); for plain HD use levels=('global',).")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"'levels' must not repeat a level, but {name!r} is there twice; leave one out.")
    leaves = [level for level in levels if level.per_scalar]
    if len(leaves) > 1:
        raise ValueError(f"'levels' must have at most one level of single scalars, got {leaves}; leave one out.")
    coarse = [level for level in levels if not level.per_scalar]
    splits = [[level.split(slot) for slot in slots] for level in coarse]
    cell_shapes = [_cell_shape(slot, [row[slot.index] for row in splits]) for slot in slots]
    partitions = [_partition(level, row, slots, cell_shapes) for level, row in zip(coarse, splits, strict=True)]
    partitions.sort(key=lambda partition: (partition.count, partition.level.rank))
    counts = [int(torch.Size(shape).numel()) for shape in cell_shapes]
    slot_of_cell = torch.repeat_interleave(torch.arange(len(slots)), torch.tensor(counts, dtype=torch.int64))
    for above, below in pairwise(partitions):
        _check_nested(above, below, slots, slot_of_cell)
    layers = tuple(dict.fromkeys(slot.layer for slot in slots))
    layer_of_slot = tuple(layers.index(slot.layer) for slot in slots)
    return Layout(
        slots=tuple(slots),
        partitions=tuple(partitions),
        leaf=leaves[0] if leaves else None,
        cell_shapes=tuple(cell_shapes),
        layers=layers,
        layer_of_slot=layer_of_slot,
    )


def _cell_shape(slot: Slot, splits: Sequence[Split]) -> tuple[int, ...]:
    shapes = [tuple(split.ids.shape) for split in splits if split.ids is not None]
    try:
        shape = torch.broadcast_shapes((1,) * len(slot.shape), *shapes)
        fits = torch.broadcast_shapes(shape, slot.shape) == torch.Size(slot.shape)
    except RuntimeError:
        fits, shape = False, torch.Size(())
    if not fits:
        raise ValueError(
            f"a level's ids must broadcast to the tensor, but those of {slot.name!r} have shapes {shapes} "
            f"and the tensor {tuple(slot.shape)}; mend the level's 'split'."
        )
    return tuple(shape)


def _partition(
    level: Level, splits: Sequence[Split], slots: Sequence[Slot], cell_shapes: Sequence[tuple[int, ...]]
) -> Partition:
    families: dict[tuple[str, int], Family] = {}
    taken: dict[str, str] = {}
    start = 0
    of_slot: list[Family] = []
    groups: list[Tensor] = []
    for slot, split, shape in zip(slots, splits, cell_shapes, strict=True):
        key = (split.family, split.count)
        if key not in families:
            # Two families of one name but different sizes (a module with odd tensors) go by the tensor's.
            name = split.family if split.family not in taken else slot.name
            taken[name] = slot.name
            families[key] = Family(name, start, split.count, split.labels)
            start += split.count
        family = families[key]
        of_slot.append(family)
        ids = torch.zeros((), dtype=torch.int32) if split.ids is None else split.ids.to(torch.int32)
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < split.count:
            raise ValueError(
                f"level {level.name!r} numbers the rates of {slot.name!r} from {int(ids.min())} to "
                f"{int(ids.max())}, but its family has {split.count}; mend the level's 'split'."
            )
        groups.append((ids + family.start).broadcast_to(shape).reshape(-1))
    cells = torch.cat(groups)
    if start == 1:
        cells = torch.zeros(1, dtype=torch.int32).expand(len(cells))
    return Partition(level, tuple(families.values()), tuple(of_slot), cells)


def _check_nested(above: Partition, below: Partition, slots: Sequence[Slot], slot_of_cell: Tensor) -> None:
    holders = torch.zeros(below.count, dtype=torch.int32)
    holders[below.groups] = above.groups
    astray = (holders[below.groups] != above.groups).nonzero()
    if len(astray):
        coarse, fine = above.level.name, below.level.name
        where = slots[int(slot_of_cell[astray[0]])].name
        raise ValueError(
            f"'levels' must nest, but {fine!r} splits across {coarse!r} in {where!r}: one of its groups has "
            f"scalars in two groups of {coarse!r}; leave one of the two levels out, or change what "
            f"{coarse!r} is made of."
        )
