"""LeNet-5."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class LeNet5(nn.Module):
    """LeNet-5 with ReLU and max-pooling; smaller images are padded to 32 × 32."""

    def __init__(self, channels: int = 1, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.out = nn.Linear(84, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of images of 28 × 28 or 32 × 32."""
        margin = (32 - images.shape[-1]) // 2
        x = F.pad(images, (margin,) * 4)
        x = _halved(self.conv1(x).relu())
        x = _halved(self.conv2(x).relu())
        x = self.fc1(x.flatten(1)).relu()
        x = self.fc2(x).relu()
        logits: Tensor = self.out(x)
        return logits


def _halved(images: Tensor) -> Tensor:
    """Max-pooling by two. On a CPU plain maxima give the same bits as torch's own in less time."""
    if images.device.type != "cpu" or torch.compiler.is_compiling():
        return F.max_pool2d(images, 2)
    if torch.is_grad_enabled():
        halved: Tensor = _Halved.apply(images)[0]  # type: ignore[no-untyped-call] # torch says nothing of its types
        return halved
    rows = torch.maximum(images[..., ::2, :], images[..., 1::2, :])
    return torch.maximum(rows[..., ::2], rows[..., 1::2])


class _Halved(torch.autograd.Function):
    """Maxima, and the places of the first of equal ones, from which torch's own backward pass goes on."""

    generate_vmap_rule = True

    @staticmethod
    def forward(images: Tensor) -> tuple[Tensor, Tensor]:
        height, width = images.shape[-2:]
        a, b = images[..., ::2, ::2], images[..., ::2, 1::2]
        c, d = images[..., 1::2, ::2], images[..., 1::2, 1::2]
        upper, lower = torch.maximum(a, b), torch.maximum(c, d)
        down = (lower > upper).view(torch.int8)  # numbers of one byte go by many at a time; truth values do not
        right = (b > a).view(torch.int8) & (1 - down) | (d > c).view(torch.int8) & down
        corners = width * torch.arange(0, height, 2)[:, None] + torch.arange(0, width, 2)
        places = right.add_(down, alpha=width).to(torch.int64).add_(corners)
        return torch.maximum(upper, lower), places

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(inputs[0], output[1])

    @staticmethod
    def backward(ctx: Any, slopes: Tensor, _: Tensor) -> Tensor:
        images, places = ctx.saved_tensors
        found: Tensor = torch.ops.aten.max_pool2d_with_indices_backward(
            slopes, images, (2, 2), (2, 2), (0, 0), (1, 1), False, places
        )
        return found


def lenet5(channels: int = 1, classes: int = 10) -> LeNet5:
    """LeNet-5 for 28 × 28 or 32 × 32 images.

    >>> import torch
    >>> lenet5(channels=3)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    return LeNet5(channels, classes)
