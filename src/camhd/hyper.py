"""Hyper rules: how a rate follows its hypergradient.

A rule sees one level at a time: its rates, and per rate the pull of the hypergradient. It may keep
state of its own, shaped like the rates; the tree saves and restores it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

State = dict[str, Tensor]


class Pull(NamedTuple):
    """What moves the rates of one level at one step."""

    hyper: Tensor  # β_i · ∂α*/∂α_i · H_i[G]; without the middle factor if the rule is not `chained`
    norms: Tensor | None  # ‖g_G‖ · ‖s_G‖, if the rule `needs_norms`
    step: int


class HyperRule(ABC):
    """One step of the rates of one level."""

    needs_norms = False
    chained = True  # whether the share of a level in α* weakens its pull, as the chain rule says
    scalable = True  # whether 'hyper_scale' means anything to it
    hyper_lr: float | None = None  # the default β, where it does not depend on the base rule

    def start(self, rates: Tensor) -> State:
        """State of its own for these rates, each tensor shaped like them."""
        return {}

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


RULES: dict[str, type[HyperRule]] = {"additive": Additive, "multiplicative": Multiplicative}


def hyper_rule(spec: str | HyperRule) -> HyperRule:
    """A hyper rule from its name; an object is returned as it is."""
    if isinstance(spec, HyperRule):
        return spec
    if not isinstance(spec, str) or spec not in RULES:
        raise ValueError(
            f"'hyper_rule' must be one of {', '.join(map(repr, RULES))} or a camhd.hyper object, got {spec!r}."
        )
    return RULES[spec]()


SCALES = ("sum", "mean", "size")


def scale_factor(scale: str, sizes: Tensor) -> Tensor | None:
    """β_i/β for each group, from |G|: 1 for "sum" (given as None), 1/|G| for "mean", |G| for "size"."""
    if scale == "sum":
        return None
    return sizes.clamp_min(1).reciprocal() if scale == "mean" else sizes
