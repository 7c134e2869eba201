"""Fused CPU kernels through Numba: two passes over memory, everything else on a few numbers between them."""

from .kinds import kind_of
from .plan import why_not
from .step import Fused
from .trace_step import fused

__all__ = ["Fused", "fused", "kind_of", "why_not"]
