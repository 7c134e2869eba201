"""What the groups of a level sum up over their members: all that a hyper rule learns from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from .bounds import part_of, squares
from .cells import Cells
from .config import GroupRates, TreeConfig
from .observer import chain_of
from .state import Signal, TreeState


class Sums(NamedTuple):
    """Of each group of a level, or of some of them."""

    hyper: Tensor  # β_i · ∂α*/∂α_i · h
    grads: Tensor | None = None  # g², if the hyper rule needs norms
    moves: Tensor | None = None  # s²
    # With a traced rule:
    steps: Tensor | None = None  # (κ_{t−1} d_t)²
    sizes: Tensor | None = None  # θ²; without cells that lie on several processes, until those have joined them
    scaled: Tensor | None = None  # (chain · s)², with the factor by which g·s became h
    traces: Tensor | None = None  # s², without the unit in which the level has its rates

    def tensors(self) -> list[Tensor]:
        return [value for value in self if value is not None]

    def part(self, groups: slice) -> Sums:
        """Those of some of the groups."""
        return self.like([value[groups] for value in self.tensors()])

    def like(self, values: Sequence[Tensor]) -> Sums:
        """Other numbers in the places that these have, in the order of `tensors`."""
        each = iter(values)
        return Sums(next(each), *[None if value is None else next(each) for value in self[1:]])

    def with_sizes(self, more: Tensor) -> Sums:
        """The same with the sizes of further cells."""
        return self if self.sizes is None else self._replace(sizes=self.sizes + more)

    @property
    def norms(self) -> Tensor | None:
        """‖g‖ · ‖s‖."""
        return None if self.grads is None or self.moves is None else self.grads.sqrt() * self.moves.sqrt()

    @property
    def moved(self) -> Tensor | None:
        """‖κ_{t−1} d_t‖ / ‖θ‖."""
        return None if self.steps is None or self.sizes is None else part_of(self.steps, self.sizes)

    @property
    def reach(self) -> Tensor | None:
        """‖s‖ / ‖θ‖."""
        return None if self.moves is None or self.sizes is None else part_of(self.moves, self.sizes)

    @property
    def slope(self) -> Tensor | None:
        """‖g‖."""
        return None if self.grads is None else self.grads.sqrt()

    @property
    def factor(self) -> Tensor | None:
        """The factor by which g·s became h: one number, or a mean where the members of a group differ."""
        return None if self.scaled is None or self.traces is None else part_of(self.scaled, self.traces)


def sum_up(
    config: TreeConfig,
    cells: Cells,
    state: TreeState,
    i: int,
    pull: Tensor,
    signal: Signal,
    groups: Sequence[GroupRates],
) -> Sums:
    """H_i[G] = Σ_{p∈G} h_p for a level above the scalars; of this process's members, if there are several."""
    name, ratio = cells.layout.names[i], cells.ratios[i]

    def total(values: Tensor) -> Tensor:
        return cells.sum_up(i, cells.once(values, i))

    pull = cells.times_by_group(pull, [group.beta(name) for group in groups])
    hyper = total(pull if ratio is None else pull * ratio)
    if not config.hyper_rule.needs_norms:
        return Sums(hyper)
    moves = cells.gather(signal.moves)
    found = Sums(
        hyper,
        grads=total(cells.gather(signal.grads)),
        moves=total(moves if ratio is None else moves * ratio.square()),
    )
    if not config.hyper_rule.traced or state.tracing is None:
        return found
    lengths, sizes = squares(cells, signal, config.hyper_rule.traced)
    factors = chain_of(config, state.last_moves)
    return found._replace(
        steps=total(state.tracing.kappa.square() * lengths),
        sizes=total(sizes),
        scaled=total(cells.times_by_group(moves, [factor * factor for factor in factors])),
        traces=total(moves),
    )
