"""Numbers of a step that are tensors while it is compiled, or when lr is one."""

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
