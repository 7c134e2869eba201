"""Rates tied by a penalty instead of mixed by weights (the paper's section 3.3; spec, section 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from torch import Tensor

from .base import Ancestors, Combination, Places, State

SOLVES = ("virtual", "closed", "last")


class Regularized(Combination):
    """Each rate is pulled to those above it by λ_ij (α_i − α_j)², and to its own past by λ_ts.

    There is no γ: every level follows its own hypergradient, the penalty ties the levels, and the
    leaf's rate moves the parameters. With virtual rates α̂_i = α_{i,t-1} − β H_i:

    - ``solve="virtual"``: α_i = (1 − 2βΣλ_ij) α̂_i + 2βΣ λ_ij α̂_j, which is a weighted mean (Theorem 1);
    - ``solve="closed"``: α_i = (α̂_i + 2βΣ λ_ij α_j) / (1 + 2βΣλ_ij), from the root down;
    - ``solve="last"``: α_i = α̂_i − 2βΣ λ_ij (α_{i,t-1} − α_{j,t-1}).

    Args:
        strength: λ for each (level, level above it), by name; a number means that λ for every pair.
        over_time: λ_ts, the pull to the rate of the step before.
        solve: which of the three.

    >>> Regularized({("layer", "global"): 1e6, ("parameter", "layer"): 2e6})
    Regularized({('layer', 'global'): 1000000.0, ('parameter', 'layer'): 2000000.0}, over_time=0.0, solve='virtual')
    """

    learns = False
    settles = True

    def __init__(
        self,
        strength: float | Mapping[tuple[str, str], float],
        over_time: float = 0.0,
        solve: str = "virtual",
    ) -> None:
        if solve not in SOLVES:
            raise ValueError(f"'solve' must be one of {', '.join(map(repr, SOLVES))}, got {solve!r}.")
        given = dict(strength) if isinstance(strength, Mapping) else {("every", "pair"): strength}
        for pair, value in {**given, ("over", "time"): over_time}.items():
            if not isinstance(value, Real):
                raise TypeError(f"λ must be a number, got {value!r} for {pair}.")
            if not 0 <= value < float("inf"):
                raise ValueError(f"λ must be 0 or more and finite, got {value} for {pair}.")
        self.strength = {pair: float(v) for pair, v in given.items()} if isinstance(strength, Mapping) else strength
        self.over_time, self.solve = float(over_time), solve

    def __repr__(self) -> str:
        return f"Regularized({self.strength}, over_time={self.over_time}, solve={self.solve!r})"

    def check(self, names: Sequence[str], hyper_lrs: Sequence[float]) -> None:
        if isinstance(self.strength, Mapping):
            pairs = {(low, high) for i, low in enumerate(names) for high in names[:i]}
            for pair in self.strength:
                if pair not in pairs:
                    raise ValueError(
                        f"λ must be given for (level, level above it), but {pair!r} is no such pair of the levels "
                        f"{tuple(names)}; the pairs are {sorted(pairs)}."
                    )
        if self.solve != "virtual":
            return
        for depth in range(len(names)):
            hyper_lr, total = hyper_lrs[depth], sum(self._strengths(names[: depth + 1])) + self.over_time
            pull = 2 * hyper_lr * total
            if not (0 < pull < 1 or (depth == 0 and pull == 0)):  # the root has nothing above it
                raise ValueError(
                    f"2·hyper_lr·Σλ must lie between 0 and 1 with solve='virtual', but for level "
                    f"{names[depth]!r} it is 2·{hyper_lr:g}·{total:g} = {pull:g}; choose λ below 1/(2·hyper_lr), "
                    "or solve='closed', which takes any λ."
                )

    def _strengths(self, path: Sequence[str]) -> list[float]:
        """λ_ij of the last level of the path to each one above it."""
        *above, low = path
        if isinstance(self.strength, Mapping):
            return [self.strength.get((low, high), 0.0) for high in above]
        return [self.strength for _ in above]

    def start(self, weights: Tensor, layers: int) -> State:
        return {}

    def mix(self, state: State, places: Places) -> Tensor:
        return places.rates[-1]

    def shares(self, state: State, places: Places) -> Sequence[Tensor]:
        return [places.rates[0].new_ones(())] * len(places.rates)

    def settle(
        self, path: Sequence[str], last: Tensor, virtual: Tensor, above: Ancestors, hyper_lr: Tensor | float
    ) -> Tensor:
        pulls = [2 * hyper_lr * strength for strength in self._strengths(path)]  # 2βλ_ij
        still = 2 * hyper_lr * self.over_time  # 2βλ_ts
        if self.solve == "last":  # the time penalty's slope at the last rates is 0
            return virtual - sum(p * (last - a) for p, a in zip(pulls, above.last, strict=True))
        if self.solve == "closed":
            target = virtual + still * last + sum(p * a for p, a in zip(pulls, above.settled, strict=True))
            return target / (1 + sum(pulls) + still)
        towards = still * last + sum(p * a for p, a in zip(pulls, above.virtual, strict=True))
        return (1 - sum(pulls) - still) * virtual + towards

    def describe(self, state: State, names: Sequence[str], layers: Sequence[str]) -> Mapping[str, Any]:
        return {name: float(name == names[-1]) for name in names}
