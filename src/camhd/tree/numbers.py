"""Numbers of a step that are tensors while it is compiled, or when lr is one; and numbers within a factor of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

Number: TypeAlias = float | Tensor


def times_(tensors: Sequence[Tensor], numbers: Sequence[Number]) -> None:
    """Multiply each tensor with its number, in place."""
    floats = [number for number in numbers if not isinstance(number, Tensor)]
    if len(floats) < len(numbers):
        torch._foreach_mul_(list(tensors), [torch.as_tensor(number) for number in numbers])
    elif any(number != 1 for number in floats):
        torch._foreach_mul_(list(tensors), floats)


def larger(first: Number, second: Number) -> Number:
    """The larger of two numbers."""
    if isinstance(first, Tensor):
        return first.clamp_min(second)
    return second.clamp_min(first) if isinstance(second, Tensor) else max(first, second)


def smaller(first: Number, second: Number) -> Number:
    """The smaller of two numbers."""
    return -larger(-first, -second)


def within(new: Tensor, old: Tensor, factor: float | Tensor) -> Tensor:
    """New rates, but none that is more than a factor away from the old one; from 0 every change is infinite.

    >>> within(torch.tensor([5.0, 0.1, 1.5, 7.0]), torch.tensor([1.0, 1.0, 1.0, 0.0]), 2.0)
    tensor([2.0000, 0.5000, 1.5000, 7.0000])
    """
    bounded = torch.minimum(torch.maximum(new, old / factor), old * factor)
    return torch.where(old > 0, bounded, new)
