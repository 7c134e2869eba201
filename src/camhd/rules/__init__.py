"""Base rules: what turns gradients into directions. None of them knows a learning rate."""

from .adabound import AdaBound
from .adam import Adam
from .base import TRACE, Batch, Options, Rule, Sensitivity, new_trace, state_dtype
from .sgd import SGD
from .wrapped import Wrapped

__all__ = [
    "SGD",
    "TRACE",
    "AdaBound",
    "Adam",
    "Batch",
    "Options",
    "Rule",
    "Sensitivity",
    "Wrapped",
    "new_trace",
    "state_dtype",
]
