"""A record as a picture: ratios to the baseline for every model, and how step time grows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .cases import CASES, RULES
from .record import Record
from .results import StepTime


def draw(record: Record, path: Path) -> None:
    """Write a PNG. Raises ValueError if nothing was measured that could be drawn."""
    steps = [r for r in (*record.of("steps"), *record.of("peers")) if isinstance(r, StepTime) and _baseline(r)]
    growth = [r for r in record.of("growth") if isinstance(r, StepTime)]
    models = list(dict.fromkeys(r.model for r in steps))
    panels = len(models) + bool(growth)
    if not panels:
        raise ValueError("a plot needs 'steps', 'growth' or peers; nothing of that was measured.")
    longest = max([sum(r.model == model for r in steps) for model in models], default=0)
    columns = min(panels, 2)
    rows = -(-panels // columns)
    figure = Figure(figsize=(8 * columns, rows * max(5.0, 1 + 0.2 * longest)), layout="constrained")
    axes: list[Axes] = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis, model in zip(axes, models, strict=False):
        _ratios(axis, CASES[model].title, [r for r in steps if r.model == model])
    if growth:
        _growth(axes[len(models)], growth)
    for empty in axes[panels:]:
        empty.set_axis_off()
    figure.savefig(path, dpi=120, format="png")


def _ratios(axis: Axes, title: str, results: Sequence[StepTime]) -> None:
    """One row per optimizer: the median ratio to its baseline, and the quartiles."""
    for row, result in enumerate(reversed(results)):
        ratio = result.ratios[_baseline(result)]
        colour = {"torch": "tab:gray", "camhd": "tab:blue"}.get(result.library, "tab:orange")
        axis.plot([ratio.low, ratio.high], [row, row], color=colour, linewidth=3, alpha=0.4)
        axis.plot([ratio.median], [row], "o", color=colour, markersize=4)
    names = [f"{RULES[r.rule].title if r.rule in RULES else r.rule}: {r.label}" for r in reversed(results)]
    axis.set_yticks(range(len(names)), names, fontsize=7)
    axis.axvline(1, color="black", linewidth=0.8)
    axis.set_xscale("log")
    axis.set_xlabel("step time, × " + " or ".join(dict.fromkeys(map(_baseline, results))))
    axis.set_title(title)
    axis.grid(axis="x", which="both", alpha=0.3)


def _baseline(result: StepTime) -> str:
    """The fused optimizer of torch, or what stands in for it; nothing for the baseline itself."""
    if result.library == "torch" and result.backend == "fused":
        return ""
    return next((name for name in result.ratios if name.endswith(" fused")), next(iter(result.ratios), ""))


def _growth(axis: Axes, results: Sequence[StepTime]) -> None:
    """One line per optimizer, both axes logarithmic."""
    for name in dict.fromkeys((r.rule, r.label) for r in results):
        own = [r for r in results if (r.rule, r.label) == name]
        title = f"{RULES[name[0]].title}: {name[1]}"
        axis.plot([r.parameters for r in own], [1e3 * r.seconds.median for r in own], "o-", markersize=3, label=title)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("parameters, in one matrix")
    axis.set_ylabel("milliseconds per step")
    axis.set_title("Growth")
    axis.grid(which="both", alpha=0.3)
    axis.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
