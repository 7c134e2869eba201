"""Base rules: what turns gradients into directions. None of them knows a learning rate."""

from .adabound import AdaBound
from .adam import Adam
from .base import Batch, Options, Rule, state_dtype
from .sgd import SGD
from .wrapped import Wrapped

__all__ = ["SGD", "AdaBound", "Adam", "Batch", "Options", "Rule", "Wrapped", "state_dtype"]
