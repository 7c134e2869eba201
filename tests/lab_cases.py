"""Small problems of every kind for the laboratory, and a model that needs random numbers at every step."""

from __future__ import annotations

import functools
import random

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from camhd.lab import data


@functools.cache
def blobs() -> data.Dataset:
    """Three classes that a line can almost tell apart."""
    numbers = torch.Generator().manual_seed(0)
    labels = torch.arange(60) % 3
    points = torch.randn(60, 4, generator=numbers) + F.one_hot(labels, 4) * 2.0
    return data.from_tensors("blobs", (points[:45], labels[:45]), (points[45:], labels[45:]))


@functools.cache
def line() -> data.Dataset:
    """Two numbers that depend on three others, almost linearly."""
    numbers = torch.Generator().manual_seed(1)
    inputs = torch.randn(50, 3, generator=numbers)
    slopes, noise = torch.tensor([[1.0, 2.0], [0.5, -1.0], [0.0, 3.0]]), torch.randn(50, 2, generator=numbers)
    targets = inputs @ slopes + 0.1 * noise
    return data.from_tensors("line", (inputs[:40], targets[:40]), (inputs[40:], targets[40:]))


@functools.cache
def chant() -> data.Dataset:
    """A text in which the next letter follows from the last one."""
    letters = torch.arange(200) % 5
    windows = letters.unfold(0, 9, 4)
    inputs, targets = windows[:, :-1].contiguous(), windows[:, 1:].contiguous()
    return data.from_tensors("chant", (inputs[:40], targets[:40]), (inputs[40:], targets[40:]), task="language")


class Noisy(nn.Module):
    """Needs random numbers at every step, of torch's and of Python's kind."""

    def __init__(self, inputs: int = 4, classes: int = 3) -> None:
        super().__init__()
        self.fc1, self.norm, self.out = nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.Linear(8, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout(self.norm(self.fc1(x)).relu(), 0.3, self.training)
        logits: Tensor = self.out(x * (1 + 0.1 * random.random()) if self.training else x)
        return logits


def mlp() -> nn.Sequential:
    """A small network for the blobs."""
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
