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
