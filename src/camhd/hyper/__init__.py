"""Hyper rules: how a rate follows its hypergradient."""

from .base import SCALES, Additive, HyperRule, Multiplicative, Pull, State, Trace, scale_factor
from .long_horizon import LongHorizon

RULES: dict[str, type[HyperRule]] = {
    "additive": Additive,
    "multiplicative": Multiplicative,
    "long_horizon": LongHorizon,
}


def hyper_rule(spec: str | HyperRule) -> HyperRule:
    """A hyper rule from its name; an object is returned as it is."""
    if isinstance(spec, HyperRule):
        return spec
    if not isinstance(spec, str) or spec not in RULES:
        raise ValueError(
            f"'hyper_rule' must be one of {', '.join(map(repr, RULES))} or a camhd.hyper object, got {spec!r}."
        )
    return RULES[spec]()


__all__ = [
    "RULES",
    "SCALES",
    "Additive",
    "HyperRule",
    "LongHorizon",
    "Multiplicative",
    "Pull",
    "State",
    "Trace",
    "hyper_rule",
    "scale_factor",
]
