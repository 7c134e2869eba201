"""Hyper rules: how a rate follows its hypergradient.

A rule sees one level at a time: its rates, and per rate the pull of the hypergradient. It may keep
state of its own, shaped like the rates; the tree saves and restores it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

State = dict[str, Tensor]


class Pull(NamedTuple):
    """What moves the rates of one level at one step."""

    hyper: Tensor  # β_i · ∂α*/∂α_i · H_i[G]; without the middle factor if the rule is not `chained`
    norms: Tensor | None  # ‖g_G‖ · ‖s_G‖, if the rule `needs_norms`
    step: int
    moved: Tensor | None = None  # ‖κ_{t−1} d_t‖ / ‖θ‖ of the group, if the rule is `traced`
    above: Tensor | None = None  # the rate of the level above, likewise; None at the root
    factor: Tensor | None = None  # what a scheduler had made of the group's rates at the last move, likewise
    reach: Tensor | None = None  # ‖s‖ / ‖θ‖ of the group, likewise: how far a rate of 1 would have taken it
    slope: Tensor | None = None  # ‖g‖ of the group, likewise


@dataclass(frozen=True)
class Trace:
    """What a rule that looks back over many steps asks for: a trace of directions, and steps within bounds.

    The gradient then meets D ← φ D + d in the place of the last direction, φ = memory · min(1, κ_{t−1}/κ_t): what was
    learned at smaller rates counts as much less as it moved the weights less.

    Args:
        memory: ρ, for how long a direction is remembered.
        first: the most by which a layer's first step changes its weights, as a part of them.
        bound: the same for any step.
        floor: weights count as at least so large (root mean square), for those that start at zero.
        sudden: how many times as long as usual a layer's direction may be before its step is shortened.
        recent: memory of what is usual.
    """

    memory: float
    first: float
    bound: float
    floor: float
    sudden: float
    recent: float


class HyperRule(ABC):
    """One step of the rates of one level."""

    needs_norms = False
    chained = True  # whether the share of a level in α* weakens its pull, as the chain rule says
    scalable = True  # whether 'hyper_scale' means anything to it
    hyper_lr: float | None = None  # the default β, where it does not depend on the base rule
    combine_lr: float | None = None  # the default δ, likewise
    traced: Trace | None = None  # what it needs to look back further than one step

    def start(self, rates: Tensor) -> State:
        """State of its own for these rates, each tensor shaped like them."""
        return {}

    def square_weight(self, state: Mapping[str, Tensor]) -> Tensor | None:
        """What the next g² counts for in a base rule's average of them, at least; by rate. None: not its say."""
        return None

    def averaging(self, state: Mapping[str, Tensor]) -> Tensor | None:
        """How far averaged weights lie back along the trace, as a part of it; by rate. None: it has no such average."""
        return None

    @abstractmethod
    def update(self, rates: Tensor, pull: Pull, state: Mapping[str, Tensor]) -> tuple[Tensor, State]:
        """The rates after this step, and the state after it. Writes to neither."""


class Additive(HyperRule):
    """α_i ← α_i − β_i γ_i H_i: the paper's rule (Algorithm 1)."""

    def update(self, rates: Tensor, pull: Pull, state: Mapping[str, Tensor]) -> tuple[Tensor, State]:
        return rates - pull.hyper, {}


class Multiplicative(HyperRule):
    """α_i ← α_i (1 − β′ H_i / (‖g_G‖ ‖s_G‖)): free of the loss's scale and of the group's size (Eq. 5.3a)."""

    needs_norms = True
    chained = False
    scalable = False
    hyper_lr = 0.02

    def update(self, rates: Tensor, pull: Pull, state: Mapping[str, Tensor]) -> tuple[Tensor, State]:
        assert pull.norms is not None
        cosine = pull.hyper / torch.where(pull.norms > 0, pull.norms, 1)
        return rates * (1 - torch.where(pull.norms > 0, cosine, 0)), {}


SCALES = ("sum", "mean", "size")


def scale_factor(scale: str, sizes: Tensor) -> Tensor | None:
    """β_i/β for each group, from |G|: 1 for "sum" (given as None), 1/|G| for "mean", |G| for "size"."""
    if scale == "sum":
        return None
    return sizes.clamp_min(1).reciprocal() if scale == "mean" else sizes
