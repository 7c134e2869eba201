"""`camhd tune`."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from ..lab import optimizers as registry
from ..lab import tune as lab
from ..lab.bench.report import Table
from ..lab.compare import parse_option
from ..lab.records.text import to_json
from ..lab.train import Settings
from ..lab.tune.drawing import spelled
from ..lab.tune.page import facts
from ..lab.tune.result import BEST, REPORT
from . import options as o
from . import show
from .studying import watching

SHOWN = 10
_STUDY = "Study"
_KNOWN = ", ".join(registry.names())


def tune(
    context: typer.Context,
    model: o.Model = "ffnn:100,100",
    data: o.Data = "digits",
    optimizer: Annotated[str, typer.Option(help=f"One of {_KNOWN}; or FILE.py:FUNCTION.")] = "adam-cam-hd-2",
    option: Annotated[
        list[str] | None,
        typer.Option(help="An option of the optimizer that is not searched, such as levels=global+filter."),
    ] = None,
    search: Annotated[
        list[str] | None,
        typer.Option(
            help="What is searched: lr=1e-5..1e-1:log, batch_size=16,32,64; once for each.",
            show_default="batch size, lr, hyper-gradient lr, combination lr: those that the optimizer has",
        ),
    ] = None,
    protocol: Annotated[
        str,
        typer.Option(
            help="tpe: proposals learn from earlier trials, and hopeless ones are stopped. paper: the paper's whole "
            "grid, five folds, early stopping."
        ),
    ] = "tpe",
    trials: Annotated[
        int | None,
        typer.Option(help="Of the study in all.", show_default="50, or the whole grid", rich_help_panel=_STUDY),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds after which no trial is begun.", rich_help_panel=_STUDY)
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes on this machine.", rich_help_panel=_STUDY)] = 1,
    storage: Annotated[
        str | None,
        typer.Option(
            help="A database for many machines, such as postgresql+psycopg://user@host/name.",
            show_default="studies.sqlite in the folder",
            rich_help_panel=_STUDY,
        ),
    ] = None,
    study: Annotated[
        str | None, typer.Option(help="Its name.", show_default="made from all that decides it", rich_help_panel=_STUDY)
    ] = None,
    grace: Annotated[
        int,
        typer.Option(
            help="Seconds without a sign of life, after which a process counts as dead and its trial is run again.",
            rich_help_panel=_STUDY,
        ),
    ] = lab.GRACE,
    folds: Annotated[
        int | None,
        typer.Option(
            help="Judge by the mean over so many folds of the training set.",
            show_default="one part held out; paper: 5",
            rich_help_panel="Training",
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="Which part of the training set is held out.",
            show_default="fraction:0.2",
            rich_help_panel="Training",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of every run, and of the proposals.", rich_help_panel="Training")] = 0,
    epochs: Annotated[
        int | None,
        typer.Option(help="At most.", show_default="20; paper: 200", rich_help_panel="Training"),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(help="Examples in a step.", show_default="searched; else 64", rich_help_panel="Training"),
    ] = None,
    paper: o.Paper = False,
    augment: o.Augment = None,
    schedule: o.Schedule = None,
    patience: Annotated[
        int | None,
        typer.Option(
            help="Stop a run after so many epochs without a better validation loss, and judge it by its least.",
            show_default="never; paper: 3",
            rich_help_panel="Training",
        ),
    ] = None,
    loss_scale: o.LossScale = 1.0,
    dtype: o.Dtype = "float32",
    device: o.Device = "cpu",
    threads: o.Threads = None,
    rates_every: o.RatesEvery = None,
    folder: o.Folder = Path("tuning"),
    json: o.Json = False,
) -> None:
    """Search for the best learning rates and other settings of an optimizer.

    It never looks at the test set. The same command goes on with a study that was interrupted, and several of them at
    once, on one machine or on many, share it. It ends with a table, with best.json, which `camhd train --config` takes,
    and with a report to open in a browser.
    """
    usual = o.checked(context, lambda: lab.usual_settings(protocol))
    settings = o.checked(
        context,
        lambda: Settings(
            usual.epochs if epochs is None else epochs, batch_size, _split(split, folds), augment, schedule,
            usual.patience if patience is None else patience, loss_scale, dtype, device, rates_every, paper,
        ),
    )  # fmt: skip
    folds = 1 if split is not None else folds
    make = partial(
        _task, model, data, optimizer, tuple(option or ()), tuple(search or ()), protocol, folds, seed, settings
    )
    task = o.checked(context, make)
    job = task.job(task.first(), task.splits[0])
    o.checked(context, lambda: o.set_threads(threads, job))
    limit = o.checked(context, lambda: lab.limit_of(task, trials))
    try:
        with watching(limit) as onlooker:
            found = o.checked(
                context,
                lambda: lab.tune(
                    task, folder, trials=trials, timeout=timeout, workers=workers, storage=storage, study=study,
                    grace=grace, threads=_threads(threads, workers), onlooker=onlooker, make=make,
                ),
            )  # fmt: skip
    except lab.StudyError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None
    except (KeyboardInterrupt, SystemExit) as stop:
        print(f"\nStopped. To go on:\n  {o.same_command(context)}", file=sys.stderr)
        raise typer.Exit(130 if isinstance(stop, KeyboardInterrupt) else 143) from None
    command = _command(found, model, data, optimizer)
    if json:
        print(to_json(_as_dict(found, command), indent=1))
    else:
        _print(found, command)
    if found.best is None:
        raise typer.Exit(1)


def _task(
    model: str,
    data: str,
    optimizer: str,
    option: tuple[str, ...],
    search: tuple[str, ...],
    protocol: str,
    folds: int | None,
    seed: int,
    settings: Settings,
) -> lab.Task:
    """The task from the words of the command line, in whatever process."""
    return lab.task(
        o.own_or_name(model),
        o.own_or_name(data),
        o.own_or_name(optimizer),
        settings,
        options=dict(map(parse_option, option)),
        search=search,
        protocol=protocol,
        folds=folds,
        seed=seed,
    )


def _split(split: str | None, folds: int | None) -> str:
    if split is not None and folds is not None:
        raise ValueError("'split' and 'folds' contradict each other; give one of them.")
    return split or lab.HELD_OUT


def _threads(threads: int | None, workers: int) -> int:
    """Of each process, so that there are not more of them than cores."""
    share = max(1, (os.cpu_count() or 1) // max(1, workers))
    return torch.get_num_threads() if threads is not None else min(torch.get_num_threads(), share)


def _command(found: lab.Result, model: str, data: str, optimizer: str) -> str | None:
    """What trains with the best configuration; its file alone is not enough where functions of the user's are."""
    config = found.config
    if config is None:
        return None
    if found.task.named:
        return shlex.join(["camhd", "train", "--config", str(found.folder / BEST)])
    words = ["camhd", "train", "--model", model, "--data", data, "--optimizer", optimizer]
    words += ["--epochs", str(config.epochs), "--batch-size", str(config.batch_size), "--seed", str(config.seed)]
    for name in ("augment", "schedule", "loss_scale", "dtype", "device"):
        value = getattr(config, name)
        words += [] if value == getattr(Settings(), name) else [f"--{name.replace('_', '-')}", str(value)]
    if found.task.settings.rates_every is not None:
        words += ["--rates-every", str(config.rates_every)]
    options = [f"{name}={_exact(value)}" for name, value in config.options.items()]
    return shlex.join([*words, *(word for text in options for word in ("--option", text))])


