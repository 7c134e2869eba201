"""The compiled step as a C function of one pointer, for any thread of any pool to call.

A process that compiles the kernels links other copies of them than one that takes them from the disk, and then sums
are rounded differently in their last bit. So another process compiles, and all that train take what it has kept: a
run gives the same numbers the first time and ever after.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import carray, cfunc, types
from numba.core.caching import FunctionCache
from numba.core.registry import cpu_target

from . import block as at
from . import core, passes, trace_core
from .jit import FINGERPRINT, fetch_add, kernel, number_from, pointer

if sys.platform != "win32":
    import fcntl

_ENTRY = types.void(types.CPointer(types.int64))


class Entry(NamedTuple):
    """Where threads enter a step, with the address of the block."""

    call: Callable[[int], None]
    address: int  # of the C function itself
    kept: Any  # what must not be collected


@kernel
def _which(block):
    """The number of the thread that comes in."""
    if block[at.WHO] == at.ONE_OF_A_TEAM:
        return np.int64(number_from(block[at.THREAD_NUMBER]))
    if block[at.WHO] == at.HELPER:
        control = carray(pointer(block[at.CONTROL], core.WHOLE), passes.COUNTERS)
        return fetch_add(control, passes.HELPERS, 1) + 1
    return np.int64(0)


def _function(real, fingerprint=FINGERPRINT):
    """Numba looks at what a function closes over before it takes machine code from the disk: hence the fingerprint."""

    def enter(address):
        block, like, _ = carray(address, at.LENGTH), np.empty(0, real), fingerprint
        core.work(block, _which(block), like)

    return enter


def _traced_function(real, fingerprint=FINGERPRINT):
    """The same for a step with a trace of directions; who needs only one of the two compiles only one."""

    def enter(address):
        block, like, _ = carray(address, at.LENGTH), np.empty(0, real), fingerprint
        trace_core.work(block, _which(block), like)

    return enter


def _compiled(function):
    try:
        return cfunc(_ENTRY, cache=True)(function)
    except Exception:  # no folder, a full disk, damage; what is wrong with the kernels comes up again
        return cfunc(_ENTRY)(function)


def _is_kept(function):
    """Whether its machine code is on the disk; also if there is no place for it, or a Numba that keeps it otherwise."""
    try:
        cache = FunctionCache(function)
        key = cache._index_key(_ENTRY, cpu_target.target_context.codegen())
        return key in cache._cache_file._load_index()
    except Exception:  # there is nothing that a damaged pickle may not raise
        return True


def _see_that_it_is_kept(name, traced):
    """Let another process compile what is not on the disk yet; of several that need it, one does, and others wait."""
    function = _made_of(name, traced)
    if _is_kept(function):
        return
    try:
        folder = Path(FunctionCache(function).cache_path)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "camhd.lock").open("a") as lock:  # one for all: Numba gives files numbers, and two may take one
            if sys.platform != "win32":
                fcntl.flock(lock, fcntl.LOCK_EX)
            if not _is_kept(function):
                _compile_elsewhere(name, traced)
    except OSError:  # a full disk, or one without locks: each for itself
        _compile_elsewhere(name, traced)


def _compile_elsewhere(name, traced):
    """Let another Python compile and keep it. If it cannot, this one does, and only the last bits differ."""
    program = sys.executable or ""
    if getattr(sys, "frozen", False) or not Path(program).name.lower().startswith("python"):
        return  # an application that would start itself once more
    command = f"from {__name__} import compile_and_keep; compile_and_keep({name!r}, {traced})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        subprocess.run([program, "-c", command], env=environment, stdin=subprocess.DEVNULL, capture_output=True)
    except OSError:  # no more processes, no memory: it was worth a try
        return


def _made_of(name, traced):
    return (_traced_function if traced else _function)(np.float32 if name == "float32" else np.float64)


def compile_and_keep(name: str, traced: bool) -> None:
    """What the other process does."""
    _compiled(_made_of(name, traced))


_made: dict[Any, Entry] = {}


def compiled_here() -> bool:
    """Whether this process had to compile a step itself, so that its last bits may not be those of every other."""
    return any(made.kept.cache_hits == 0 for made in _made.values())


def entry(dtype: Any, traced: bool = False) -> Entry:
    """The entry for parameters of a dtype, compiled when it is first asked for."""
    if (dtype, traced) not in _made:
        name = np.dtype(dtype).name
        _see_that_it_is_kept(name, traced)
        made = _compiled(_made_of(name, traced))
        _made[dtype, traced] = Entry(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(made.address), made.address, made)
    return _made[dtype, traced]
