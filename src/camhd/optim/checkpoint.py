"""`state_dict` and `load_state_dict`: torch's format, with the tree inside it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..rules import TRACE, Wrapped, state_dtype
from ..tree.checkpoint import export_header, export_slots, restore
from ..tree.saved import is_tree_entry
from .saved import HEADER, before_version_5, check_base_state, checked_groups

if TYPE_CHECKING:
    from .optimizer import Optimizer


def save(optimizer: Optimizer, pack: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The `state_dict` of an optimizer whose state and groups have the tree in them."""
    tree, state, groups = optimizer._tree, optimizer.state, optimizer.param_groups
    slots = export_slots(tree)
    params = [p for group in groups for p in group["params"]]
    full = {p: {**state.get(p, {}), **entries} for p, entries in zip(params, slots, strict=True)}
    header = {**export_header(tree), "rule": optimizer.rule.name}
    packable = [{**group, **({HEADER: header} if i == 0 else {})} for i, group in enumerate(groups)]
    try:
        # torch packs whatever it finds in the two attributes, and then calls the user's hooks on it.
        optimizer.state, optimizer.param_groups = defaultdict(dict, full), packable
        packed = pack()
    finally:
        optimizer.state, optimizer.param_groups = state, groups
    if isinstance(optimizer.rule, Wrapped):
        packed["inner"] = optimizer.rule.inner.state_dict()
    return packed


def load(optimizer: Optimizer, saved: Mapping[str, Any], unpack: Callable[[Any], None]) -> None:
    """Check everything, then take the tree's part, then let torch take the rest; all of it or nothing."""
    groups = checked_groups(optimizer, saved)
    header = groups[0].pop(HEADER)
    indices = [index for group in groups for index in group["params"]]
    entries = [saved["state"].get(index, {}) for index in indices]
    formerly = optimizer.rule.formerly if before_version_5(header) else {}
    check_base_state(optimizer, groups, entries, formerly)
    entries = _brought_up(optimizer, groups, entries) if formerly else entries
    cells, state = restore(optimizer._tree, header, entries, [group["lr0"] for group in groups])
    rest = {index: _base_entries(optimizer, i, entries[i]) for i, index in enumerate(indices)}
    undo = _undoing(optimizer)
    try:
        if isinstance(optimizer.rule, Wrapped):
            _load_inner(optimizer.rule, saved["inner"])
        unpack({"state": {i: e for i, e in rest.items() if e}, "param_groups": groups})
        _undo_casts(optimizer, rest.values())
        optimizer._tree.adopt(cells, state)
    except BaseException:
        undo()
        raise


def _brought_up(optimizer: Optimizer, groups: Sequence[Mapping[str, Any]], entries: Sequence[Any]) -> list[Any]:
    """What each parameter has, as this version writes it; the numbers are in terms of their group's last move."""
    rule, slots = optimizer.rule, optimizer._tree.layout.whole.slots
    terms = [{**group, **(group["last_move"] or {})} for group in groups]
    old = set(rule.formerly.values())
    return [
        rule.brought_up(found, terms[slot.group]) if old & set(found) else found
        for slot, found in zip(slots, entries, strict=True)
    ]


def _undoing(optimizer: Optimizer) -> Callable[[], None]:
    """What brings everything back: torch's loading puts new containers into the place of the old ones."""
    tree = optimizer._tree
    cells, state = tree.cells, tree.state
    holders = [optimizer, *([optimizer.rule.inner] if isinstance(optimizer.rule, Wrapped) else [])]
    kept = [(holder, holder.state, holder.param_groups) for holder in holders]

    def undo() -> None:
        for holder, entries, groups in kept:
            holder.state, holder.param_groups = entries, groups
        tree.adopt(cells, state)

    return undo


def _load_inner(rule: Wrapped, saved: Any) -> None:
    """The wrapped optimizer loads its own part, by its own checks."""
    try:
        rule.inner.load_state_dict(saved)
    except Exception as error:
        raise ValueError(
            f"the 'inner' part of the state does not load into the wrapped {type(rule.inner).__name__}: {error}"
        ) from error


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
