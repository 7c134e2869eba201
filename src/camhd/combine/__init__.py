"""How the rates of all levels become the one that moves a parameter.

`Fixed`, `Normalized` and `Softmax` are weighted means, `PerLayer` gives each layer its own weights,
`Network` is a small network, and `Regularized` ties the levels by penalties instead.
"""

from .base import Ancestors, Combination, Places, State
from .linear import LINEAR, Fixed, Normalized, PerLayer, Softmax
from .network import Network
from .regularized import Regularized

__all__ = [
    "Ancestors",
    "Combination",
    "Fixed",
    "Network",
    "Normalized",
    "PerLayer",
    "Places",
    "Regularized",
    "Softmax",
    "State",
    "combination",
]


def combination(spec: str | Combination) -> Combination:
    """A combination from its name; an object is returned as it is."""
    if isinstance(spec, Combination):
        return spec
    if not isinstance(spec, str) or spec not in LINEAR:
        raise ValueError(
            f"'combine' must be one of {', '.join(map(repr, LINEAR))} or a camhd.combine object, got {spec!r}."
        )
    return LINEAR[spec]()
