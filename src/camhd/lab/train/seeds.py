"""One seed fixes every random number of a run, and the numbers of whoever called it stay as they were."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch's, Python's and (if loaded) NumPy's random numbers start at the seed; afterwards they are put back."""
    before = state()
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
    try:
        yield
    finally:
        restore(before)


def seeded_apart(seed: int, rank: int) -> None:
    """Processes that share a run have built the same model; from now on each draws numbers (dropout) of its own."""
    if rank:
        torch.manual_seed((seed + rank * 0x9E3779B97F4A7C15) % 2**63)


def state() -> dict[str, Any]:
    """Where all generators stand, in types that `torch.load` takes without unpickling code."""
    found: dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found["cuda"] = torch.cuda.get_rng_state_all()
    if "numpy" in sys.modules:
        kind, keys, *rest = sys.modules["numpy"].random.get_state()
        found["numpy"] = (kind, keys.tolist(), *rest)
    return found


def restore(found: dict[str, Any]) -> None:
    """Set all generators to where they stood."""
    torch.set_rng_state(found["torch"])
    version, keys, gauss = found["python"]
    random.setstate((version, tuple(keys), gauss))
    if "cuda" in found:
        torch.cuda.set_rng_state_all(found["cuda"])
    if "numpy" in found:
        import numpy

        kind, keys, *rest = found["numpy"]
        numpy.random.set_state((kind, numpy.array(keys, dtype=numpy.uint32), *rest))
