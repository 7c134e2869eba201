"""The kinds of base rules that the kernels know: their state tensors, and their options as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...rules import SGD, AdaBound, Adam, Rule
from ...tree import GroupRates, Move
from . import core, tables

Groups = Sequence[dict[str, Any]]

# The state tensors of each kind in the places A, B, X; the fourth is that of the rates of single scalars.
COLUMNS = (tables.A, tables.B, tables.X, tables.R)
NAMES = {
    tables.SGD: ("", "direction", "", ""),
    tables.MOMENTUM: ("momentum_buffer", "", "", ""),
    tables.NESTEROV: ("momentum_buffer", "direction", "", ""),
    tables.ADAM: ("direction", "exp_avg_sq", "", ""),
    tables.ADABOUND: ("exp_avg", "exp_avg_sq", "", ""),
    tables.AMSGRAD: ("direction", "exp_avg_sq", "max_exp_avg_sq", ""),
    tables.AMSBOUND: ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", ""),
}


def kind_of(rule: Rule, groups: Groups) -> int | None:
    """Which of the kinds of `tables` a rule is with these options; None for another rule or groups that differ."""
    first = _kind(rule, groups[0])
    return first if all(_kind(rule, group) == first for group in groups[1:]) else None


def _kind(rule: Rule, options: Mapping[str, Any]) -> int | None:
    if type(rule) is SGD:
        if not options["momentum"]:
            return tables.SGD
        return tables.NESTEROV if options["nesterov"] else tables.MOMENTUM
    if type(rule) is Adam:
        return tables.AMSGRAD if options["amsgrad"] else tables.ADAM
    if type(rule) is AdaBound:
        return tables.AMSBOUND if options["amsgrad"] else tables.ADABOUND
    return None


def write_options(
    row: np.ndarray[Any, Any], rule: Rule, kind: int, group: Mapping[str, Any], rates: GroupRates, move: Move
) -> None:
    """A group's options, as the kernels read them."""
    decay, factor = group["weight_decay"], float(move.factor)
    row[core.SIGN] = -1.0 if group["maximize"] else 1.0
    decoupled = rule.decoupled(group)
    row[core.L2], row[core.DECOUPLED] = (0.0, decay) if decoupled else (decay, 0.0)
    row[core.LEARNED] = factor * move.decay
    row[core.GIVEN] = factor * (1 - move.decay) * rates.lr_limit
    if kind <= tables.NESTEROV:
        row[core.MU], row[core.DAMP] = group["momentum"], 1 - group["dampening"]
    else:
        (row[core.B1], row[core.B2]), row[core.EPS] = group["betas"], group["eps"]
    if kind >= tables.ADABOUND:
        row[core.FINAL] = group["final_lr"] * factor
        row[core.RATE] = 1 - row[core.B2] if group["gamma"] is None else group["gamma"]
        row[core.PAPER] = group["bounds"] == "paper"
        row[core.SQRT] = group["decay_bound"] == "sqrt"
