"""`camhd results` and `camhd rerun`."""

from __future__ import annotations

import json as json_format
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import torch
import typer

from ..lab import plans
from ..lab import results as lab
from ..lab.bench.report import Table
from . import options as o
from . import show
from .progress import watching

app = typer.Typer(
    help="Published results: packing the records of plans, reading them, and making the page of them.",
    no_args_is_help=True,
)

Results = Annotated[Path, typer.Option(help="The folder of packed records.")]
Scale = Annotated[str, typer.Option(help=f"One of {', '.join(plans.SCALES)}.")]
Name = Annotated[str, typer.Argument(help=f"One of {', '.join(plans.PLANS)}.")]
RESULTS = Path("results")


@app.command()
def pack(
    context: typer.Context,
    name: Name,
    folder: Annotated[Path, typer.Argument(help="Of the records, as camhd reproduce leaves them.")],
    results: Results = RESULTS,
    scale: Scale = "cpu",
    json: o.Json = False,
) -> None:
    """Add the finished records of a plan to its archive.

    What is there stays; what is new is added; what is unfinished is packed by the same command later.
    """
    made = o.checked(context, lambda: lab.pack(name, folder, results, scale))
    if json:
        print(json_format.dumps({**asdict(made), "path": str(made.path)}, indent=1, ensure_ascii=False))
        return
    for problem in made.unfinished:
        print(f"Not packed: {problem}")
    if made.others:
        print(f"{len(made.others)} records are of no run of this plan at the scale {scale}; they are left alone.")
    size = made.path.stat().st_size if made.path.exists() else 0
    print(f"{len(made.added)} records added, {len(made.known)} were there; {made.total} of {made.wanted} in all.")
    print(f"Archive: {made.path} ({size / 1000:,.0f} kB)")


@app.command()
def unpack(
    context: typer.Context,
    name: Name,
    folder: Annotated[Path, typer.Argument(help="For the records; each gets a folder in this one.")],
    results: Results = RESULTS,
    scale: Scale = "cpu",
) -> None:
    """Write packed records as folders that camhd show and camhd report can read."""
    plan = o.checked(context, lambda: plans.find(name))
    archive = o.checked(context, lambda: lab.read(lab.path_of(results, plan.name, scale)))
    print(f"{len(lab.unpack(archive, folder))} of {len(archive.lines)} records written to {folder}.")


@app.command(name="list")
def list_(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Of a plan; its records one by one.")] = None,
    results: Results = RESULTS,
) -> None:
    """Say what is packed: how much of each plan, or the records of one."""
    found = o.checked(context, lambda: lab.read_all(results))
    if name is None:
        rows = [(one.plan, one.scale, str(len(one.lines)), str(_wanted(one))) for one in found]
        show.print_table(Table(f"Packed records in {results}", ("plan", "scale", "records", "wanted"), rows, left=2))
        return
    plan = o.checked(context, lambda: plans.find(name))
    for one in found:
        if one.plan == plan.name:
            print("\n".join(sorted(one.lines)))


@app.command()
def page(
    context: typer.Context,
    results: Results = RESULTS,
    docs: Annotated[Path, typer.Option(help="The folder of the documentation.")] = Path("docs"),
    scale: Scale = "cpu",
    figures: Annotated[bool, typer.Option(help="Draw the figures, too.")] = True,
) -> None:
    """Make results.md, the tables of no-tuning.md, and their figures from packed records alone."""
    made = o.checked(context, lambda: lab.build(results, docs, scale, figures=figures))
    print(f"Page: {made}")


def rerun(
    context: typer.Context,
    record: Annotated[str, typer.Argument(help="The folder of a record, or (a part of) the id of a packed one.")],
    results: Results = RESULTS,
    threads: Annotated[int | None, typer.Option(help="Of the CPU.", show_default="as recorded")] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Keep the new record in this folder.", show_default="it is not kept")
    ] = None,
    json: o.Json = False,
) -> None:
    """Run a single record again, and compare.

    Everything that was written down is compared, but for times. If anything differs, and this is a clone of the
    project, it is run once more with the sources of the commit that the record was made with. The exit code is 1 if
    anything still differs.
    """
    kept = o.checked(context, lambda: lab.find(record, results))
    if threads is not None and threads < 1:
        raise typer.BadParameter(f"--threads must be 1 or more, got {threads}.")
    torch.set_num_threads(threads or kept.threads)
    with watching(1, every_epoch=True) as watcher:
        made = o.checked(context, lambda: lab.repeat(kept, folder, watcher))
    if not json:
        _tell(made)
    sources = None if made.equal else o.checked(context, lambda: lab.sources_of(kept, results))
    if sources is not None:
        if not json:
            own = "it was made with" if sources.commit == kept.environment.get("commit") else "stand in for its own"
            print(f"Once more, with the sources that {own}, those of {sources.commit[:9]}.")
        made = o.checked(context, lambda: lab.repeat(kept, folder, sources=sources))
        if not json:
            _tell(made)
    if json:
        print(json_format.dumps({**asdict(made), "equal": made.equal}, indent=1, ensure_ascii=False))
    raise typer.Exit(int(not made.equal))


def _tell(made: lab.Repeated) -> None:
    for other in made.elsewhere:
        print(f"Not the same here: {other}")
    for different in made.differences:
        print(f"Differs: {different}")
    if made.equal:
        print(f"Equal: all {made.compared:,} values of {made.id} but its times.")


def _wanted(one: lab.Archive) -> int:
    plan = plans.find(one.plan)
    return len(plan.items(one.scale)) + len(plan.measurements.get(one.scale, ()))
