"""The tree in a checkpoint.

Shared rates belong to no single parameter, but checkpoints (torch's own and the distributed ones)
are made of per-parameter state. So each slot carries its own copy of every rate it uses: a few
numbers, readable without the tree, and independent of how the levels are laid out in memory. What
belongs to the tree as a whole is a small header of plain numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..combine import State as Weights
from .cells import Cells
from .placements import put_together
from .rates import RateTree
from .saved import (
    MOVED,
    VERSION,
    brought_up,
    check_agreement,
    check_entries,
    check_header,
    check_shape,
    entry,
    is_tree_entry,
    made_level,
    sharing,
    weights_from,
)
from .scattered import own_cells, whole_cells
from .state import Level, Move, Tracing, TreeState


def export_header(tree: RateTree) -> dict[str, Any]:
    """What belongs to the tree as a whole, as plain numbers."""
    state = tree.state
    return {
        "version": VERSION,
        "levels": list(tree.layout.names),
        "shared": sharing(tree.layout.whole),
        "step": state.step,
        "skipped": int(state.skipped),
        "weights": _lists(state.weights),
        "last_weights": _lists(state.last_weights),
        "last_moves": [[float(move.factor), float(move.decay)] for move in state.last_moves],
    }


def export_slots(tree: RateTree) -> list[dict[str, Any]]:
    """What each slot carries: its rates at every level, where they started, and whether it has moved."""
    state, layout, divided = tree.state, tree.layout, tree.cells.divided
    slots: list[dict[str, Any]] = [{MOVED: slot in state.moved} for slot in range(len(layout.slots))]
    for i, (level, partition) in enumerate(zip(state.levels, layout.partitions, strict=True)):
        for slot, entries, family in zip(layout.slots, slots, partition.family_of_slot, strict=True):
            by_rows = divided is not None and divided.divided[i][slot.index]
            for key, value in level.tensors().items():
                own = value[family.run].clone()
                if divided is not None and by_rows:
                    own = divided.shards.wrap_rows(slot.index, own)
                entries[f"{key}.{partition.level.name}"] = own
            # Where rates are divided, each process has but some of them, and all must write the same entries.
            same = tree.cells.alike if by_rows else _all_are(level.starts[family.run], tree.cells.lr0s[slot.group])
            if same:
                del entries[f"start.{partition.level.name}"]  # as it would be anyway
    for name, vector in _tracing(state).items():
        for index, (entries, part) in enumerate(zip(slots, vector.split(tree.cells.counts), strict=True)):
            own = part.clone()
            entries[f"tracing.{name}"] = own if divided is None else whole_cells(divided, index, own)
    for index, (entries, leaf) in enumerate(zip(slots, state.leaves, strict=False)):
        assert layout.leaf is not None
        for key, value in leaf.tensors().items():
            if key != "start":
                entries[f"{key}.{layout.leaf.name}"] = tree.shaped(index, value)
    return slots


def _all_are(values: Tensor, number: float) -> bool:
    return bool((values == number).all())


def own_parts(tree: RateTree, slots: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The tree's entries of a checkpoint, as far as they are this process's; all of them if there is but one."""
    found = [{name: value for name, value in entries.items() if is_tree_entry(name)} for entries in slots]
    divided = tree.cells.divided
    if divided is None:
        return found
    names, shards = [partition.level.name for partition in divided.partitions], divided.shards
    for slot, entries in zip(divided.full.slots, found, strict=True):
        index = slot.index
        for name, value in entries.items():
            kind, _, level = name.partition(".")
            if not isinstance(value, Tensor):
                continue
            # Looked at as a whole, or what does not fit might be as large as the part of one process, which goes on.
            if kind == "tracing":
                check_shape(value, name, slot.name, (divided.full.cell_counts[index],))
                entries[name] = own_cells(divided, index, value)
            elif level in names and divided.divided[names.index(level)][index]:
                check_shape(value, name, slot.name, tuple(slot.shape[:1]))
                entries[name] = shards.part(index, value, rows=True)
            elif level in names:  # all processes have all of it
                entries[name] = put_together(value)
            else:
                check_shape(value, name, slot.name, tuple(slot.shape))
                entries[name] = shards.part(index, value)
    return found


