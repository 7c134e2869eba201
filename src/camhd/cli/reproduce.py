"""`camhd reproduce`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..lab import plans
from ..lab.plans.running import carry_out, measure
from . import options as o
from .progress import watching


def reproduce(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help=f"One of {', '.join(plans.PLANS)}.")] = None,
    scale: Annotated[
        str,
        typer.Option(help="smoke: a minute, on small data. cpu: hours, on two cores. paper: as the paper did it."),
    ] = "smoke",
    only: Annotated[
        str | None, typer.Option(help="Only runs in whose name, label or problem this text occurs.")
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="Of the records.", show_default="runs/NAME-SCALE")] = None,
    report_only: Annotated[bool, typer.Option("--report-only", help="Train nothing; write the report anew.")] = False,
    threads: o.Threads = None,
) -> None:
    """Repeat an experiment of the paper, and compare.

    Ctrl-C stops between two steps; the same command goes on from there.
    """
    plan = o.checked(context, lambda: plans.find(name or ""))
    items = o.checked(context, lambda: plan.items(scale))
    place = folder or Path("runs") / f"{plan.name}-{scale}"
    if only is not None:
        items = [
            item for item in items if only.lower() in f"{item.model} {item.data} {item.label} {item.optimizer}".lower()
        ]
    if not report_only:
        try:
            with watching(len(items)) as watcher:
                o.checked(context, lambda: carry_out(items, place, watcher, threads))
            measure(plan.measurements.get(scale, ()), place, lambda made: print(made.measurement.id, file=sys.stderr))
        except (KeyboardInterrupt, SystemExit) as stop:
            print(f"\nStopped. To go on:\n  {o.same_command(context, plan.name, without=('name',))}", file=sys.stderr)
            raise typer.Exit(130 if isinstance(stop, KeyboardInterrupt) else 143) from None
    page = o.checked(context, lambda: plans.write(plan, scale, place, place / "report"))
    print(f"Report: {page}")
