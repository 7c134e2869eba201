"""ResNets for small images."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two 3 × 3 convolutions and a way around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                OrderedDict(conv=nn.Conv2d(inputs, outputs, 1, stride, bias=False), bn=nn.BatchNorm2d(outputs))
            )

    def forward(self, x: Tensor) -> Tensor:
        """Same number of images, `outputs` channels, smaller by `stride`."""
        inner: Tensor = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        around: Tensor = self.shortcut(x)
        return (inner + around).relu()


class ResNet(nn.Module):
    """A ResNet of basic blocks for small images: a 3 × 3 stem without pooling, then stages of blocks.

    Args:
        blocks: how many of them each stage has.
        classes: of images.
        width: a factor on the number of channels.
        colours: those of an image.
        base: the channels of the first stage; each further one has twice as many.
    """

    def __init__(
        self, blocks: Sequence[int], classes: int = 10, width: float = 1.0, colours: int = 3, base: int = 64
    ) -> None:
        super().__init__()
        channels = [max(1, round(width * base * 2**stage)) for stage in range(len(blocks))]
        self.conv1 = nn.Conv2d(colours, channels[0], 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels[0])
        stages, inputs = [], channels[0]
        for stage, (count, outputs) in enumerate(zip(blocks, channels, strict=True)):
            strides = [1 if stage == 0 else 2] + [1] * (count - 1)
            sizes = [inputs] + [outputs] * (count - 1)
            stages.append(nn.Sequential(*(BasicBlock(i, outputs, s) for i, s in zip(sizes, strides, strict=True))))
            inputs = outputs
        self.stages = [f"layer{number}" for number in range(1, len(stages) + 1)]
        for name, stage_of_blocks in zip(self.stages, stages, strict=True):
            self.add_module(name, stage_of_blocks)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of images, usually of 32 × 32."""
        if torch.is_autocast_enabled("cpu") and images.device.type == "cpu":
            images = images.contiguous(memory_format=torch.channels_last)  # faster in bfloat16
        x = self.bn1(self.conv1(images)).relu()
        for name in self.stages:
            x = self.get_submodule(name)(x)
        logits: Tensor = self.fc(x.mean(dim=(2, 3)))
        return logits


def resnet8(classes: int = 10, width: float = 1.0, colours: int = 3) -> ResNet:
    """The smallest of the ResNets that were made for CIFAR: three stages of one block, 16, 32 and 64 channels.

    >>> sum(p.numel() for p in resnet8().parameters())
    78042

    Reference: He et al., Deep Residual Learning for Image Recognition, 2016, section 4.2, with n = 1.
    """
    return ResNet((1, 1, 1), classes, width, colours, base=16)


def resnet18(classes: int = 10, width: float = 1.0, colours: int = 3) -> ResNet:
    """ResNet-18 for CIFAR; `width` scales the number of channels, `colours` are those of an image.

    >>> import torch
    >>> resnet18(width=1 / 16)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    return ResNet((2, 2, 2, 2), classes, width, colours)


def resnet34(classes: int = 10, width: float = 1.0, colours: int = 3) -> ResNet:
    """ResNet-34 for CIFAR; `width` scales the number of channels, `colours` are those of an image."""
    return ResNet((3, 4, 6, 3), classes, width, colours)
