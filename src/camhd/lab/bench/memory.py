"""How many bytes hang on an optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType

from torch import Tensor, nn

_LEAVES = (str, bytes, int, float, complex, type, ModuleType, FunctionType, BuiltinFunctionType, nn.Module)


def state_bytes(holder: object, model: nn.Module) -> int:
    """Bytes of all tensors and arrays within reach of an object, but for the model's parameters and gradients.

    Memory that several of them share counts once.

    >>> import torch
    >>> model = nn.Linear(10, 10, bias=False)
    >>> state_bytes({"whole": (m := torch.zeros(10, 10)), "part": m[2:]}, model)
    400
    """
    given = _regions([t for p in model.parameters() for t in (p, p.grad) if t is not None])
    return _length([*given, *_regions(holder)]) - _length(given)


def _regions(root: object) -> list[tuple[int, int]]:
    """Where the memory of everything in reach begins and ends."""
    found: list[tuple[int, int]] = []
    seen: dict[int, object] = {}  # keeps them alive, or an id might come twice
    stack = [root]
    while stack:
        thing = stack.pop()
        if id(thing) in seen or thing is None or isinstance(thing, _LEAVES):
            continue
        seen[id(thing)] = thing
        region = _region(thing)
        if region is not None:
            found.append(region)
        else:
            stack.extend(_inside(thing))
    return found


def _region(thing: object) -> tuple[int, int] | None:
    if isinstance(thing, Tensor):
        storage = thing.untyped_storage()
        return storage.data_ptr(), storage.data_ptr() + storage.nbytes()
    interface = getattr(thing, "__array_interface__", None)  # NumPy's, without importing it
    if interface is None:
        return None
    start = int(interface["data"][0])
    return start, start + int(getattr(thing, "nbytes", 0))


def _inside(thing: object) -> Iterable[object]:
    if isinstance(thing, Mapping):
        return [*thing.keys(), *thing.values()]
    if isinstance(thing, (list, tuple, set, frozenset)):
        return list(thing)
    if type(thing).__module__.split(".")[0] in ("numba", "llvmlite"):
        return []  # a compiler's data, and endless
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    return [*getattr(thing, "__dict__", {}).values(), *(getattr(thing, name, None) for name in slots)]


def _length(regions: list[tuple[int, int]]) -> int:
    total = reached = 0
    for start, end in sorted(regions):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total
