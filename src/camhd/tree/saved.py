"""What a saved tree must look like: everything is checked here, before a number of it is taken over.

A checkpoint may be of another model or another version, cut off or edited by hand. Every error says what was found
and what to do; nothing is changed by looking.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from ..combine import State as Weights
from ..levels import Family, Layout
from .rates import RateTree
from .state import Level, Move

# Of the format; 1: without "shared"; of the long-horizon rule, 2: without the largest that a rate has been; 3: without
# the usual length of a direction; of Adam, 4: m in the place of the direction that it gives; 5: of the long-horizon
# rule, without the size of gradients.
VERSION = 6
READ = (1, 2, 3, 4, 5, 6)
MOVED = "moved"
PREFIXES = ("rate.", "start.", "hyper_", "tracing.")
KEYS = ("version", "levels", "step", "skipped", "weights", "last_weights", "last_moves")


def is_tree_entry(name: str) -> bool:
    """Whether an entry of a parameter's state belongs to the tree."""
    return name == MOVED or (isinstance(name, str) and name.startswith(PREFIXES))


def sharing(layout: Layout) -> dict[str, list[int]]:
    """For each level and slot, the first slot that uses the same rates: who shares with whom, whatever the names."""
    found = {}
    for partition in layout.partitions:
        first: dict[Family, int] = {}
        families = enumerate(partition.family_of_slot)
        found[partition.level.name] = [first.setdefault(family, slot) for slot, family in families]
    return found


def check_header(tree: RateTree, header: Any, groups: int) -> None:
    """Whether the tree's own part of a checkpoint is whole, of a version that can be read, and of such a tree."""
    if not isinstance(header, Mapping):
        raise ValueError(f"the state's 'camhd' header must be a dict, got {shown(header)}; it was changed by hand.")
    version = header.get("version")
    if version not in READ or isinstance(version, bool):
        raise ValueError(
            f"the state has format version {version!r}, this camhd reads {READ[0]} to {READ[-1]}; "
            "load it with the version of camhd that wrote it."
        )
    for key in (*KEYS, *(("shared",) if version > 1 else ())):
        if key not in header:
            raise ValueError(f"the state's 'camhd' header has no {key!r}; the state is not complete.")
    names = list(tree.layout.names)
    if header["levels"] != names:
        raise ValueError(
            f"the state was saved with the levels {shown(header['levels'])}, this optimizer has {tuple(names)}; "
            "build it with the same 'levels'."
        )
    for key in ("step", "skipped"):
        value = header[key]
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(f"{key!r} of the state must be a whole number of 0 or more, got {shown(value)}.")
    moves = header["last_moves"]
    if not isinstance(moves, list) or len(moves) != groups or not all(map(_is_move, moves)):
        raise ValueError(
            f"'last_moves' of the state must be two finite numbers for each of the {groups} param groups, got "
            f"{shown(moves)}."
        )
    if version > 1:
        _check_sharing(tree.layout.whole, header["shared"])


