"""`state_dict` and `load_state_dict`: torch's format, with the tree inside it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..rules import TRACE, Wrapped, state_dtype
from ..tree.checkpoint import export_header, export_slots, is_tree_entry, restore

if TYPE_CHECKING:
    from .optimizer import Optimizer

HEADER = "camhd"


def save(optimizer: Optimizer, pack: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The `state_dict` of an optimizer whose state and groups have the tree in them."""
    tree, state, groups = optimizer._tree, optimizer.state, optimizer.param_groups
    slots = export_slots(tree)
    params = [p for group in groups for p in group["params"]]
    full = {p: {**state.get(p, {}), **entries} for p, entries in zip(params, slots, strict=True)}
    header = {**export_header(tree), "rule": optimizer.rule.name}
    # torch packs whatever it finds in the two attributes, and then calls the user's hooks on it.
    optimizer.state = defaultdict(dict, full)
    optimizer.param_groups = [{**group, **({HEADER: header} if i == 0 else {})} for i, group in enumerate(groups)]
    try:
        packed = pack()
    finally:
        optimizer.state, optimizer.param_groups = state, groups
    if isinstance(optimizer.rule, Wrapped):
        packed["inner"] = optimizer.rule.inner.state_dict()
    return packed


def load(optimizer: Optimizer, saved: Mapping[str, Any], unpack: Callable[[Any], None]) -> None:
    """Check everything, then take the tree's part, then let torch take the rest."""
    groups = _checked_groups(optimizer, saved)
    header = groups[0].pop(HEADER)
    indices = [index for group in groups for index in group["params"]]
    entries = [saved["state"].get(index, {}) for index in indices]
    _check_tensors(optimizer, entries)
    cells, state = restore(optimizer._tree, header, entries, [group["lr0"] for group in groups])
    rest = {index: _base_entries(optimizer, i, entries[i]) for i, index in enumerate(indices)}
    if isinstance(optimizer.rule, Wrapped):
        optimizer.rule.inner.load_state_dict(saved["inner"])
    optimizer._tree.adopt(cells, state)
    unpack({"state": {i: e for i, e in rest.items() if e}, "param_groups": groups})
    _undo_casts(optimizer, rest.values())


def _base_entries(optimizer: Optimizer, slot: int, entries: Mapping[str, Any]) -> dict[str, Any]:
    """What torch is to load.

    Not the rates, which it would cast to the parameter's dtype; and copies, because it would share tensors with
    the saved dict, and so with another optimizer that loads it or wrote it. Of a parameter that is divided over
    processes, a DTensor divided as it is.
    """
    mine = {name: value for name, value in entries.items() if not is_tree_entry(name)}
    shards = optimizer._shards
    like = None if shards is None else shards.likes[slot]
    if shards is not None and like is not None:
        for name, value in mine.items():
            if isinstance(value, Tensor) and value.shape == like.shape:
                mine[name] = shards.wrap(slot, shards.part(slot, value))
    return {name: value.clone() if isinstance(value, Tensor) else value for name, value in mine.items()}


def _undo_casts(optimizer: Optimizer, entries: Iterable[Mapping[str, Any]]) -> None:
    """Torch casts all state to the parameter's dtype; where a rule keeps it wider, take it as it was saved."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    for param, saved in zip(params, entries, strict=True):
        wide = state_dtype(param.dtype)
        for name, value in saved.items():
            if name == TRACE:
                optimizer.state[param][name] = value.to(param.device, copy=True)
            elif wide != param.dtype and name != "step" and isinstance(value, Tensor):
                optimizer.state[param][name] = value.to(param.device, wide, copy=True)


def _checked_groups(optimizer: Optimizer, saved: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Copies of the saved param groups, if they are of such an optimizer."""
    kind, own = type(optimizer).__name__, optimizer.param_groups
    if "state" not in saved or not saved.get("param_groups"):
        raise ValueError(f"camhd.{kind} needs a dict with 'state' and 'param_groups', got {sorted(saved)}.")
    groups = [dict(group) for group in saved["param_groups"]]
    header = groups[0].get(HEADER)
    if header is None:
        raise ValueError(
            f"the state was not written by a camhd optimizer (it has no {HEADER!r} header), so it has no learning "
            f"rates to go on with; load a state that camhd.{kind} wrote, not flattened (torch's "
            "flatten_optimizer_state_dict keeps only what the base optimizer has)."
        )
    if header.get("rule") != optimizer.rule.name:
        raise ValueError(
            f"the state was saved by an optimizer with the base rule {header.get('rule')!r}, but this one has "
            f"{optimizer.rule.name!r}; build the optimizer that wrote it."
        )
    if len(groups) != len(own):
        raise ValueError(
            f"the state has {len(groups)} param groups, but this optimizer has {len(own)}; "
            "loaded state dict has a different number of parameter groups."
        )
    for index, (theirs, ours) in enumerate(zip(groups, own, strict=True)):
        if len(theirs["params"]) != len(ours["params"]):
            raise ValueError(
                f"param group {index} has {len(theirs['params'])} parameters in the state, but "
                f"{len(ours['params'])} in this optimizer; it was saved from another model."
            )
    if isinstance(optimizer.rule, Wrapped) and "inner" not in saved:
        raise ValueError("the state has no 'inner' part, the state of the wrapped optimizer; it is not complete.")
    return groups


def _check_tensors(optimizer: Optimizer, entries: list[Mapping[str, Any]]) -> None:
    for slot, found in zip(optimizer._tree.layout.whole.slots, entries, strict=True):
        for name, value in found.items():
            if is_tree_entry(name) or not isinstance(value, Tensor) or name == "step":
                continue
            if value.shape != slot.shape:
                raise ValueError(
                    f"{name!r} of parameter {slot.name!r} has shape {tuple(value.shape)} in the state, but the "
                    f"parameter has {slot.shape}; it was saved from another model."
                )
