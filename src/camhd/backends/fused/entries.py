"""The compiled step as a C function of one pointer, for any thread of any pool to call."""

from __future__ import annotations

import ctypes
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import carray, cfunc, types

from . import block as at
from . import core, passes, trace_core
from .jit import FINGERPRINT, fetch_add, number_from, pointer

_ENTRY = types.void(types.CPointer(types.int64))
_WHOLE = np.zeros(0, np.int64)


class Entry(NamedTuple):
    """Where threads enter a step, with the address of the block."""

    call: Callable[[int], None]
    address: int  # of the C function itself
    kept: Any  # what must not be collected


def _function(real, fingerprint=FINGERPRINT):
    """Numba looks at what a function closes over before it takes machine code from the disk: hence the fingerprint."""

    def enter(address):
        block, like, _ = carray(address, at.LENGTH), np.empty(0, real), fingerprint
        me = np.int64(0)
        if block[at.WHO] == at.ONE_OF_A_TEAM:
            me = np.int64(number_from(block[at.THREAD_NUMBER]))
        elif block[at.WHO] == at.HELPER:
            control = carray(pointer(block[at.CONTROL], _WHOLE), passes.COUNTERS)
            me = fetch_add(control, passes.HELPERS, 1) + 1
        core.work(block, me, like)

    return enter


def _traced_function(real, fingerprint=FINGERPRINT):
    """The same for a step with a trace of directions; who needs only one of the two compiles only one."""

    def enter(address):
        block, like, _ = carray(address, at.LENGTH), np.empty(0, real), fingerprint
        me = np.int64(0)
        if block[at.WHO] == at.ONE_OF_A_TEAM:
            me = np.int64(number_from(block[at.THREAD_NUMBER]))
        elif block[at.WHO] == at.HELPER:
            control = carray(pointer(block[at.CONTROL], _WHOLE), passes.COUNTERS)
            me = fetch_add(control, passes.HELPERS, 1) + 1
        trace_core.work(block, me, like)

    return enter


def _compiled(function):
    try:
        return cfunc(_ENTRY, cache=True)(function)
    except (RuntimeError, OSError, EOFError, ValueError, pickle.UnpicklingError):  # no folder, a full disk, damage
        return cfunc(_ENTRY)(function)


_made: dict[Any, Entry] = {}


def entry(dtype: Any, traced: bool = False) -> Entry:
    """The entry for parameters of a dtype, compiled when it is first asked for."""
    if (dtype, traced) not in _made:
        function = _traced_function if traced else _function
        made = _compiled(function(np.float32 if dtype == np.float32 else np.float64))
        _made[dtype, traced] = Entry(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(made.address), made.address, made)
    return _made[dtype, traced]
