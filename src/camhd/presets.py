"""Sets of keyword arguments by name: `camhd.Adam(model, **camhd.presets.paper("adam"))`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .levels import Level
from .optim import HyperOptions
from .optim.named import PAPER_ADABOUND, PAPER_ADAM, PAPER_SGD

# What the classes have for additive rates where nothing is said: for Adam the paper's feed-forward networks, for
# the others its ResNets, the only rows of its table that are complete for them.
_USUAL = {"adam": PAPER_ADAM, "sgd": PAPER_SGD, "adabound": PAPER_ADABOUND}
BASES = {"sgd": "sgd", "sgdn": "sgd", "adam": "adam", "adamw": "adam", "adabound": "adabound"}

# What makes a tree the paper's whatever its settings are.
FORM = HyperOptions(hyper_rule="additive", hyper_scale="sum", combine="normalized", max_change=None)


class _Network(NamedTuple):
    """A row of the paper's Table 2, and what its sections on the experiments say beside it."""

    hyper_lr: dict[str, float]  # β, by base rule; a rule that is not here was not run
    combine_lr: float  # δ, the column "CAM-HD-lr"
    decay: float | None  # r of τ(t) = exp(−r t)
    levels: tuple[str, ...]
    weights: dict[tuple[str, ...], tuple[float, ...]]  # γ at the start, for the chains that were run


_FILTERS: dict[tuple[str, ...], tuple[float, ...]] = {("global", "filter"): (0.8, 0.2)}
NETWORKS = {
    "ffnn": _Network(
        {"adam": 1e-7}, 0.01, None, ("global", "layer"),
        {("global", "layer"): (0.5, 0.5), ("global", "layer", "parameter"): (0.4, 0.3, 0.3)},
    ),
    "lenet5": _Network({"adam": 1e-8, "sgd": 1e-3}, 0.03, 0.002, ("global", "filter"), _FILTERS),
    "resnet": _Network(
        {"adam": 1e-8, "adabound": 1e-8, "sgd": 1e-6}, 0.001, 0.001, ("global", "filter"), _FILTERS,
    ),
}  # fmt: skip


def paper(base: str = "adam", network: str | None = None, levels: Sequence[str | Level] | None = None) -> HyperOptions:
    """What makes an optimizer the paper's: Algorithm 1 with its β, δ and γ, and nothing that was added since.

    α_i ← α_i − β γ_i H_i for every level, then γ by δ, back onto the simplex.

    Args:
        base: the base rule: "sgd", "sgdn" (the same settings), "adam", "adamw" (likewise) or "adabound".
        network: for which of the paper's networks, with its decay τ and its levels: "ffnn", "lenet5" or "resnet".
            None: β and δ of Table 2, no decay, the levels ("global", "layer").
        levels: in the place of those. The paper's γ where it has run them, otherwise equal ones.

    Returns:
        Keyword arguments for `camhd.Adam` and its siblings. `lr` is not among them.

    >>> paper("adam")["hyper_lr"], paper("adam")["combine_lr"]
    (1e-07, 0.01)
    >>> paper("sgdn", "resnet")["weights"]
    (0.8, 0.2)

    Reference: Jie et al., Adaptive Multi-level Hyper-gradient Descent, Algorithm 1 and Table 2.
    """
    if base not in BASES:
        raise ValueError(f"'base' must be one of {', '.join(map(repr, BASES))}, got {base!r}.")
    found = _usual(base) if network is None else _of_network(base, network)
    if levels is not None:
        found["levels"] = tuple(levels) if not isinstance(levels, (str, Level)) else (levels,)
    chain = tuple(one for one in found["levels"] if isinstance(one, str))
    known = {} if network is None else NETWORKS[network].weights
    if chain in known and len(chain) == len(found["levels"]):
        found["weights"] = known[chain]
    return found


def _usual(base: str) -> HyperOptions:
    usual = _USUAL[BASES[base]]
    return HyperOptions(**FORM, hyper_lr=usual.hyper_lr, combine_lr=usual.combine_lr, levels=("global", "layer"))


def _of_network(base: str, network: str) -> HyperOptions:
    if network not in NETWORKS:
        raise ValueError(f"'network' must be one of {', '.join(map(repr, NETWORKS))} or None, got {network!r}.")
    row = NETWORKS[network]
    if BASES[base] not in row.hyper_lr:
        ran = ", ".join(repr(one) for one, kind in BASES.items() if kind in row.hyper_lr)
        raise ValueError(
            f"the paper has no settings of {base!r} for network {network!r}, only of {ran}; leave 'network' out, or "
            "set 'hyper_lr' yourself."
        )
    found = HyperOptions(**FORM, hyper_lr=row.hyper_lr[BASES[base]], combine_lr=row.combine_lr, levels=row.levels)
    if row.decay is not None:
        found["decay"] = row.decay
    return found


__all__ = ["paper"]
