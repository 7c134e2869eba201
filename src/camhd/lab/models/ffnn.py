"""Feed-forward networks; without hidden layers, logistic (or linear) regression."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import nn


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


def logistic(inputs: int = 784, classes: int = 10) -> nn.Sequential:
    """Logistic regression: a feed-forward network without hidden layers; linear regression under a squared loss.

    >>> [name for name, _ in logistic().named_parameters()]
    ['out.weight', 'out.bias']
    """
    return ffnn((), inputs, classes)
