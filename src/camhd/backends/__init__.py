"""How a step is carried out. `foreach` is plain torch."""

from . import foreach

__all__ = ["foreach"]
