"""What torch's part of a saved state must look like; the tree's part is checked by `camhd.tree.saved`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..levels.slots import unwrapped
from ..rules import TRACE, Wrapped
from ..tree.saved import MOVED, is_tree_entry, shown

if TYPE_CHECKING:
    from .optimizer import Optimizer

HEADER = "camhd"
SINCE_VERSION_2 = {"max_change": None}  # options of param groups that version 1 of the format did not have
NOT_WHOLE = "the state is not complete."


def checked_groups(optimizer: Optimizer, saved: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Copies of the saved param groups, if they are of such an optimizer."""
    kind, own = type(optimizer).__name__, optimizer.param_groups
    groups = _groups_of(kind, saved)
    header = groups[0].get(HEADER)
    if header is None:
        raise ValueError(
            f"the state was not written by a camhd optimizer (it has no {HEADER!r} header), so it has no learning "
            f"rates to go on with; load a state that camhd.{kind} wrote, not flattened (torch's "
            "flatten_optimizer_state_dict keeps only what the base optimizer has)."
        )
    rule = header.get("rule") if isinstance(header, Mapping) else None
    if isinstance(header, Mapping) and rule != optimizer.rule.name:
        raise ValueError(
            f"the state was saved by an optimizer with the base rule {rule!r}, but this one has "
            f"{optimizer.rule.name!r}; build the optimizer that wrote it."
        )
    if len(groups) != len(own):
        raise ValueError(
            f"the state has {len(groups)} param groups, but this optimizer has {len(own)}; "
            "loaded state dict has a different number of parameter groups."
        )
    old = isinstance(header, Mapping) and header.get("version") == 1
    for index, (theirs, ours) in enumerate(zip(groups, own, strict=True)):
        if old:
            theirs.update({name: value for name, value in SINCE_VERSION_2.items() if name not in theirs})
        _check_params(index, theirs, ours)
        _check_options(optimizer, index, theirs, ours)
    _check_indices(groups, saved["state"])
    if isinstance(optimizer.rule, Wrapped) and "inner" not in saved:
        raise ValueError(f"the state has no 'inner' part, the state of the wrapped optimizer; {NOT_WHOLE}")
    return groups


def _groups_of(kind: str, saved: Mapping[str, Any]) -> list[dict[str, Any]]:
    if "state" not in saved or not saved.get("param_groups"):
        raise ValueError(f"camhd.{kind} needs a dict with 'state' and 'param_groups', got {sorted(map(str, saved))}.")
    groups = saved["param_groups"]
    if not isinstance(groups, (list, tuple)) or not all(isinstance(group, Mapping) for group in groups):
        raise ValueError(f"'param_groups' of the state must be a list of dicts, got {shown(groups)}.")
    if not isinstance(saved["state"], Mapping):
        raise ValueError(f"'state' of the state must be a dict by parameter, got {shown(saved['state'])}.")
    return [dict(group) for group in groups]


def _check_params(index: int, theirs: dict[str, Any], ours: Mapping[str, Any]) -> None:
    """As many parameters, and of the same names if both have names. From then on the names are ours."""
    numbers = theirs.get("params")
    if not isinstance(numbers, (list, tuple)):
        raise ValueError(f"param group {index} of the state must have 'params', a list, got {shown(numbers)}.")
    if len(numbers) != len(ours["params"]):
        raise ValueError(
            f"param group {index} has {len(numbers)} parameters in the state, but {len(ours['params'])} in this "
            "optimizer; it was saved from another model."
        )
    their_names, our_names = theirs.pop("param_names", None), ours.get("param_names")
    if our_names is None:
        return
    theirs["param_names"] = our_names
    if their_names is None:
        return
    if not isinstance(their_names, (list, tuple)) or len(their_names) != len(our_names):
        raise ValueError(
            f"'param_names' of param group {index} in the state must be {len(our_names)} names, got "
            f"{shown(their_names)}."
        )
    if not _same_names([str(name) for name in their_names], our_names):
        first = next(i for i, name in enumerate(our_names) if name != their_names[i])
        raise ValueError(
            f"param group {index} has the parameter {their_names[first]!r} in the state where this optimizer has "
            f"{our_names[first]!r}; it was saved from another model or in another order. If the model was only "
            "renamed, change 'param_names' in the state."
        )


def _same_names(theirs: Sequence[str], ours: Sequence[str]) -> bool:
    """Whether the names are the same but for what a wrapper (DDP, torch.compile …) puts before all of them."""
    one, other = [unwrapped(name) for name in theirs], [unwrapped(name) for name in ours]
    short, long = sorted((one, other), key=lambda names: sum(map(len, names)))
    prefixes = {name.removesuffix(end) for name, end in zip(long, short, strict=True)}
    whole = all(prefix == "" or prefix.endswith(".") for prefix in prefixes)
    return len(prefixes) <= 1 and whole and all(n.endswith(end) for n, end in zip(long, short, strict=True))