def _exact(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _print(found: lab.Result, command: str | None) -> None:
    names = [one.name for one in found.task.space]
    rows = [
        (str(row.number), f"{row.loss:.5g}", *(spelled(row.found[name]) for name in names), str(row.epochs))
        for row in found.ranked[:SHOWN]
    ]
    print("\n".join([f"{found.name}: {facts(found)}", *found.notes]))
    if rows:
        title = "Best trials" if len(found.ranked) > SHOWN else "Trials, best first"
        show.print_table(Table(title, ("trial", "loss", *names, "epochs"), rows, left=0))
    print()
    if found.config is not None:
        print(f"Best: {found.folder / BEST}\nTo train with it: {command}")
    else:
        errors = [row.error for row in found.trials if row.error]
        print(f"No trial was judged. {f'The last error: {errors[-1]}' if errors else ''}".rstrip(), file=sys.stderr)
    print(f"Report: {found.folder / REPORT}")


def _as_dict(found: lab.Result, command: str | None) -> dict[str, Any]:
    return {
        "study": found.name,
        "folder": str(found.folder),
        "task": found.task.spec(),
        "best": None if found.best is None else _row(found.best),
        "config": None if found.config is None else found.config.as_dict(),
        "command": command,
        "report": str(found.folder / REPORT),
        "importances": dict(found.importances),
        "notes": list(found.notes),
        "trials": [_row(row) for row in found.trials],
    }


def _row(row: lab.Row) -> Mapping[str, Any]:
    return {**vars(row), "runs": list(row.runs), "loss": None if math.isnan(row.loss) else row.loss}
