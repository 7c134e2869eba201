"""Compiling: once, kept on disk, and without the disk if it cannot be written."""

from __future__ import annotations

import contextlib
import hashlib
import pathlib
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

# Sums may be reordered, so that they run in vector registers. Nothing else is relaxed: infinities and NaNs must come
# through, because the guards look for them, and products are rounded as torch rounds them.
FAST = {"reassoc", "nsz"}
# Where a loop is little but divisions, they may be done by an estimate of the inverse and one Newton step. LLVM asks
# for "ninf" before it does that, because a division by ∞ would come out as NaN; such a loop bounds its divisors.
# "contract" lets the step be two fused operations instead of four.
FAST_DIVISION = {*FAST, "arcp", "ninf", "contract"}


# Numba keeps machine code as long as the file of the function itself is the same, but our kernels call each
# other across files. So what is kept is marked with the contents of all of them.
SOURCES = b"".join(path.read_bytes() for path in sorted(pathlib.Path(__file__).parent.glob("*.py")))
FINGERPRINT = int(hashlib.sha256(SOURCES).hexdigest()[:15], 16)


def kernel(function: Kernel) -> Kernel:
    """Compile for other kernels to call; keep the machine code on disk if there is a place for it."""
    return _compiled(function, FAST, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def kernel_for_python(function: Kernel) -> Kernel:
    """The same for a function that Python calls too; its wrapper takes time to compile."""
    return _compiled(function, FAST)


def dividing(function: Kernel) -> Kernel:
    """A kernel that is a loop of divisions by numbers that are never infinite."""
    return _compiled(function, FAST_DIVISION, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def exact(function: Kernel) -> Kernel:
    """A kernel in which nothing is reordered."""
    return _compiled(function, set(), no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _compiled(function: Kernel, fastmath: set[str], **wrappers: bool) -> Kernel:
    options = {"nogil": True, "fastmath": fastmath, "error_model": "numpy", "boundscheck": False, **wrappers}
    try:
        kept = numba.njit(cache=True, **options)(function)
        kept._cache._cache_file._source_stamp = FINGERPRINT
        _make_optional(kept._cache)
        return kept
    except (RuntimeError, AttributeError):  # no folder to write to, or a Numba that keeps it otherwise
        return numba.njit(**options)(function)


def _make_optional(cache: Any) -> None:
    """Machine code that cannot be kept or read back (a full disk, a damaged file) costs time and nothing else."""
    save, load = cache.save_overload, cache.load_overload

    def save_if_possible(signature: Any, made: Any) -> None:
        with contextlib.suppress(OSError):
            save(signature, made)

    def load_if_possible(signature: Any, target: Any) -> Any:
        try:
            return load(signature, target)
        except Exception:  # there is nothing that a damaged pickle may not raise
            return None

    cache.save_overload, cache.load_overload = save_if_possible, load_if_possible


@intrinsic
def pointer(typingctx, address, like):
    """An address as a pointer to elements like those of an array."""
    signature = types.CPointer(like.dtype)(address, like)

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return signature, generate


def _place(context, builder, signature, arguments):
    """The address of array[index], for the two first arguments."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.gep(array.data, [arguments[1]])


@intrinsic
def fetch_add(typingctx, array, index, value):
    """Add to array[index] (int64) in one step that no other thread can split; what was there before."""

    def generate(context, builder, signature, arguments):
        return builder.atomic_rmw("add", _place(context, builder, signature, arguments), arguments[2], "seq_cst")

    return types.int64(array, types.intp, types.int64), generate


@intrinsic
def fetch(typingctx, array, index):
    """Read array[index] (int64) as the other threads have left it."""

    def generate(context, builder, signature, arguments):
        return builder.load_atomic(_place(context, builder, signature, arguments), "seq_cst", 8)

    return types.int64(array, types.intp), generate


@intrinsic
def store(typingctx, array, index, value):
    """Write array[index] (int64) so that whoever sees it also sees all that was written before."""

    def generate(context, builder, signature, arguments):
        builder.store_atomic(arguments[2], _place(context, builder, signature, arguments), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), generate


@intrinsic
def number_from(typingctx, address):
    """Call the C function `int f(void)` at an address."""

    def generate(context, builder, signature, arguments):
        function = builder.inttoptr(arguments[0], ir.FunctionType(ir.IntType(32), []).as_pointer())
        return builder.call(function, [])

    return types.int32(address), generate
