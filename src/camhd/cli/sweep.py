"""`camhd sweep`."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..lab import sweep as lab
from ..lab.bench.report import Table
from ..lab.records.read import FAILURE, last_line
from ..lab.records.text import to_json
from ..lab.sweep.engines import ENGINES
from ..lab.sweep.places import place
from . import options as o
from . import show
from .sweeping import watching

_CLUSTER, _RECORDS = "Where it runs", "Records"


def sweep(
    context: typer.Context,
    plan: Annotated[
        str | None,
        typer.Argument(help="A .toml or .json file; or FILE.py with a function plan(), or FILE.py:FUNCTION."),
    ] = None,
    folder: Annotated[
        str | None,
        typer.Option(
            help="Each run gets a folder in this one, which may be shared between machines; or an object path such as "
            "s3://bucket/folder.",
            show_default="runs/NAME of the plan",
            rich_help_panel=_RECORDS,
        ),
    ] = None,
    engine: Annotated[
        str, typer.Option(help=f"One of {', '.join(ENGINES)} (one after another).", rich_help_panel=_CLUSTER)
    ] = "local",
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
    retries: Annotated[int, typer.Option(help="How often a run that fails is tried again.")] = 1,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try again what failed in an earlier sweep.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run, and do nothing.")] = False,
    status: Annotated[
        str | None,
        typer.Option(help="Say how far the plans in this folder have come, and do nothing.", metavar="FOLDER"),
    ] = None,
    copies: Annotated[
        Path | None,
        typer.Option(
            help="With an object path: where copies of the records go.",
            show_default="runs/NAME of the plan",
            rich_help_panel=_RECORDS,
        ),
    ] = None,
    minutes: o.Minutes = 5.0,
    json: o.Json = False,
) -> None:
    """Carry out a plan of many runs, several at a time; only those that are not finished yet.

    Stop it at any time (Ctrl-C) and start it again with the same command. Several sweeps, on several machines, may work
    on one folder. A run that fails is kept with its traceback, and the others go on; the exit code is 1 then.
    """
    if status is not None:
        _print_status(o.checked(context, partial(lab.surveys, status)), status, json)
        return
    if plan is None:
        raise typer.BadParameter("give a plan, such as plan.toml; or --status FOLDER.")
    found = o.checked(context, lambda: lab.Plan.from_file(plan))
    where = folder or str(Path("runs") / found.name)
    if dry_run:
        remote = engine in ("ray", "dask")
        _print_dry(found, o.checked(context, lambda: lab.survey(found, where, remote)), where, json, retry_failed)
        return
    try:
        with watching() as watcher:
            carry_out = partial(lab.run, found, where, engine, address, workers, threads, retries, watcher)
            options = {"retry_failed": retry_failed, "checkpoint_minutes": minutes}
            outcome = o.checked(context, partial(carry_out, **options))
    except KeyboardInterrupt:
        _print_stopped(o.same_command(context, without=("retry_failed",)))
        raise typer.Exit(130) from None
    except lab.EngineError as error:
        print(error, file=sys.stderr)
        _print_stopped(o.same_command(context, without=("retry_failed",)))
        raise typer.Exit(1) from None
    _print_end(found, outcome, where, copies or Path("runs") / found.name, json)
    raise typer.Exit(int(bool(outcome.failed)))


def _print_stopped(same: str) -> None:
    print(f"\nStopped. What was under way goes on from its last checkpoint:\n  {same}", file=sys.stderr)


def _print_end(plan: lab.Plan, outcome: lab.Outcome, where: str, copies: Path, json: bool) -> None:
    folder = where if Path(where).is_dir() else outcome.copied_to(copies)
    if json:
        failed = [{"run": item.as_dict(), "failure": message} for item, message in outcome.failed]
        document = {"name": plan.name, "folder": str(folder), "finished": list(outcome.done), "failed": failed}
        print(to_json(document, indent=1))
        return
    for item, message in outcome.failed:
        print(f"Failed: {item}: {last_line(message)}", file=sys.stderr)
    if outcome.failed:
        print(f"Each has its traceback in its folder, as {FAILURE}; --retry-failed tries again.", file=sys.stderr)
    print(f"{_counted(len(outcome.done), 'run')} finished, {len(outcome.failed)} failed. The report of them:")
    print(f"  {shlex.join(['camhd', 'report', str(folder)])}")


def _print_dry(plan: lab.Plan, states: Sequence[lab.State], where: str, json: bool, retry_failed: bool) -> None:
    would = {"begun", "new", *(["failed"] if retry_failed else [])}
    if json:
        print(to_json([{"run": one.run, "state": one.state, **one.item.as_dict()} for one in states], indent=1))
        return
    rows = [(one.run, str(one.item), one.state) for one in states if one.state in would]
    if rows:
        show.print_table(Table(f"What would run, into {where}", ("run", "what", "state"), rows, left=3))
    print(f"{plan.name}: {_summary(states)}; {_counted(len(rows), 'run')} would be carried out.")


def _print_status(found: dict[str, list[lab.State]], where: str, json: bool) -> None:
    if json:
        counts = {name: dict(Counter(one.state for one in states)) for name, states in found.items()}
        print(to_json(counts, indent=1))
        return
    for name, states in found.items():
        print(f"{name}: {_summary(states)}")
        at = place(where)
        for one in states:
            if one.state == "failed":
                print(f"  failed: {one.item}: {last_line(at.failure(one.run))}")
    if not found:
        print(f"There is no sweep in {where!r}.", file=sys.stderr)


def _summary(states: Sequence[lab.State]) -> str:
    counts = Counter(one.state for one in states)
    return f"{_counted(len(states), 'run')}, " + ", ".join(f"{counts[s]} {s}" for s in lab.STATES if counts[s])


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"
