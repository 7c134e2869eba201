"""What a person sees: `print(optimizer)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from ..hyper import name_of

if TYPE_CHECKING:
    from .optimizer import Optimizer


def describe(optimizer: Optimizer) -> str:
    """Levels, how many rates each has, their range and weight, and how they learn."""
    tree, config = optimizer._tree, optimizer.config
    layout, state = tree.layout.whole, tree.state
    scalars = sum(slot.numel for slot in layout.slots)
    lines = [
        f"{type(optimizer).__name__} ({optimizer.rule.name}) over {len(layout.slots)} tensors, {scalars:,} scalars"
    ]
    rows = [("level", "rates", "weight", "range")]
    weights = optimizer.combination()
    levels = [[level.rates] for level in state.levels] + (
        [[leaf.rates for leaf in state.leaves]] if state.leaves else []
    )
    counts = [partition.count for partition in layout.partitions] + ([scalars] if state.leaves else [])
    for name, rates, count in zip(layout.names, levels, counts, strict=True):
        weight = weights.get(name)
        shown = f"{weight:.3f}" if isinstance(weight, float) else "by layer"
        part = " (here)" if sum(r.numel() for r in rates) < count else ""  # of rates divided over processes
        rows.append((name, f"{count:,}", shown, _range(rates) + part))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    for row in rows:
        lines.append(f"  {row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]}".rstrip())
    rule, combine = name_of(config.hyper_rule), type(config.combine).__name__.lower()
    learned = f"{rule}, {config.hyper_scale}" if config.hyper_rule.scalable else rule
    for index, group in enumerate(optimizer.param_groups):
        hidden = ("params", "param_names", "lr0", "last_move", "hyper_lr")
        options = ", ".join(f"{k}={v}" for k, v in group.items() if k not in hidden and v is not None)
        lines.append(f"  group {index}: {options}; hyper_lr={group['hyper_lr']} ({learned})")
    weight_note = f"combine_lr={config.combine_lr:g}" if config.combine.learns else "no weights to learn"
    lines.append(f"  {combine} combination, {weight_note}; step {state.step}, skipped {optimizer.skipped}")
    backend = optimizer.backend.describe(optimizer.rule, tree, optimizer.param_groups, optimizer.state)
    lines.append(f"  backend {backend}")
    return "\n".join(lines)


def _range(rates: list[Tensor]) -> str:
    filled = [r for r in rates if r.numel()]
    if not filled:
        return "-"
    low, high = min(float(r.min()) for r in filled), max(float(r.max()) for r in filled)
    return f"{low:.3e}" if low == high else f"{low:.3e} … {high:.3e}"