def _check_options(optimizer: Optimizer, index: int, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Every option that a step needs, each with a value that the constructor would take."""
    for name in (*optimizer.defaults, "lr0", "last_move"):
        if name in ours and name not in theirs:
            raise ValueError(f"param group {index} of the state has no {name!r}; {NOT_WHOLE}")
    try:
        optimizer._check_options(theirs)
    except (TypeError, ValueError) as error:
        raise ValueError(f"param group {index} of the state cannot be used: {error}") from error
    lr0, last = theirs["lr0"], theirs["last_move"]
    if isinstance(lr0, bool) or not isinstance(lr0, (int, float)) or not 0 <= lr0 < math.inf:
        raise ValueError(f"'lr0' of param group {index} in the state must be 0 or more and finite, got {shown(lr0)}.")
    remembers = optimizer.rule.remembers
    if last is not None and (not isinstance(last, Mapping) or not set(remembers) <= set(last)):
        raise ValueError(
            f"'last_move' of param group {index} in the state must be None or have {', '.join(remembers)}, got "
            f"{shown(last)}."
        )
    for name in optimizer.rule.kinds:
        if theirs[name] != ours[name]:
            raise ValueError(
                f"the state was saved with {name}={theirs[name]!r}, but this optimizer has {ours[name]!r}; "
                "build the optimizer that wrote it."
            )


def _check_indices(groups: Sequence[Mapping[str, Any]], state: Mapping[Any, Any]) -> None:
    """Every parameter has its own number, and nobody else has state."""
    numbers = [number for group in groups for number in group["params"]]
    if not all(isinstance(number, (int, str)) for number in numbers) or len(set(numbers)) < len(numbers):
        raise ValueError(f"'params' in the state must be a different number for each, got {shown(numbers)}.")
    unknown = [key for key in state if key not in set(numbers)]
    if unknown:
        raise ValueError(
            f"the state has entries for {shown(unknown[0])}, which is none of its parameters; it was changed by hand."
        )


def before_version_5(header: Any) -> bool:
    """Whether a state may have what base rules kept before version 5. What is wrong with the header comes up later."""
    version = header.get("version") if isinstance(header, Mapping) else None
    return isinstance(version, int) and not isinstance(version, bool) and version < 5


def check_base_state(
    optimizer: Optimizer, groups: Sequence[Mapping[str, Any]], entries: Sequence[Any], formerly: Mapping[str, str]
) -> None:
    """Whether the base rule's part of each parameter's state is whole and of the parameter's shape.

    `formerly` are the names that some entries have in it.
    """
    slots = optimizer._tree.layout.whole.slots
    traced = bool(optimizer.config.hyper_rule.traced)
    for slot, found in zip(slots, entries, strict=True):
        if not isinstance(found, Mapping):
            raise ValueError(f"the state of parameter {slot.name!r} must be a dict, got {shown(found)}.")
        base = {name: value for name, value in found.items() if not is_tree_entry(name)}
        options = groups[slot.group]
        wanted = set(optimizer.rule.together) if base else set()
        if found.get(MOVED) is True:
            wanted |= set(optimizer.rule.state_names({**options, **(options["last_move"] or {})}))
            wanted = (wanted | {TRACE}) - set(optimizer.rule.remade) if traced else wanted
        known = {*optimizer.rule.entries, *([TRACE] if traced else [])} if optimizer.rule.entries else set(base)
        wanted, known = ({formerly.get(name, name) for name in names} for names in (wanted, known))
        for name in sorted(wanted - set(base)):
            raise ValueError(f"the state of parameter {slot.name!r} has no {name!r}; {NOT_WHOLE}")
        for name, value in base.items():
            if name not in known:
                raise ValueError(
                    f"the state of parameter {slot.name!r} has {name!r}, for which {optimizer.rule.name} has no use; "
                    "it was saved by another optimizer."
                )
            _check_value(name, value, slot.name, slot.shape)


def _check_value(name: str, value: Any, slot: str, shape: tuple[int, ...]) -> None:
    if name == "step":
        one = not isinstance(value, Tensor) or value.numel() == 1
        number = isinstance(value, (int, float, Tensor)) and not isinstance(value, bool) and one
        if not number or not 0 <= float(value) < math.inf:
            raise ValueError(f"'step' of parameter {slot!r} in the state must be 0 or more, got {shown(value)}.")
    elif not isinstance(value, Tensor) or not value.is_floating_point():
        raise ValueError(f"{name!r} of parameter {slot!r} in the state must be a real tensor, got {shown(value)}.")
    elif value.shape != shape:
        raise ValueError(
            f"{name!r} of parameter {slot!r} has shape {tuple(value.shape)} in the state, but the "
            f"parameter has {shape}; it was saved from another model."
        )
