"""The paper's experiments as plans: `camhd reproduce NAME --scale smoke|cpu|paper`.

A plan is a short file (`ffnn`, `lenet`, …) that says what is trained at the paper's scale, what the scales `cpu` and
`smoke` change, what the paper's numbers are and what it claims. `grid` holds the runs of a plan, `scale` what a scale
changes and how that is said, `measuring` the measurements that are no training runs (`costs`, `theorems` make them);
`running` carries a plan out; `reading` sorts its records, `testing`, `claims` and `sections` make of them what the
report shows, and `pages` writes it. `numbering` knows the paper's two numberings.
"""

from __future__ import annotations

from pathlib import Path

from ..choices import choose
from . import complexity, convergence, ffnn, hd, lenet, pages, ratio, resnet, robustness
from .plan import Plan
from .scale import SCALES

PLANS: dict[str, Plan] = {
    one.PLAN.name: one.PLAN for one in (ffnn, lenet, resnet, ratio, complexity, convergence, hd, robustness)
}

__all__ = ["PLANS", "SCALES", "Plan", "find", "rebuild"]


def find(name: str) -> Plan:
    """The plan of that name."""
    return PLANS[choose("plan", name, PLANS)]


def rebuild(name: str, records: str | Path, out: str | Path, scale: str | None = None, *, figures: bool = True) -> Path:
    """Write the report of a plan from its records alone; nothing is trained, and no data are needed.

    Args:
        name: of the plan.
        records: the folder of its records.
        out: a folder for `report.html`, the same as `report.md`, figures (PNG, SVG) and tables (Markdown, LaTeX).
        scale: of the records; the one to which most of them belong, if not given.
        figures: False for the pages and tables alone, which need no matplotlib.

    Returns:
        The page.

    Raises:
        ValueError: There is no record of this plan.
    """
    plan = find(name)
    return pages.write(plan, pages.read(plan, records, scale), out, figures)
