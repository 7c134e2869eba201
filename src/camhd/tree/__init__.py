"""The tree of learning rates: settings, state, one step of learning, and the tree itself."""

from .commit import Commit, Pending
from .config import GroupRates, TreeConfig, check_hyper_lr, check_max_change, check_number
from .kappa import Kappas, Within
from .local import LocalLayout, localize
from .numbers import Number, larger, smaller, times_
from .observer import Observer
from .rates import RateTree
from .shards import LocalState, Shards, find_shards, local, local_grad
from .state import Ahead, Move, Rows, Signal, TreeState, Write

__all__ = [
    "Ahead",
    "Commit",
    "GroupRates",
    "Kappas",
    "LocalLayout",
    "LocalState",
    "Move",
    "Number",
    "Observer",
    "Pending",
    "RateTree",
    "Rows",
    "Shards",
    "Signal",
    "TreeConfig",
    "TreeState",
    "Within",
    "Write",
    "check_hyper_lr",
    "check_max_change",
    "check_number",
    "find_shards",
    "larger",
    "local",
    "local_grad",
    "localize",
    "smaller",
    "times_",
]
