"""What is searched: names, and the values each of them may take."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from ..compare import parse_option
from ..optimizers import Entry

if TYPE_CHECKING:
    from optuna.trial import Trial

# What may be searched beside the options of the optimizer.
SETTINGS = ("batch_size", "augment", "loss_scale")

# The paper's section "Hyper-parameter Tuning".
PAPER: Mapping[str, tuple[float, ...]] = {
    "batch_size": (8, 16, 32, 64, 128, 256, 512),  # 2^3 … 2^9
    "lr": (1e-1, 1e-2, 1e-3, 1e-4),
    "hyper_lr": (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10),  # the hyper-gradient updating rate
    "combine_lr": (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001),  # CAM-HD-lr
}
DECADES = 100.0  # the usual search looks so many times above and below an optimizer's own lr


@dataclass(frozen=True)
class Choices:
    """One of several values.

    Args:
        name: of an option of the optimizer, or of a setting.
        values: which.
    """

    name: str
    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError(f"the search of {self.name!r} must have at least one value, got none.")
        if len(set(map(_stored, self.values))) < len(self.values):
            raise ValueError(f"the search of {self.name!r} must not have a value twice, got {self.text!r}.")

    @property
    def text(self) -> str:
        """As it is given on a command line."""
        return f"{self.name}={','.join(str(_stored(value)) for value in self.values)}"

    def ask(self, trial: Trial) -> Any:
        """The value of a trial."""
        stored = trial.suggest_categorical(self.name, [_stored(value) for value in self.values])
        return self.value(stored)

    def value(self, stored: Any) -> Any:
        """What a study remembers, as the optimizer takes it."""
        return next((value for value in self.values if _stored(value) == stored), stored)


@dataclass(frozen=True)
class Range:
    """Any number between two; whole numbers if both are whole.

    Args:
        name: of an option of the optimizer, or of a setting.
        low: the least.
        high: the greatest.
        log: whether all orders of magnitude are alike.
    """

    name: str
    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"the search of {self.name!r} must go from a number to a greater one, got {self.text!r}.")
        if self.log and self.low <= 0:
            raise ValueError(f"the search of {self.name!r} must begin above zero to be logarithmic, got {self.text!r}.")

    @property
    def text(self) -> str:
        """As it is given on a command line."""
        return f"{self.name}={self.low!r}..{self.high!r}{':log' if self.log else ''}"

    def ask(self, trial: Trial) -> Any:
        """The value of a trial."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            return trial.suggest_int(self.name, self.low, self.high, log=self.log)
        return trial.suggest_float(self.name, self.low, self.high, log=self.log)

    def value(self, stored: Any) -> Any:
        """What a study remembers, as the optimizer takes it."""
        return stored


Dimension = Choices | Range


def parse(text: str) -> Dimension:
    """A dimension from the words of a command line.

    >>> parse("lr=1e-5..1e-1:log")
    Range(name='lr', low=1e-05, high=0.1, log=True)
    >>> parse("batch_size=16,32,64").values, parse("levels=global,global+layer").values
    ((16, 32, 64), ('global', ('global', 'layer')))
    """
    name, equals, rest = text.strip().partition("=")
    if not (name.isidentifier() and equals and rest):
        raise ValueError(f"a search must be name=values, such as lr=1e-5..1e-1:log or batch_size=16,32, got {text!r}.")
    if ".." not in rest:
        return Choices(name, tuple(parse_option(f"{name}={piece}")[1] for piece in rest.split(",") if piece))
    ends, _, kind = rest.partition(":")
    numbers = [parse_option(f"{name}={end}")[1] for end in ends.split("..") if end]
    if len(numbers) != 2 or not all(type(end) in (int, float) for end in numbers) or kind not in ("", "log"):
        raise ValueError(f"a range must be low..high or low..high:log, such as lr=1e-5..1e-1:log, got {text!r}.")
    low, high = numbers
    return Range(name, low, high, kind == "log")


def check(space: Sequence[Dimension], entry: Entry, fixed: Mapping[str, Any]) -> None:
    """Refuse what the optimizer does not have, what is given twice, and what is set already."""
    names = [one.name for one in space]
    if not names:
        raise ValueError(f"there is nothing to search for {entry.name!r}; say what, such as lr=1e-5..1e-1:log.")
    known = [*SETTINGS, *entry.accepts]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"the search has {name!r} twice; give all its values at once.")
        if name in fixed:
            raise ValueError(f"{name!r} cannot be both searched and set to {fixed[name]!r}; leave one of them out.")
        if name not in known and entry.accepts:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(entry.accepts)}."
            raise ValueError(
                f"{name!r} cannot be searched: optimizer {entry.name!r} has no such option; {hint} "
                f"Beside its options, {', '.join(SETTINGS)} can be searched."
            )


def paper_space(entry: Entry, fixed: Mapping[str, Any]) -> list[Dimension]:
    """The paper's values for whatever this optimizer has and is not set already."""
    return [
        Choices(name, values)
        for name, values in PAPER.items()
        if name not in fixed and (name in SETTINGS or name in entry.accepts)
    ]


def usual_space(entry: Entry, fixed: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[Dimension]:
    """The paper's ranges without their gaps; lr two orders of magnitude around what it would be otherwise."""
    found: list[Dimension] = []
    for one in paper_space(entry, fixed):
        numbers = sorted(PAPER[one.name])
        middle = defaults.get("lr")
        if one.name == "batch_size":
            found.append(one)
        elif one.name == "lr" and isinstance(middle, (int, float)) and middle > 0:
            found.append(Range("lr", float(f"{middle / DECADES:.6g}"), float(f"{middle * DECADES:.6g}"), log=True))
        else:
            found.append(Range(one.name, numbers[0], numbers[-1], log=True))
    return found


def size(space: Sequence[Dimension]) -> int:
    """How many points a grid has.

    >>> size([parse("lr=0.1,0.01"), parse("batch_size=16,32,64")])
    6
    """
    return reduce(lambda count, one: count * len(grid_values(one)), space, 1)


def grid_values(one: Dimension) -> tuple[Any, ...]:
    """The values of a dimension of a grid, which must be a list."""
    if isinstance(one, Range):
        raise ValueError(f"a grid needs lists, but {one.text!r} is a range; write {one.name}={one.low:g},{one.high:g}.")
    return one.values


def point(space: Sequence[Dimension], number: int) -> dict[str, Any]:
    """The point of a grid with this number, as a study remembers it.

    >>> point([parse("lr=0.1,0.01"), parse("batch_size=16,32,64")], 4)
    {'lr': 0.01, 'batch_size': 32}
    """
    found: dict[str, Any] = {}
    for one in reversed(space):
        number, place = divmod(number, len(grid_values(one)))
        found[one.name] = _stored(grid_values(one)[place])
    return dict(reversed(found.items()))


def _stored(value: Any) -> Any:
    """What a study can remember: several values become one text."""
    return "+".join(map(str, value)) if isinstance(value, (list, tuple)) else value
