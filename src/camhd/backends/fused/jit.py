"""Compiling: once, kept on disk, and without the disk if it cannot be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core import types
from numba.extending import intrinsic

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

# Sums may be reordered, so that they run in vector registers. Nothing else is relaxed: infinities and NaNs
# must come through, because the guards look for them, and products are rounded as torch rounds them.
FAST = {"reassoc", "nsz"}


def kernel(function: Kernel) -> Kernel:
    """Compile for the machine; release the GIL; keep the machine code on disk if there is a place for it."""
    options = {"nogil": True, "fastmath": FAST, "error_model": "numpy", "boundscheck": False}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder to write to: compile in every process instead
        return numba.njit(**options)(function)


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
