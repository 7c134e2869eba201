"""The tree of learning rates: settings, state, one step of learning, and the tree itself."""

from .config import GroupRates, TreeConfig, check_hyper_lr, check_number
from .kappa import Kappas
from .numbers import Number, times_
from .observer import Observer
from .rates import RateTree
from .state import Move, Rows, Signal, TreeState

__all__ = [
    "GroupRates",
    "Kappas",
    "Move",
    "Number",
    "Observer",
    "RateTree",
    "Rows",
    "Signal",
    "TreeConfig",
    "TreeState",
    "check_hyper_lr",
    "check_number",
    "times_",
]
