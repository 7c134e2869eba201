"""Compiling: once, kept on disk, and without the disk if it cannot be written."""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core import types
from numba.extending import intrinsic

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

# Sums may be reordered, so that they run in vector registers. Nothing else is relaxed: infinities and NaNs
# must come through, because the guards look for them, and products are rounded as torch rounds them.
FAST = {"reassoc", "nsz"}


# Numba keeps machine code as long as the file of the function itself is the same, but our kernels call each
# other across files. So what is kept is marked with the contents of all of them.
SOURCES = b"".join(path.read_bytes() for path in sorted(pathlib.Path(__file__).parent.glob("*.py")))
FINGERPRINT = int(hashlib.sha256(SOURCES).hexdigest()[:15], 16)


def kernel(function: Kernel) -> Kernel:
    """Compile for the machine; release the GIL; keep the machine code on disk if there is a place for it."""
    options = {"nogil": True, "fastmath": FAST, "error_model": "numpy", "boundscheck": False}
    try:
        kept = numba.njit(cache=True, **options)(function)
        kept._cache._cache_file._source_stamp = FINGERPRINT
        return kept
    except (RuntimeError, AttributeError):  # no folder to write to, or a Numba that keeps it otherwise
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
