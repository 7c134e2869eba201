"""`camhd reproduce`."""

from __future__ import annotations

import importlib.util
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..lab import plans
from ..lab.bench.report import Table
from ..lab.plans import pages, running
from ..lab.plans.measuring import Measured
from ..lab.plans.numbering import PRINTED
from . import options as o
from . import show
from .progress import watching


def reproduce(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help=f"One of {', '.join(plans.PLANS)}.")] = None,
    scale: Annotated[
        str,
        typer.Option(help="smoke: a minute, on small data. cpu: hours, on two cores. paper: as the paper did it."),
    ] = "smoke",
    listing: Annotated[
        bool, typer.Option("--list", help="List the plans, and where the paper has them: in print and in its source.")
    ] = False,
    only: Annotated[
        str | None,
        typer.Option(help="Only runs in whose model, data, optimizer or label this text occurs."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="Of the records; the report is in its folder 'report'.", show_default="runs/NAME-SCALE"),
    ] = None,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Run nothing; write the report anew from the records.")
    ] = False,
    figures: Annotated[
        bool,
        typer.Option(help="Write the figures as PNG and SVG too, if matplotlib is installed."),
    ] = True,
    threads: o.Threads = None,
) -> None:
    """Repeat an experiment of the paper, and compare with what it says.

    It ends with a report: the paper's tables and figures with our numbers, its own beside them, and which of its claims
    hold in these runs. Ctrl-C stops between two steps; the same command goes on from there, and several of them may
    work on one folder.
    """
    if listing:
        show.print_table(_list())
        return
    plan = o.checked(context, lambda: plans.find(name or ""))
    items = o.checked(context, lambda: running.chosen(plan, scale, only))
    place = folder or Path("runs") / f"{plan.name}-{scale}"
    if not report_only:
        try:
            with watching(len(items)) as watcher:
                o.checked(context, partial(running.carry_out, items, place, watcher, threads))
            running.measure(running.measured(plan, scale, only), place, _tell)
        except (KeyboardInterrupt, SystemExit) as stop:
            same = o.same_command(context, plan.name, without=("name",))
            print(f"\nStopped. To go on:\n  {same}", file=sys.stderr)
            raise typer.Exit(130 if isinstance(stop, KeyboardInterrupt) else 143) from None
    figures = figures and importlib.util.find_spec("matplotlib") is not None
    made = o.checked(context, lambda: pages.read(plan, place, scale))
    page = pages.write(plan, made, place / "report", figures)
    if plan.claims:  # their verdicts are the first section
        print("\n".join(made.sections[0].texts))
    print(f"Report: {page}")


def _tell(made: Measured) -> None:
    print(f"{made.measurement.id}  {made.seconds:.1f} s", file=sys.stderr, flush=True)


def _list() -> Table:
    """Both numberings: what LaTeX prints, and the labels of the source."""
    rows = [
        (
            plan.name,
            ", ".join(PRINTED.get(place, place) for place in plan.places) or "–",
            ", ".join(plan.places) or "–",
            plan.title,
        )
        for plan in plans.PLANS.values()
    ]
    return Table(
        "The paper's experiments; hd is from the poster of Baydin et al.",
        ("plan", "in print", "in the source", "what"),
        rows,
        left=4,
    )
