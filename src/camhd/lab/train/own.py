"""Functions that a user brings along: found by their place, and named so that records can tell them apart."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .. import data as datasets
from .. import models, optimizers

PREFIX = "own:"
_PLACE = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)")


def find(text: str) -> Any:
    """A name of the catalogs as it is; `FILE.py:FUNCTION` or `package.module:function` as the function.

    >>> find("ffnn:100,100")
    'ffnn:100,100'
    >>> find("torch.nn:Identity")
    <class 'torch.nn.modules.linear.Identity'>
    """
    path, _, name = text.rpartition(":")
    if path.endswith(".py"):
        return _member(_from_file(path, name), path, name)
    place = _PLACE.fullmatch(text)
    if place is None or path in {*models.NAMES, *datasets.NAMES, *optimizers.names()}:
        return text
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{path}.".startswith(f"{missing.name}."):
            raise
        raise ValueError(
            f"there is no module {missing.name!r}, which should lead to the function {name!r}; it must be installed, "
            "or lie in a folder that Python looks into, or be given as FILE.py:FUNCTION."
        ) from None
    return _member(module, path, name)


def look_in(folder: str | None) -> None:
    """From now on Python finds modules in this folder, too; its own come first."""
    if folder is not None and folder not in sys.path:
        sys.path.append(folder)


def _from_file(path: str, name: str) -> types.ModuleType:
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"there is no file {path!r}, which should hold the function {name!r}.")
    spec = importlib.util.spec_from_file_location(file.stem, file.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(file.stem, module)  # so that what it defines can be found by name
    spec.loader.exec_module(module)
    return module


def _member(module: types.ModuleType, path: str, name: str) -> Any:
    function = getattr(module, name, None)
    if not callable(function):
        raise ValueError(f"{path!r} must hold a function {name!r}, but does not.")
    return function


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
