"""The layout of a tree whose parameters are divided over processes: this process's cells, and the rates they use.

A rate that processes share is kept by all of them, and comes first in its level's vector; there are few such
rates. The rates of a layer's rows (`unit`, `filter`) are kept where the rows are, if all tensors of the layer are
divided by rows alike; otherwise a row's scalars may lie on several processes, and its rate counts as shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..levels import Family, Layout, Partition
from .shards import Piece, Shards


@dataclass(frozen=True)
class LocalLayout(Layout):
    """This process's part of a layout.

    Args:
        full: the layout of all processes.
        shards: how the parameters are divided.
        ids: for each level and each of its groups that are here, the number of that group in the full layout.
        shared: for each level, how many of its first groups are the same on all processes.
        divided: for each level and slot, whether the slot's family is divided as its rows are.
    """

    full: Layout
    shards: Shards
    ids: tuple[Tensor, ...]
    shared: tuple[int, ...]
    divided: tuple[tuple[bool, ...], ...]

    @property
    def whole(self) -> Layout:
        return self.full

    def members(self, level: int, family: Family) -> Sequence[int]:
        place = self.partitions[level].families.index(family)
        found: list[int] = (self.ids[level][family.run] - self.full.partitions[level].families[place].start).tolist()
        return found

    def scalars(self, slot: int) -> Sequence[int]:
        whole = self.full.slots[slot]
        found: list[int] = self.shards.pieces[slot].take(torch.arange(whole.numel).view(whole.shape)).flatten().tolist()
        return found

    def sizes(self, level: int) -> Tensor:
        return self.full.sizes(level)[self.ids[level]]

    def ancestors(self, level: int, above: int) -> Tensor:
        places = torch.zeros(self.full.partitions[above].count, dtype=torch.int64)
        places[self.ids[above]] = torch.arange(len(self.ids[above]))
        return places[self.full.ancestors(level, above)[self.ids[level]].long()]

    def by_rows(self, level: int) -> dict[Family, int]:
        """A level's families that are divided as rows are, each with a parameter whose rows they are."""
        found = zip(self.partitions[level].family_of_slot, self.divided[level], strict=True)
        return {family: slot for slot, (family, divided) in enumerate(found) if divided}

    def places_of(self, level: int, before: LocalLayout) -> Tensor:
        """Where the groups of a layout that had fewer parameters are in this one."""
        known, now = before.ids[level], self.ids[level]
        places = torch.full((self.full.partitions[level].count,), -1)
        places[now] = torch.arange(len(now))
        new = places[known]
        if len(known) != int((now < before.full.partitions[level].count).sum()) or (new < 0).any():
            raise ValueError(
                f"a layer's rates of the level {self.names[level]!r} are kept with its rows, but a tensor that was "
                "added later is not divided as they are; give the optimizer all tensors of a layer at once."
            )
        return new

    def once(self, level: int | None = None) -> Tensor | None:
        """0 for cells that another process counts, 1 for the others, in sums over all processes; None if all are 1.

        Args:
            level: whose sums; its families that are divided are not summed over processes. None for all cells.
        """
        none = [False] * len(self.slots)
        apart = none if level is None else self.divided[level]
        counted = [int(piece.counted or own) for piece, own in zip(self.shards.pieces, apart, strict=True)]
        return None if all(counted) else self.by_slot(counted)


def localize(layout: Layout, shards: Shards) -> LocalLayout:
    """This process's part of a layout."""
    pieces = shards.pieces
    slots = [
        replace(slot, shape=_shape(slot.shape, slot.shape, piece))
        for slot, piece in zip(layout.slots, pieces, strict=True)
    ]
    shapes = [
        _shape(cells, slot.shape, piece)
        for cells, slot, piece in zip(layout.cell_shapes, layout.slots, pieces, strict=True)
    ]
    parts = [_partition(layout, partition, pieces) for partition in layout.partitions]
    return LocalLayout(
        slots=tuple(slots),
        partitions=tuple(part for part, _, _, _ in parts),
        leaf=layout.leaf,
        cell_shapes=tuple(shapes),
        layers=layout.layers,
        layer_of_slot=layout.layer_of_slot,
        full=layout,
        shards=shards,
        ids=tuple(ids for _, ids, _, _ in parts),
        shared=tuple(shared for _, _, shared, _ in parts),
        divided=tuple(divided for _, _, _, divided in parts),
    )


def along(cells: Sequence[int], shape: Sequence[int]) -> list[int]:
    """The dimensions in which a tensor has as many cells as places."""
    return [dim for dim, (count, size) in enumerate(zip(cells, shape, strict=True)) if count == size]


def _shape(cells: Sequence[int], shape: Sequence[int], piece: Piece) -> tuple[int, ...]:
    divided, index = along(cells, shape), piece.index
    return tuple(
        len(at) if dim in divided and (at := index[dim]) is not None else count for dim, count in enumerate(cells)
    )


def _partition(
    layout: Layout, partition: Partition, pieces: Sequence[Piece]
) -> tuple[Partition, Tensor, int, tuple[bool, ...]]:
    """A level's part that is here, the numbers of its groups, how many are shared, and which slots' are not."""
    cells = [
        groups.view(shape)
        for groups, shape in zip(partition.groups.split(layout.cell_counts), layout.cell_shapes, strict=True)
    ]
    members: dict[Family, list[int]] = {family: [] for family in partition.families}
    for slot, family in enumerate(partition.family_of_slot):
        members[family].append(slot)
    own = {family for family, slots in members.items() if _by_rows(layout, partition, family, slots, cells, pieces)}
    local: dict[Family, Family] = {}
    ids: list[Tensor] = []
    start = 0
    for family in sorted(partition.families, key=lambda family: family in own):
        index = pieces[members[family][0]].index[0] if family in own else None
        here = torch.arange(family.count) if index is None else index
        local[family] = replace(family, start=start, count=len(here))
        ids.append(here + family.start)
        start += len(here)
    numbers = torch.cat(ids)
    places = torch.zeros(partition.count, dtype=torch.int32)
    places[numbers] = torch.arange(len(numbers), dtype=torch.int32)
    groups = [
        places[piece.take(full, along(full.shape, slot.shape)).reshape(-1).long()]
        for full, slot, piece in zip(cells, layout.slots, pieces, strict=True)
    ]
    made = Partition(
        partition.level,
        tuple(local[family] for family in partition.families),
        tuple(local[family] for family in partition.family_of_slot),
        torch.cat(groups) if start != 1 else torch.zeros(1, dtype=torch.int32).expand(sum(map(len, groups))),
    )
    shared = sum(family.count for family in partition.families if family not in own)
    return made, numbers, shared, tuple(family in own for family in partition.family_of_slot)


def _by_rows(
    layout: Layout,
    partition: Partition,
    family: Family,
    slots: Sequence[int],
    cells: Sequence[Tensor],
    pieces: Sequence[Piece],
) -> bool:
    """Whether a family has one rate for each row of its tensors, and all of them are divided by rows alike."""
    if not partition.level.many or pieces[slots[0]].by_rows is None:
        return False
    for slot in slots:
        shape = layout.slots[slot].shape
        if pieces[slot].by_rows != pieces[slots[0]].by_rows or shape[0] != family.count or len(cells[slot]) != shape[0]:
            return False
        rows = (torch.arange(family.count) + family.start).view(-1, *[1] * (len(shape) - 1))
        if not torch.equal(cells[slot].long(), rows.expand(cells[slot].shape)):
            return False
    return True
