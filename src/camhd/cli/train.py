"""`camhd compare`, `camhd train`, `camhd show`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ..lab import optimizers as registry
from ..lab import records, report
from ..lab.compare import OPTIMIZERS, Entrant, parse_option, plan, split_entrants, tables
from ..lab.records.read import RESULT
from ..lab.records.text import to_json
from ..lab.train import Job, Settings, again, check_started, execute, leads, prepare
from . import options as o
from . import runs as shown
from . import show
from .progress import watching

_KNOWN = ", ".join(registry.names())
_OF_RECORDS = ("config", "folder", "resume", "overwrite", "minutes", "threads", "parallel", "json")


def compare(
    context: typer.Context,
    model: o.Model = "ffnn:100,100",
    data: o.Data = "digits",
    optimizers: Annotated[
        list[str] | None,
        typer.Option(
            help=f"With commas or one by one, options after a colon (adam:lr=0.01); or FILE.py:FUNCTION. {_KNOWN}.",
            show_default=",".join(OPTIMIZERS),
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs for each optimizer, with seeds 0, 1, …")] = 3,
    lr: Annotated[
        float | None, typer.Option(help="Learning rate of all optimizers.", show_default="each one's own")
    ] = None,
    epochs: o.Epochs = 20,
    batch_size: o.BatchSize = None,
    paper: o.Paper = False,
    split: o.Split = "full",
    augment: o.Augment = None,
    schedule: o.Schedule = None,
    patience: o.Patience = None,
    loss_scale: o.LossScale = 1.0,
    dtype: o.Dtype = "float32",
    device: o.Device = "cpu",
    threads: o.Threads = None,
    rates_every: o.RatesEvery = None,
    folder: o.Folder = Path("runs"),
    resume: Annotated[
        bool,
        typer.Option(
            "--resume/--overwrite",
            help="Take finished runs as they are and go on with interrupted ones, or run everything again.",
            rich_help_panel="Records",
        ),
    ] = True,
    minutes: o.Minutes = 5.0,
    out: Annotated[
        Path | None,
        typer.Option("--report", help="The HTML report.", show_default="in the folder", rich_help_panel="Records"),
    ] = None,
    json: o.Json = False,
) -> None:
    """Compare optimizers on one problem, several seeds each.

    Without options: a small network on handwritten digits with Adam, Adam-HD and Adam-CAM-HD. It ends with a table
    (mean ± standard error, n, Welch's p against the first row, time of an optimizer step) and a report to open in a
    browser. Ctrl-C stops between two steps; the same command goes on from there.
    """
    settings = o.checked(
        context,
        lambda: Settings(
            epochs, batch_size, split, augment, schedule, patience, loss_scale, dtype, device, rates_every, paper
        ),
    )
    o.checked(context, lambda: _report_file(out))
    jobs = o.checked(context, lambda: _jobs(model, data, optimizers, seeds, lr, settings, threads))
    runs = _carry_out(context, jobs, folder, resume, minutes, same=o.same_command(context, without=("resume",)))
    path = out or folder / shown.file_name(runs[0].config)
    report.write([run.folder for run in runs if run.folder is not None], path, first=runs[0].config.label)
    found = tables(runs)
    if json:
        print(to_json({**found[0].as_dict(), "report": str(path)}, indent=1))
        return
    for table in map(shown.comparison, found):
        show.print_table(table)
    print(f"\nReport: {path}")


def train(
    context: typer.Context,
    model: o.Model = "ffnn:100,100",
    data: o.Data = "digits",
    optimizer: Annotated[str, typer.Option(help=f"One of {_KNOWN}; or FILE.py:FUNCTION.")] = "adam-cam-hd-2",
    option: Annotated[
        list[str] | None,
        typer.Option(help="An option of the optimizer, such as lr=0.01 or levels=global+filter; once for each."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides initial weights, order of examples, augmentation, dropout.")] = 0,
    epochs: o.Epochs = 20,
    batch_size: o.BatchSize = None,
    paper: o.Paper = False,
    split: o.Split = "full",
    augment: o.Augment = None,
    schedule: o.Schedule = None,
    patience: o.Patience = None,
    loss_scale: o.LossScale = 1.0,
    dtype: o.Dtype = "float32",
    device: o.Device = "cpu",
    threads: o.Threads = None,
    parallel: o.Parallel = None,
    rates_every: o.RatesEvery = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Run a record again: its folder, or its config.json; or train with the best.json of camhd tune.",
            rich_help_panel="Records",
        ),
    ] = None,
    folder: o.Folder = Path("runs"),
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with this run where it was interrupted.", rich_help_panel="Records"),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Begin again, whatever is there.", rich_help_panel="Records")
    ] = False,
    minutes: o.Minutes = 5.0,
    json: o.Json = False,
) -> None:
    """Train once, and keep a record of it.

    The record is a folder with config.json, history.jsonl and result.json; `camhd show` and `camhd report` read it.
    Ctrl-C stops between two steps; --resume goes on from there. With --parallel, start it with torchrun:
    torchrun --nproc-per-node=2 -m camhd train --parallel ddp …
    """
    o.checked(context, lambda: check_started(parallel))
    settings = o.checked(
        context,
        lambda: Settings(
            epochs, batch_size, split, augment, schedule, patience, loss_scale, dtype, device, rates_every, paper
        ),
    )
    job = o.checked(
        context,
        lambda: (
            _job(model, data, optimizer, option, seed, settings, threads)
            if config is None
            else _again(context, config, threads)
        ),
    )
    command = o.same_command(context, "--resume", without=("overwrite",))
    (run,) = _carry_out(context, [job], folder, resume, minutes, command, overwrite, True, parallel)
    if not leads(parallel):
        return
    if json:
        print(to_json(shown.as_dict(run), indent=1))
        return
    show.print_table(shown.each([run]))
    print(f"\nRecord: {run.folder}")


def show_runs(
    context: typer.Context,
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Folders of runs, at any depth.", show_default="runs")
    ] = None,
    every: Annotated[bool, typer.Option("--every", help="List every single run, too.")] = False,
    json: o.Json = False,
) -> None:
    """Show tables of records.

    Of a single run, its configuration and its epochs.
    """
    found = o.checked(context, lambda: records.load(runs or [Path("runs")]))
    if json:
        compared = [table.as_dict() for table in tables(found.runs)]
        document = {"tables": compared, "runs": [shown.as_dict(run) for run in found], "problems": found.problems}
        print(to_json(document, indent=1))
        return
    if len(found) == 1:
        made = shown.one(found.runs[0])
    else:
        made = [shown.comparison(table) for table in tables(found.runs)]
        made += [shown.each(found.runs)] if every else []
    for number, table in enumerate(made):
        print(end="\n" if number else "")
        show.print_table(table)
    for problem in found.problems:
        print(problem, file=sys.stderr)
    if not len(found):
        print("There are no runs; camhd compare makes some.", file=sys.stderr)


def _jobs(
    model: str,
    data: str,
    optimizers: Sequence[str] | None,
    seeds: int,
    lr: float | None,
    settings: Settings,
    threads: int | None,
) -> list[Job]:
    if seeds < 1:
        raise ValueError(f"'seeds' must be 1 or more, got {seeds}.")
    entrants = [_entrant(text, lr) for text in split_entrants(optimizers or OPTIMIZERS)]
    jobs = plan(o.own_or_name(model), o.own_or_name(data), entrants, settings, seeds)
    o.set_threads(threads, jobs[0])
    return jobs


def _entrant(text: str, lr: float | None) -> Entrant:
    own = o.own_or_name(text)
    entrant = Entrant.parse(text) if isinstance(own, str) else Entrant(own)
    return entrant if lr is None else Entrant(entrant.optimizer, {"lr": lr, **entrant.options})


def _job(
    model: str,
    data: str,
    optimizer: str,
    option: Sequence[str] | None,
    seed: int,
    settings: Settings,
    threads: int | None,
) -> Job:
    chosen: dict[str, Any] = dict(parse_option(text) for text in option or ())
    job = prepare(
        o.own_or_name(model), o.own_or_name(data), o.own_or_name(optimizer), settings, seed=seed, options=chosen
    )
    o.set_threads(threads, job)
    return job


def _again(context: typer.Context, config: Path, threads: int | None) -> Job:
    others = [parameter.name for parameter in o.given(context, *_OF_RECORDS)]
    if others:
        raise ValueError(
            f"'config' has all settings of the run, so '{others[0]}' cannot be given with it; leave it out."
        )
    job = again(_read_config(config))
    o.set_threads(threads, job)
    return job


def _read_config(path: Path) -> records.RunConfig:
    if not path.is_file():
        return records.read(path).config
    try:
        return records.RunConfig.from_json(path.read_text(encoding="utf-8"))
    except (ValueError, TypeError) as error:
        raise ValueError(f"'config' {str(path)!r} cannot be read: {error}") from None


def _carry_out(
    context: typer.Context,
    jobs: Sequence[Job],
    folder: Path,
    resume: bool,
    minutes: float,
    same: str,
    overwrite: bool | None = None,
    every_epoch: bool = False,
    parallel: str | None = None,
) -> list[records.Run]:
    """All jobs, one after another; Ctrl-C says how to go on."""
    begin_again = not resume if overwrite is None else overwrite
    runs: list[records.Run] = []
    alone = leads(parallel)  # the others of a shared run are silent
    try:
        with watching(len(jobs), every_epoch) if alone else nullcontext() as watcher:
            for job in jobs:
                carry_out = partial(execute, job, folder, resume, begin_again, minutes, watcher, parallel)
                runs.append(o.checked(context, carry_out))
    except (KeyboardInterrupt, SystemExit) as stop:
        if not alone:
            raise typer.Exit(130 if isinstance(stop, KeyboardInterrupt) else 143) from None
        done = sum((folder / job.config.id / RESULT).exists() for job in jobs)
        count = "" if len(jobs) == 1 else f" {done} of {len(jobs)} runs are finished."
        print(f"\nStopped.{count} To go on:\n  {same}", file=sys.stderr)
        raise typer.Exit(130 if isinstance(stop, KeyboardInterrupt) else 143) from None
    return runs


def _report_file(out: Path | None) -> None:
    """Said before anything is trained."""
    if out is not None and out.is_dir():
        raise ValueError(f"'out' must be a file, but {str(out)!r} is a folder; add a name such as report.html.")
