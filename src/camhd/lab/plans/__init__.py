"""The paper's experiments as plans: `camhd reproduce NAME --scale smoke|cpu|paper`.

A plan is a short file (`ffnn`, `lenet`, …) that says what is trained at the paper's scale, what the scales `cpu` and
`smoke` change, what the paper's numbers are and what it claims. `grid` holds the runs of a plan, `scale` what a scale
changes and how that is said, `measuring` the measurements that are no training runs; `running` carries a plan out,
`reading` sorts its records, `pages` writes its report.
"""

from __future__ import annotations

from ..choices import choose
from . import complexity, convergence, ffnn, hd, lenet, ratio, resnet, robustness
from .pages import rebuild as write
from .plan import Plan

PLANS = {one.PLAN.name: one.PLAN for one in (ffnn, lenet, resnet, ratio, complexity, convergence, hd, robustness)}

__all__ = ["PLANS", "Plan", "find", "write"]


def find(name: str) -> Plan:
    """The plan of that name."""
    return PLANS[choose("plan", name, PLANS)]
