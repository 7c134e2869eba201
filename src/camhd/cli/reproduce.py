"""`camhd reproduce`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ..lab import plans
from ..lab.bench.report import Table
from ..lab.plans import pages, running
from ..lab.plans.measuring import Measured
from ..lab.plans.numbering import PRINTED
from ..lab.records.read import last_line
from ..lab.sweep import EngineError, Failure
from ..lab.sweep.engines import ENGINES
from . import options as o
from . import show
from .sweeping import watching

_CLUSTER = "Where it runs"


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
    engine: Annotated[
        str | None,
        typer.Option(
            help=f"One of {', '.join(ENGINES)} (one run after another).",
            show_default="smoke: here; else local",
            rich_help_panel=_CLUSTER,
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(help="Of a Ray cluster (auto, HOST:PORT) or a Dask scheduler.", rich_help_panel=_CLUSTER),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Runs at a time.", show_default="as many as there are cores for", rich_help_panel=_CLUSTER),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            help="Threads of the CPU for each run.",
            show_default="local: cores divided by workers; else 1",
            rich_help_panel=_CLUSTER,
        ),
    ] = None,
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
    failed: Sequence[Failure] = ()
    if not report_only:
        try:
            with watching() as watcher:
                where = engine or ("here" if scale == "smoke" else "local"), address, workers, threads
                failed = o.checked(context, lambda: running.carry_out(plan, items, place, *where, watcher))
            running.measure(running.measured(plan, scale, only), place, _tell)
        except (KeyboardInterrupt, EngineError) as stop:
            same = o.same_command(context, plan.name, without=("name",))
            print(f"{stop}\nStopped. To go on:\n  {same}", file=sys.stderr)
            raise typer.Exit(130 if isinstance(stop, KeyboardInterrupt) else 1) from None
    figures = figures and importlib.util.find_spec("matplotlib") is not None
    made = o.checked(context, lambda: pages.read(plan, place, scale))
    page = pages.write(plan, made, place / "report", figures)
    if plan.claims:  # their verdicts are the first section
        print("\n".join(made.sections[0].texts))
    print(f"Report: {page}")
    for item, message in failed:
        print(f"Failed: {item}: {last_line(message)}", file=sys.stderr)
    raise typer.Exit(int(bool(failed)))


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
