"""The tree of learning rates: settings, state, one step of learning, and the tree itself."""

from .config import GroupRates, TreeConfig, check_hyper_lr, check_number
from .rates import RateTree
from .state import Move, Signal, TreeState

__all__ = ["GroupRates", "Move", "RateTree", "Signal", "TreeConfig", "TreeState", "check_hyper_lr", "check_number"]
