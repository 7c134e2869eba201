"""The networks of the experiments: feed-forward, LeNet-5, ResNets for small images, a decoder-only transformer.

All of them take a batch first and give logits. Where a layer has a usual name, it has that name here, so that a table
of learned rates reads well.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F


def ffnn(hidden: Sequence[int] = (100, 100), inputs: int = 784, classes: int = 10) -> nn.Sequential:
    """A feed-forward network with ReLU; images are flattened.

    >>> import torch
    >>> ffnn((100, 100))(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
    width = inputs
    for number, units in enumerate(hidden, start=1):
        layers[f"fc{number}"] = nn.Linear(width, units)
        layers[f"relu{number}"] = nn.ReLU()
        width = units
    layers["out"] = nn.Linear(width, classes)
    return nn.Sequential(layers)


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
        x = F.max_pool2d(self.conv1(x).relu(), 2)
        x = F.max_pool2d(self.conv2(x).relu(), 2)
        x = self.fc1(x.flatten(1)).relu()
        x = self.fc2(x).relu()
        logits: Tensor = self.out(x)
        return logits


def lenet5(channels: int = 1, classes: int = 10) -> LeNet5:
    """LeNet-5 for 28 × 28 or 32 × 32 images.

    >>> import torch
    >>> lenet5(channels=3)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    return LeNet5(channels, classes)


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
    """A ResNet of basic blocks for 32 × 32 images: a 3 × 3 stem without pooling, four stages."""

    def __init__(self, blocks: Sequence[int], classes: int = 10, width: float = 1.0) -> None:
        super().__init__()
        channels = [max(1, round(width * base)) for base in (64, 128, 256, 512)]
        self.conv1 = nn.Conv2d(3, channels[0], 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels[0])
        stages, inputs = [], channels[0]
        for stage, (count, outputs) in enumerate(zip(blocks, channels, strict=True)):
            strides = [1 if stage == 0 else 2] + [1] * (count - 1)
            sizes = [inputs] + [outputs] * (count - 1)
            stages.append(nn.Sequential(*(BasicBlock(i, outputs, s) for i, s in zip(sizes, strides, strict=True))))
            inputs = outputs
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.fc = nn.Linear(inputs, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of images of 32 × 32."""
        x = self.bn1(self.conv1(images)).relu()
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(x.mean(dim=(2, 3)))
        return logits


def resnet18(classes: int = 10, width: float = 1.0) -> ResNet:
    """ResNet-18 for CIFAR; `width` scales the number of channels.

    >>> import torch
    >>> resnet18(width=1 / 16)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    return ResNet((2, 2, 2, 2), classes, width)


def resnet34(classes: int = 10, width: float = 1.0) -> ResNet:
    """ResNet-34 for CIFAR; `width` scales the number of channels."""
    return ResNet((3, 4, 6, 3), classes, width)


@dataclass(frozen=True)
class TransformerShape:
    """How large a transformer is."""

    width: int
    depth: int
    heads: int
    vocabulary: int
    context: int


TRANSFORMER_50M = TransformerShape(width=512, depth=12, heads=8, vocabulary=24_000, context=256)
TRANSFORMER_SMALL = TransformerShape(width=128, depth=4, heads=4, vocabulary=256, context=128)


class Attention(nn.Module):
    """Self-attention that looks back only."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"'width' must be a multiple of 'heads', but {width} is no multiple of {heads}.")
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, time, width) to the same shape."""
        batch, time, width = x.shape
        shape = (batch, time, 3, self.heads, width // self.heads)
        q, k, v = self.qkv(x).view(shape).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        result: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, time, width))
        return result


class TransformerBlock(nn.Module):
    """Attention, then two dense layers; each behind a layer norm and with a way around it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            OrderedDict(up=nn.Linear(width, 4 * width), gelu=nn.GELU(), down=nn.Linear(4 * width, width))
        )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, time, width) to the same shape."""
        x = x + self.attention(self.norm1(x))
        result: Tensor = x + self.mlp(self.norm2(x))
        return result


class Transformer(nn.Module):
    """A decoder-only transformer; the token embedding is also the last layer."""

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.Sequential(*(TransformerBlock(shape.width, shape.heads) for _ in range(shape.depth)))
        self.norm = nn.LayerNorm(shape.width)
        for embedding in (self.tokens, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)  # torch's 1 would make logits of the order of the width

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next token at every position, (batch, time, vocabulary)."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        return F.linear(self.norm(self.blocks(x)), self.tokens.weight)


def transformer(shape: TransformerShape = TRANSFORMER_50M) -> Transformer:
    """A decoder-only transformer, of about 50 million parameters unless told otherwise.

    >>> import torch
    >>> transformer(TRANSFORMER_SMALL)(torch.zeros(2, 16, dtype=torch.long)).shape
    torch.Size([2, 16, 256])
    """
    return Transformer(shape)
