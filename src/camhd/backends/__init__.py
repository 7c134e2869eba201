"""How a step is carried out: `foreach` in plain torch, `fused` in CPU kernels; `Backend` chooses."""

from . import foreach
from .select import BACKENDS, Backend

__all__ = ["BACKENDS", "Backend", "foreach"]