def _is_move(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == len(Move._fields) and all(map(_is_finite, value))


def _is_finite(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _check_sharing(layout: Layout, saved: Any) -> None:
    for level, ours in sharing(layout).items():
        theirs = saved.get(level) if isinstance(saved, Mapping) else None
        if theirs == ours:
            continue
        if not isinstance(theirs, list) or len(theirs) != len(ours):
            raise ValueError(
                f"'shared' of the state must say for each of the {len(ours)} parameters with whom it shares its rate "
                f"of the level {level!r}, got {shown(theirs)}."
            )
        slot = next(i for i, (one, other) in enumerate(zip(theirs, ours, strict=True)) if one != other)
        here, there = layout.slots[slot].name, layout.slots[min(theirs[slot], ours[slot])].name
        apart, together = ("there", "here") if ours[slot] < theirs[slot] else ("here", "there")
        raise ValueError(
            f"{there!r} and {here!r} share one rate of the level {level!r} {_PLACES[together]}, but have a rate each "
            f"{_PLACES[apart]}; {NAMES_REMEDY}"
        )


_PLACES = {"here": "in this optimizer", "there": "in the state"}
NAMES_REMEDY = (
    "build the optimizer as the one that wrote the state: from the same model, with names (the model itself or its "
    "named_parameters()) or without."
)


def check_agreement(slot: str, name: str, known: Tensor, value: Tensor) -> None:
    """A shared rate is saved with each parameter that uses it; all copies must be the same."""
    if not torch.equal(known, value):
        raise ValueError(
            f"{name!r} of parameter {slot!r} in the state is not the rate of the other parameters that share it here; "
            f"{NAMES_REMEDY}"
        )


def check_entries(tree: RateTree, slot: str, entries: Mapping[str, Any]) -> None:
    """Whether a parameter's state has entries that this tree has no use for."""
    state, known = tree.state, {MOVED}
    for name, level in zip(tree.layout.names, [*state.levels, *state.leaves[:1]], strict=True):
        known |= {f"{key}.{name}" for key in level.tensors()}
    if state.tracing is not None:
        known |= {f"tracing.{name}" for name in state.tracing.tensors()}
    for name in entries:
        if is_tree_entry(name) and name not in known:
            raise ValueError(
                f"the state of parameter {slot!r} has {name!r}, which this optimizer has no use for; it was saved "
                "with other levels or another hyper rule."
            )
    if not isinstance(entries.get(MOVED), bool):
        raise ValueError(
            f"the state of parameter {slot!r} must have {MOVED!r}, True or False, found {shown(entries.get(MOVED))}; "
            "the state is not complete."
        )


def brought_up(tree: RateTree, version: int, slots: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The entries of all slots as this version writes them.

    The largest that a rate has been is, of a checkpoint that does not say it, the rate at the checkpoint. How long a
    direction usually is will be seen at the next step, and how large gradients are from then on.
    """
    levels = [name for name, level in zip(tree.layout.names, tree.state.levels, strict=False) if "peak" in level.rule]
    added = {f"rate.{name}": f"hyper_peak.{name}" for name in levels} if version < 3 else {}
    slots = [{**entries, **{added[name]: entries[name] for name in added if name in entries}} for entries in slots]
    if version < 6:
        unknown = {f"hyper_{key}.{name}": f"rate.{name}" for name in levels for key in ("slope", "past_slope")}
        slots = [{**_zeros(entries, unknown), **entries} for entries in slots]
    if version >= 4 or tree.state.tracing is None:
        return slots
    return [{**_zeros(entries, {"tracing.usual": "tracing.kappa"}), **entries} for entries in slots]


def _zeros(entries: Mapping[str, Any], unknown: Mapping[str, str]) -> dict[str, Tensor]:
    """Zeros for what is not known, each like something that may be."""
    known = {name: entries.get(like) for name, like in unknown.items()}
    return {name: torch.zeros_like(like) for name, like in known.items() if isinstance(like, Tensor)}


def entry(tree: RateTree, entries: Mapping[str, Any], name: str, slot: str, shape: tuple[int, ...]) -> Tensor:
    """A tensor of the tree's in a parameter's state, if it is there, of the right shape, and a number everywhere."""
    value = entries.get(name)
    if not isinstance(value, Tensor) or not value.is_floating_point():
        raise _unfit(value, name, slot, shape)
    check_shape(value, name, slot, shape)
    least = -math.inf if tree.config.min_lr < 0 or name.startswith("hyper_") else 0.0
    if value.numel() and not bool((value.isfinite() & (value >= least)).all()):
        raise ValueError(
            f"{name!r} of parameter {slot!r} in the state must be finite{' and 0 or more' if least == 0 else ''}, "
            f"found {_worst(value, least)}; the state is damaged, go back to an earlier one."
        )
    return value


def check_shape(value: Tensor, name: str, slot: str, shape: tuple[int, ...]) -> None:
    """Whether a tensor in a parameter's state has the shape of what it is to become."""
    if tuple(value.shape) != shape:
        raise _unfit(value, name, slot, shape)


def _unfit(value: Any, name: str, slot: str, shape: tuple[int, ...]) -> ValueError:
    return ValueError(
        f"the state of parameter {slot!r} must have {name!r} of shape {shape}, found {shown(value)}; "
        "it was saved from another model, other levels or another hyper rule."
    )


def _worst(value: Tensor, least: float) -> float:
    bad = ~value.isfinite() | (value < least)
    return float(value[bad].flatten()[0])


def weights_from(tree: RateTree, name: str, lists: Any) -> Weights:
    """What the combination has learned, from the lists of a header."""
    like = tree.state.weights
    if not isinstance(lists, Mapping) or set(lists) != set(like):
        found = sorted(map(str, lists)) if isinstance(lists, Mapping) else shown(lists)
        raise ValueError(
            f"the state's combination has {found}, this optimizer's {sorted(like)}; build it with the same 'combine'."
        )
    found_all = {key: _tensor(name, key, lists[key], value) for key, value in like.items()}
    trouble = tree.config.combine.trouble(found_all)
    if trouble is not None:
        raise ValueError(
            f"{name!r} of the state {trouble}, got {shown({key: lists[key] for key in like})}; the state is damaged, "
            "go back to an earlier one."
        )
    return found_all


def _tensor(name: str, key: str, numbers: Any, like: Tensor) -> Tensor:
    try:
        value = torch.tensor(numbers, dtype=like.dtype, device=like.device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{key!r} in {name!r} of the state must be lists of numbers, got {shown(numbers)}.") from error
    if value.shape != like.shape:
        raise ValueError(
            f"the state's combination has {key!r} of shape {tuple(value.shape)}, this optimizer's is "
            f"{tuple(like.shape)}; build it with the same levels, layers and 'combine'."
        )
    return value


def made_level(tensors: Mapping[str, Tensor]) -> Level:
    """A level from its tensors by name."""
    rule = {key.removeprefix("hyper_"): value for key, value in tensors.items() if key.startswith("hyper_")}
    return Level(tensors["rate"], tensors["start"], rule)


def shown(value: Any) -> str:
    """Something of a state in an error: a tensor by its shape, the rest cut to a line."""
    if isinstance(value, Tensor):
        return f"a {str(value.dtype).removeprefix('torch.')} tensor of shape {tuple(value.shape)}"
    text = repr(tuple(value) if isinstance(value, list) else value)
    return text if len(text) <= 80 else f"{text[:77]}..."
