"""The tree of learning rates: settings, state, one step of learning, and the tree itself."""

from .config import GroupRates, TreeConfig, check_hyper_lr, check_max_change, check_number
from .kappa import Kappas
from .local import LocalLayout, localize
from .numbers import Number, times_
from .observer import Observer
from .rates import RateTree
from .shards import LocalState, Shards, find_shards, local, local_grad
from .state import Move, Rows, Signal, TreeState

__all__ = [
    "GroupRates",
    "Kappas",
    "LocalLayout",
    "LocalState",
    "Move",
    "Number",
    "Observer",
    "RateTree",
    "Rows",
    "Shards",
    "Signal",
    "TreeConfig",
    "TreeState",
    "check_hyper_lr",
    "check_max_change",
    "check_number",
    "find_shards",
    "local",
    "local_grad",
    "localize",
    "times_",
]
