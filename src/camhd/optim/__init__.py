"""The optimizers."""

from .named import SGD, AdaBound, Adam, AdamW, Wrapped, wrap
from .optimizer import Optimizer
from .options import HyperOptions, Params

__all__ = ["SGD", "AdaBound", "Adam", "AdamW", "HyperOptions", "Optimizer", "Params", "Wrapped", "wrap"]
