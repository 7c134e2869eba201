"""A plan: an experiment of the paper as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..choices import choose
from ..sweep import Item
from .grid import Grid, key_of
from .measuring import Measurement
from .scale import SCALES, Change, differences

if TYPE_CHECKING:
    from ..report import Section
    from .claims import Claim
    from .reading import Results


@dataclass(frozen=True)
class Number:
    """A number of the paper (or of the poster).

    Args:
        problem: the title of the problem.
        method: the label of the method.
        mean: in the unit of the records (0.9812, not 98.12).
        error: its standard error, if it is known.
        metric: what it is.
    """

    problem: str
    method: str
    mean: float
    error: float = float("nan")
    metric: str = "valid_accuracy"


@dataclass(frozen=True)
class Plan:
    """An experiment of the paper.

    Args:
        name: as `camhd reproduce` takes it.
        title: of its report.
        about: what it does, in a sentence.
        places: the labels of the paper's source that it belongs to, such as "tab:3".
        grids: what is trained at the scale `paper`.
        cpu: what `cpu` does differently, by the grid's name; "" for all others.
        smoke: what `smoke` does differently, likewise.
        measurements: what is measured without training, by scale.
        silent: what the paper does not say, and what was taken.
        published: its numbers.
        source: who published them.
        sections: what its report shows; each makes one section from the results, or None.
        claims: what it says, as tests.
        curves: whether learning curves are wanted as files too.
        details: whether the report shows every run below its sections; False where there are thousands.
    """

    name: str
    title: str
    about: str
    places: tuple[str, ...]
    grids: tuple[Grid, ...] = ()
    cpu: Mapping[str, Change] = field(default_factory=dict)
    smoke: Mapping[str, Change] = field(default_factory=dict)
    measurements: Mapping[str, Sequence[Measurement]] = field(default_factory=dict)
    silent: tuple[str, ...] = ()
    published: tuple[Number, ...] = ()
    source: str = "paper"
    sections: tuple[Callable[[Results], Section | None], ...] = ()
    claims: tuple[Claim, ...] = ()
    curves: bool = True
    details: bool = True

    def at(self, scale: str) -> tuple[Grid, ...]:
        """What is trained at a scale."""
        choose("scale", scale, SCALES)
        changes = {"cpu": self.cpu, "smoke": self.smoke}.get(scale, {})
        return tuple(changes.get(grid.name, changes.get("", Change())).apply(grid) for grid in self.grids)

    def items(self, scale: str) -> list[Item]:
        """All runs at a scale; each once."""
        found = {key_of(item): item for grid in reversed(self.at(scale)) for item in reversed(list(grid.items()))}
        return list(reversed(found.values()))

    def reduced(self, scale: str) -> list[str]:
        """What a scale does differently from the paper, in words."""
        found: dict[str, list[str]] = {}
        for paper, grid in zip(self.grids, self.at(scale), strict=True):
            different = differences(paper, grid)
            if different:
                found.setdefault("; ".join(different), []).append(grid.name)
        everywhere = [list(found.values()) == [[grid.name for grid in self.grids]]] * len(found)
        return [
            f"{words}." if all_of_them else f"{', '.join(grids)}: {words}."
            for (words, grids), all_of_them in zip(found.items(), everywhere, strict=True)
        ]
