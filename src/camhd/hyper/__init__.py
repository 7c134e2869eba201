"""Hyper rules: how a rate follows its hypergradient."""

from .base import SCALES, Additive, HyperRule, Multiplicative, Pull, State, Trace, scale_factor
from .long_horizon import LongHorizon

RULES: dict[str, type[HyperRule]] = {
    "additive": Additive,
    "multiplicative": Multiplicative,
    "long_horizon": LongHorizon,
}


DEFAULT = "long_horizon"


def hyper_rule(spec: str | HyperRule | None = None) -> HyperRule:
    """A hyper rule from its name, the default one if there is none; an object is returned as it is."""
    spec = DEFAULT if spec is None else spec
    if isinstance(spec, HyperRule):
        return spec
    if not isinstance(spec, str) or spec not in RULES:
        raise ValueError(
            f"'hyper_rule' must be one of {', '.join(map(repr, RULES))} or a camhd.hyper object, got {spec!r}."
        )
    return RULES[spec]()


def name_of(rule: HyperRule) -> str:
    """What a person calls a rule: the name that makes it, or its class."""
    return next((name for name, kind in RULES.items() if type(rule) is kind), type(rule).__name__)


__all__ = [
    "DEFAULT",
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
    "name_of",
    "scale_factor",
]
