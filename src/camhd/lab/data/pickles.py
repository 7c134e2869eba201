"""Reading a pickle without running it.

A pickle is a program: opcodes for a small stack machine, some of which look up any function and call it. Here the
machine is our own. It knows the opcodes that lists, dictionaries, texts and numbers need; what would be looked up is
kept as a name and what would be called as a record of the call, and neither ever happens. What is not known is refused.
"""

from __future__ import annotations

import pickletools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

_NUMPY = ("numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct")


@dataclass(frozen=True)
class Name:
    """What a pickle wants to be looked up: "module name"."""

    name: str


@dataclass
class Call:
    """What a pickle wants to be called, and the state that it wants the result to get."""

    function: object
    arguments: object
    state: object = None


_MARK = object()
_Stack: TypeAlias = "list[Any]"

_NUMBERS = ("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT")
_TEXTS = ("SHORT_BINSTRING", "BINSTRING", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")
_VALUES = frozenset((*_NUMBERS, *_TEXTS, "SHORT_BINBYTES", "BINBYTES", "BINBYTES8"))
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], object]] = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple}
_PUTS = ("BINPUT", "LONG_BINPUT")
_GETS = ("BINGET", "LONG_BINGET")
_NOTHING = ("PROTO", "FRAME", "STOP")


def _to_mark(stack: _Stack) -> list[Any]:
    place = len(stack) - 1
    while stack[place] is not _MARK:
        place -= 1
        if place < 0:
            raise ValueError("no mark")
    items = stack[place + 1 :]
    del stack[place:]
    return items


def _last(stack: _Stack, count: int) -> list[Any]:
    items = stack[-count:]
    if len(items) < count or any(item is _MARK for item in items):
        raise ValueError("nothing on the stack")
    del stack[-count:]
    return items


def _append(stack: _Stack, items: list[Any]) -> None:
    if not isinstance(stack[-1], list):
        raise ValueError("items for what is no list")
    stack[-1].extend(items)


def _set(stack: _Stack, items: list[Any]) -> None:
    if not isinstance(stack[-1], dict):
        raise ValueError("entries for what is no dictionary")
    stack[-1].update(zip(items[::2], items[1::2], strict=True))


def _reduce(stack: _Stack) -> None:
    function, arguments = _last(stack, 2)
    match function, arguments:
        case Name("_codecs encode"), (str(value), "latin1"):  # how Python 3 writes bytes for Python 2
            stack.append(value.encode("latin-1"))
        case _:
            stack.append(Call(function, arguments))


def _build(stack: _Stack) -> None:
    (state,) = _last(stack, 1)
    if not isinstance(stack[-1], Call):
        raise ValueError("a state for what is not called")
    stack[-1].state = state


def _name(stack: _Stack) -> None:
    stack.append(Name(" ".join(map(str, _last(stack, 2)))))


_ACTIONS: dict[str, Callable[[_Stack], None]] = {
    "MARK": lambda stack: stack.append(_MARK),
    "TUPLE": lambda stack: stack.append(tuple(_to_mark(stack))),
    "TUPLE1": lambda stack: stack.append(tuple(_last(stack, 1))),
    "TUPLE2": lambda stack: stack.append(tuple(_last(stack, 2))),
    "TUPLE3": lambda stack: stack.append(tuple(_last(stack, 3))),
    "APPEND": lambda stack: _append(stack, _last(stack, 1)),
    "APPENDS": lambda stack: _append(stack, _to_mark(stack)),
    "SETITEM": lambda stack: _set(stack, _last(stack, 2)),
    "SETITEMS": lambda stack: _set(stack, _to_mark(stack)),
    "REDUCE": _reduce,
    "BUILD": _build,
    "STACK_GLOBAL": _name,
}


def load(content: bytes) -> object:
    r"""What a pickle holds, with a `Call` wherever it would call something.

    Raises:
        ValueError: if the pickle is damaged, or needs more than lists, dictionaries, texts, numbers and calls.

    >>> import pickle
    >>> load(pickle.dumps({"a": [1, (2, b"c")]}, protocol=2 + 1))
    {'a': [1, (2, b'c')]}
    >>> load(b"cos\nsystem\n(X\x04\0\0\0exittR.")
    Call(function=Name(name='os system'), arguments=('exit',), state=None)
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # pickletools warns of names that no sound pickle has
            return _run(content)
    except (IndexError, KeyError, TypeError, Warning) as error:
        raise ValueError(f"a damaged pickle ({type(error).__name__}: {error})") from None


def _run(content: bytes) -> object:
    stack: _Stack = []
    memo: dict[int, object] = {}
    argument: Any
    for opcode, argument, _ in pickletools.genops(content):
        name = opcode.name
        if name in _VALUES:
            stack.append(argument)
        elif name in _PUTS:
            memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in _GETS:
            stack.append(memo[argument])
        elif name == "GLOBAL":
            stack.append(Name(argument))
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name in _ACTIONS:
            _ACTIONS[name](stack)
        elif name not in _NOTHING:
            raise ValueError(f"the opcode {name}, which no list of numbers needs")
    if len(stack) != 1 or stack[0] is _MARK:
        raise ValueError(f"a damaged pickle that leaves {len(stack)} values on the stack")
    return stack[0]


def text(value: object) -> object:
    """A text as text: Python 2 pickled bytes and text alike."""
    return value.decode("latin-1") if isinstance(value, bytes) else value


def array(value: object) -> tuple[tuple[int, ...], bytes]:
    """Shape and bytes of a numpy array of unsigned bytes in C order, out of what `load` gave.

    Raises:
        ValueError: if it is anything else.
    """
    if not (isinstance(value, Call) and isinstance(value.function, Name) and value.function.name in _NUMPY):
        raise ValueError(f"{_told(value)} where an array should be")
    state = value.state
    if not (isinstance(state, tuple) and len(state) == 5):
        raise ValueError("an array without a state")
    _, shape, kind, fortran, data = state
    if not (isinstance(kind, Call) and kind.function == Name("numpy dtype") and _first(kind.arguments) == "u1"):
        raise ValueError(f"an array of {_told(kind)}, not of unsigned bytes")
    if fortran or not isinstance(shape, tuple) or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("an array that is not in C order")
    if isinstance(data, str):
        data = data.encode("latin-1")
    if not isinstance(data, bytes):
        raise ValueError("an array without bytes")
    return shape, data


def _first(values: object) -> object:
    return text(values[0]) if isinstance(values, tuple) and values else None


def _told(value: object) -> str:
    if isinstance(value, Call):
        return f"a call of {value.function.name.replace(' ', '.')!r}" if isinstance(value.function, Name) else "a call"
    return f"a {type(value).__name__}"
