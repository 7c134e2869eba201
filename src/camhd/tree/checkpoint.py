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
from .state import Level, Move, Tracing, TreeState

VERSION = 1
MOVED = "moved"
PREFIXES = ("rate.", "start.", "hyper_", "tracing.")


def is_tree_entry(name: str) -> bool:
    """Whether an entry of a parameter's state belongs to the tree."""
    return name == MOVED or name.startswith(PREFIXES)


def export_header(tree: RateTree) -> dict[str, Any]:
    """What belongs to the tree as a whole, as plain numbers."""
    state = tree.state
    return {
        "version": VERSION,
        "levels": list(tree.layout.names),
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
        for entries, part in zip(slots, vector.split(tree.cells.counts), strict=True):
            entries[f"tracing.{name}"] = part.clone()
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
    for slot, entries in enumerate(found):
        for name, value in entries.items():
            level = name.partition(".")[2]
            if not isinstance(value, Tensor):
                continue
            if level in names and divided.divided[names.index(level)][slot]:
                entries[name] = shards.part(slot, value, rows=True)
            elif level in names:  # all processes have all of it
                entries[name] = put_together(value)
            else:
                entries[name] = shards.part(slot, value)
    return found


def restore(
    tree: RateTree, header: Mapping[str, Any], slots: Sequence[Mapping[str, Any]], lr0s: Sequence[float]
) -> tuple[Cells, TreeState]:
    """The tree's cells and state from a checkpoint. Raises before anything is changed; `RateTree.adopt` takes it."""
    names, layout, like = list(tree.layout.names), tree.layout, tree.start_weights
    if header.get("version") != VERSION:
        raise ValueError(
            f"the state has format version {header.get('version')!r}, this camhd reads {VERSION}; "
            "load it with the version of camhd that wrote it."
        )
    if header["levels"] != names:
        raise ValueError(
            f"the state was saved with the levels {tuple(header['levels'])}, this optimizer has {tuple(names)}; "
            "build it with the same 'levels'."
        )
    slots = own_parts(tree, slots)
    cells = Cells(layout, lr0s, like)
    levels = []
    for i, partition in enumerate(layout.partitions):
        fresh = tree.state.levels[i]
        found = {
            key: torch.empty_like(value, memory_format=torch.contiguous_format)
            for key, value in fresh.tensors().items()
        }
        for slot, family, entries in zip(layout.slots, partition.family_of_slot, slots, strict=True):
            default = {f"start.{partition.level.name}": like.new_full((family.count,), lr0s[slot.group])}
            for key, vector in found.items():
                value = _entry({**default, **entries}, f"{key}.{partition.level.name}", slot.name, (family.count,))
                vector[family.run] = value.to(vector)
        levels.append(_level(found))
    noted = any(name.startswith("start.") for entries in slots for name in entries)
    cells.refer([level.starts for level in levels], cells.alike and not noted)
    leaves = []
    for slot, leaf, entries in zip(layout.slots, tree.state.leaves, slots, strict=False):
        assert layout.leaf is not None
        wanted = {key: value for key, value in leaf.tensors().items() if key != "start"}
        found = {
            key: _entry(entries, f"{key}.{layout.leaf.name}", slot.name, tuple(value.shape)).to(value).clone()
            for key, value in wanted.items()
        }
        leaves.append(_level({**found, "start": torch.full_like(leaf.rates, lr0s[slot.group])}))
    if len(header["last_moves"]) != len(lr0s):
        raise ValueError(f"the state has {len(header['last_moves'])} param groups, this optimizer {len(lr0s)}.")
    return cells, TreeState(
        levels=levels,
        leaves=leaves,
        weights=_tensors(header["weights"], tree.state.weights),
        last_weights=_tensors(header["last_weights"], tree.state.weights),
        last_moves=[Move(*move) for move in header["last_moves"]],
        moved=frozenset(i for i, entries in enumerate(slots) if entries.get(MOVED)),
        skipped=torch.full_like(tree.state.skipped, header["skipped"]),
        step=header["step"],
        tracing=_restored_tracing(tree, slots),
    )


def _tracing(state: TreeState) -> dict[str, Tensor]:
    return {} if state.tracing is None else {"kappa": state.tracing.kappa, "memory": state.tracing.memory}


def _restored_tracing(tree: RateTree, slots: Sequence[Mapping[str, Any]]) -> Tracing | None:
    found = {}
    for name, like in _tracing(tree.state).items():
        parts = [
            _entry(entries, f"tracing.{name}", slot.name, (count,)).to(like)
            for slot, count, entries in zip(tree.layout.slots, tree.cells.counts, slots, strict=True)
        ]
        found[name] = torch.cat(parts)
    return Tracing(**found) if found else None


def _level(tensors: Mapping[str, Tensor]) -> Level:
    rule = {key.removeprefix("hyper_"): value for key, value in tensors.items() if key.startswith("hyper_")}
    return Level(tensors["rate"], tensors["start"], rule)


def _entry(entries: Mapping[str, Any], name: str, slot: str, shape: tuple[int, ...]) -> Tensor:
    value = entries.get(name)
    if not isinstance(value, Tensor) or tuple(value.shape) != shape:
        found = tuple(value.shape) if isinstance(value, Tensor) else value
        raise ValueError(
            f"the state of parameter {slot!r} must have {name!r} of shape {shape}, found {found}; "
            "it was saved from another model, other levels or another hyper rule."
        )
    return value


def _lists(weights: Weights) -> dict[str, Any]:
    return {name: value.tolist() for name, value in weights.items()}


def _tensors(lists: Mapping[str, Any], like: Weights) -> Weights:
    if set(lists) != set(like):
        raise ValueError(
            f"the state's combination has {sorted(lists)}, this optimizer's {sorted(like)}; "
            "build it with the same 'combine'."
        )
    found = {name: torch.tensor(lists[name], dtype=value.dtype, device=value.device) for name, value in like.items()}
    for name, value in found.items():
        if value.shape != like[name].shape:
            raise ValueError(
                f"the state's combination has {name!r} of shape {tuple(value.shape)}, this optimizer's is "
                f"{tuple(like[name].shape)}; build it with the same levels, layers and 'combine'."
            )
    return found
