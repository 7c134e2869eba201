"""What is to be measured. Everything is checked here, once."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from ..choices import choose
from .cases import CASES, RULES, TWO_LEVELS

BACKENDS = ("foreach", "fused")
LEVEL_NAMES = ("global", "group", "layer", "gate", "filter", "unit", "parameter")  # "block" needs a function
GIB = 2**30


@dataclass(frozen=True)
class Scope:
    """Over what one measurement runs."""

    models: tuple[str, ...]
    classes: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    backends: tuple[str, ...] = BACKENDS


_SIX = ("ffnn-100", "ffnn-1000", "lenet5", "resnet18", "transformer-50m", "tensor-50m")
_CHAINS = (TWO_LEVELS, ("global", "filter"), ("global", "layer", "parameter"))
SCOPES: Mapping[str, Scope] = {
    "steps": Scope(_SIX, tuple(RULES), _CHAINS),
    "growth": Scope((), ("adam",), _CHAINS[:2]),  # its models are matrices of growing size
    "share": Scope(_SIX[:-1], ("adam",), _CHAINS[:1]),
    "memory": Scope(("resnet18",), tuple(RULES), _CHAINS),
    "first-step": Scope(("ffnn-100", "resnet18"), ("adam",), _CHAINS[:1]),
    "peers": Scope(("ffnn-100", "resnet18", "transformer-50m"), ("adam",), _CHAINS[:1]),
}
WHAT = tuple(what for what in SCOPES if what != "peers")
SIZES = (1e4, 1e5, 1e6, 1e7, 1e8)


@dataclass(frozen=True)
class Settings:
    """A whole benchmark.

    Args:
        what: the measurements.
        models: by name; None for those that a measurement usually takes (`SCOPES`), here and below.
        classes: the base rules.
        levels: chains of levels.
        backends: of camhd.
        threads: None for as many as torch would take.
        budget: seconds for the timed rounds of one set of optimizers that are timed together.
        peers: whether other packages are measured too.
        sizes: how many parameters the matrices of `growth` have.
        repeats: how many new processes a `first-step` takes its median of.
        memory: bytes that a set may take; a larger set is split.
    """

    what: tuple[str, ...] = WHAT
    models: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    levels: tuple[tuple[str, ...], ...] | None = None
    backends: tuple[str, ...] | None = None
    threads: int | None = None
    budget: float = 10.0
    peers: bool = False
    sizes: tuple[float, ...] = SIZES
    repeats: int = 3
    memory: int = 12 * GIB

    def __post_init__(self) -> None:
        checked = {
            "what": (self.what, WHAT),
            "models": (self.models, CASES),
            "classes": (self.classes, RULES),
            "backends": (self.backends, BACKENDS),
        }
        for name, (values, choices) in checked.items():
            for value in values or ():
                choose(name, value, choices)
        for chain in self.levels or ():
            for level in chain:
                choose("levels", level, LEVEL_NAMES)
        for name, least in {"threads": 1, "repeats": 1, "memory": 1}.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"'{name}' must be {least} or more, got {value}.")
        if not 0 < self.budget < math.inf:
            raise ValueError(f"'budget' must be above zero and finite, got {self.budget}.")

    def scope(self, what: str) -> Scope:
        """Over what this measurement runs: what was asked for, and the usual where nothing was."""
        given = {field.name: getattr(self, field.name) for field in fields(Scope)}
        return replace(SCOPES[what], **{name: value for name, value in given.items() if value is not None})


def quick(settings: Settings) -> Settings:
    """The same, but a look instead of a measurement: small models, few rounds."""
    return replace(
        settings,
        models=settings.models or ("ffnn-100", "lenet5"),
        classes=settings.classes or ("adam",),
        budget=min(settings.budget, 0.5),
        sizes=settings.sizes[:3],
        repeats=1,
    )


def usual_memory() -> int:
    """Half of the machine's memory, at most 12 GiB."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return 4 * GIB
    return min(12 * GIB, physical // 2)


def split(texts: Sequence[str] | None) -> tuple[str, ...] | None:
    """Names given one by one, or several with commas between them; None if there are none.

    >>> split(["adam,sgd", "AdamW"])
    ('adam', 'sgd', 'adamw')
    """
    names = [name.strip().lower() for text in texts or () for name in text.split(",")]
    return tuple(dict.fromkeys(filter(None, names))) or None
