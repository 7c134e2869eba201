"""Names for functions that a user brings along, so that records can tell them apart."""

from __future__ import annotations

import functools
import hashlib
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

PREFIX = "own:"


def name_of(function: Callable[..., Any]) -> str:
    """`own:`, the function's name, and a short hash of what it does.

    The hash is of the code, of the defaults and of the simple values that the function closes over; a function that
    was changed is another function, and its runs are other runs.

    >>> def small():
    ...     return torch.nn.Linear(64, 10)
    >>> name_of(small)
    'own:small-...'
    >>> name_of(lambda: 1) == name_of(lambda: 2)
    False
    """
    digest = hashlib.sha256("\n".join(_parts(function)).encode()).hexdigest()[:6]
    return f"{PREFIX}{_short(function)}-{digest}"


def is_own(name: str) -> bool:
    """Whether a name of a record stands for a function that a user brought along."""
    return name.startswith(PREFIX)


def call_with(function: Callable[..., Any], value: object) -> Any:
    """Call a function that takes one value, or none."""
    return function(value) if _needed(function) else function()


def _short(function: Callable[..., Any]) -> str:
    inner = function.func if isinstance(function, functools.partial) else function
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    return str(name).rpartition("<locals>.")[2].strip("<>")


def _needed(function: Callable[..., Any]) -> bool:
    """Whether it cannot be called without an argument."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in ones do not tell
        return False
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(p.default is p.empty and p.kind in places for p in parameters)


def _parts(value: Any, seen: frozenset[int] = frozenset()) -> Iterator[str]:
    """Texts that differ if the function differs; nothing that differs between two processes, such as addresses.

    `seen` are the functions and classes around this one: a class is found again in the closure of its methods.
    """
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        yield repr(value)
        return
    yield type(value).__qualname__
    if id(value) in seen:
        return
    for inner in _inside(value):
        yield from _parts(inner, seen | {id(value)})


def _inside(value: Any) -> list[Any]:
    """What something is made of, as far as it can be told."""
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *sorted(value.keywords.items())]
    if isinstance(value, types.MethodType):
        return [value.__func__]
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
        kinds = sorted((value.__kwdefaults__ or {}).items())
        return [value.__module__, value.__qualname__, value.__code__, value.__defaults__, kinds, cells]
    if isinstance(value, types.CodeType):
        return [value.co_code, *value.co_names, *value.co_consts]
    if isinstance(value, type):
        members = sorted((name, member) for name, member in vars(value).items() if inspect.isfunction(member))
        return [value.__module__, value.__qualname__, members]
    return list(value) if isinstance(value, (list, tuple)) else []