def restore(
    tree: RateTree, header: Mapping[str, Any], slots: Sequence[Mapping[str, Any]], lr0s: Sequence[float]
) -> tuple[Cells, TreeState]:
    """The tree's cells and state from a checkpoint. Raises before anything is changed; `RateTree.adopt` takes it."""
    check_header(tree, header, len(lr0s))
    slots = brought_up(tree, header["version"], slots)
    for slot, entries in zip(tree.layout.slots, slots, strict=True):
        check_entries(tree, slot.name, entries)
    slots = own_parts(tree, slots)
    cells = Cells(tree.layout, lr0s, tree.start_weights)
    levels = [_restored_level(tree, i, slots, lr0s) for i in range(len(tree.layout.partitions))]
    noted = any(name.startswith("start.") for entries in slots for name in entries)
    cells.refer([level.starts for level in levels], cells.alike and not noted)
    weights = weights_from(tree, "weights", header["weights"])
    last_weights = weights_from(tree, "last_weights", header["last_weights"])
    return cells, TreeState(
        levels=levels,
        leaves=_restored_leaves(tree, slots, lr0s),
        weights=weights,
        last_weights=last_weights,
        last_moves=[Move(*move) for move in header["last_moves"]],
        moved=frozenset(i for i, entries in enumerate(slots) if entries[MOVED]),
        skipped=torch.full_like(tree.state.skipped, header["skipped"]),
        step=header["step"],
        tracing=_restored_tracing(tree, slots),
    )


def _restored_level(tree: RateTree, index: int, slots: Sequence[Mapping[str, Any]], lr0s: Sequence[float]) -> Level:
    """A level above the scalars, put together from what its slots carry."""
    partition, fresh, seen = tree.layout.partitions[index], tree.state.levels[index], set()
    name = partition.level.name
    found = {
        key: torch.empty_like(value, memory_format=torch.contiguous_format) for key, value in fresh.tensors().items()
    }
    for slot, family, entries in zip(tree.layout.slots, partition.family_of_slot, slots, strict=True):
        default = {f"start.{name}": tree.start_weights.new_full((family.count,), lr0s[slot.group])}
        for key, vector in found.items():
            value = entry(tree, {**default, **entries}, f"{key}.{name}", slot.name, (family.count,)).to(vector)
            if family in seen:
                check_agreement(slot.name, f"{key}.{name}", vector[family.run], value)
            vector[family.run] = value
        seen.add(family)
    return made_level(found)


def _restored_leaves(tree: RateTree, slots: Sequence[Mapping[str, Any]], lr0s: Sequence[float]) -> list[Level]:
    """The rates of single scalars."""
    leaves, level = [], tree.layout.leaf
    for slot, leaf, entries in zip(tree.layout.slots, tree.state.leaves, slots, strict=False):
        assert level is not None
        wanted = {key: value for key, value in leaf.tensors().items() if key != "start"}
        found = {
            key: entry(tree, entries, f"{key}.{level.name}", slot.name, tuple(value.shape)).to(value).clone()
            for key, value in wanted.items()
        }
        leaves.append(made_level({**found, "start": torch.full_like(leaf.rates, lr0s[slot.group])}))
    return leaves


def _tracing(state: TreeState) -> dict[str, Tensor]:
    return {} if state.tracing is None else state.tracing.tensors()


def _restored_tracing(tree: RateTree, slots: Sequence[Mapping[str, Any]]) -> Tracing | None:
    found = {}
    for name, like in _tracing(tree.state).items():
        parts = [
            entry(tree, entries, f"tracing.{name}", slot.name, (count,)).to(like)
            for slot, count, entries in zip(tree.layout.slots, tree.cells.counts, slots, strict=True)
        ]
        found[name] = torch.cat(parts)
    return Tracing(**found) if found else None


def _lists(weights: Weights) -> dict[str, Any]:
    return {name: value.tolist() for name, value in weights.items()}
