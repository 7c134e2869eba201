"""Numbers so near to zero that many CPUs take a hundred times as long to compute with them.

The averages of an optimizer shrink by a constant factor a step where gradients are 0, as they are for units that no
longer fire, until they are subnormal: below 1.2e-38 in float32. From there on they hardly shrink any more. On Intel's
CPUs a step of Adam takes up to three times as long when a few per cent of its state is like that, and no weight can
tell such a number from 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def taken_for_zero() -> Iterator[None]:
    """This thread, and those that it starts, take subnormal numbers for 0; afterwards all is as it was.

    Where the CPU cannot, nothing happens.
    """
    before = are_zero()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def are_zero() -> bool:
    """Whether this thread takes them for 0 now; torch can set that, and not tell."""
    smallest = torch.tensor(torch.finfo(torch.float64).tiny, dtype=torch.float64)
    return bool(smallest / 2 == 0)
