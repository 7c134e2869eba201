"""The commands."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from ..lab import bench as lab
from ..lab.bench.cases import CASES, RULES
from ..lab.bench.settings import BACKENDS, LEVEL_NAMES, WHAT, split, usual_memory
from . import data, results, show
from .report import report
from .reproduce import reproduce
from .sweep import sweep
from .train import compare, show_runs, train
from .tune import tune

T = TypeVar("T")

# Boxes and colours are for people at a terminal.
_ON_TERMINAL = sys.stdout.isatty() and sys.stderr.isatty()
app = typer.Typer(
    help="""Optimizers for PyTorch that learn their learning rates at several levels at once.

    Begin with `camhd compare`: it trains a small network on handwritten digits with Adam and with optimizers
    that learn their rates, and says which is better. Then choose your own model, data and optimizers; every run leaves
    a record for `camhd show` and `camhd report`.""",
    rich_markup_mode="rich" if _ON_TERMINAL else None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
)

app.command()(compare)
app.command()(train)
app.command()(sweep)
app.command()(tune)
app.command("show")(show_runs)
app.command()(report)
app.command()(reproduce)
app.command()(results.rerun)
app.add_typer(results.app, name="results")
app.add_typer(data.app, name="data")


@app.callback()
def _camhd() -> None:
    """The first command to try is `camhd compare`."""


@app.command()
def bench(
    what: Annotated[list[str] | None, typer.Argument(help=f"Any of {', '.join(WHAT)}; all if none is given.")] = None,
    models: Annotated[list[str] | None, typer.Option(help=f"Any of {', '.join(CASES)}.")] = None,
    classes: Annotated[list[str] | None, typer.Option(help=f"Any of {', '.join(RULES)}.")] = None,
    levels: Annotated[
        list[str] | None,
        typer.Option(help=f"A chain such as global,layer; once per chain. From {', '.join(LEVEL_NAMES)}."),
    ] = None,
    backends: Annotated[list[str] | None, typer.Option(help=f"Any of {', '.join(BACKENDS)}.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads; torch's own choice if not given.")] = None,
    budget: Annotated[float, typer.Option(help="Seconds for each set of optimizers that are timed together.")] = 10.0,
    peers: Annotated[bool, typer.Option("--peers", help="Measure other packages too, where installed.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Write a picture to this PNG file.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A look, not a measurement: small models, few rounds.")
    ] = False,
) -> None:
    """Measure what a step costs, against torch's own optimizers.

    Lists may be given with commas or option by option. Every ratio is the median over rounds in which all
    optimizers take turns. Run it on an idle machine. Ctrl-C ends it with what has been measured.
    """
    settings = _checked(
        lambda: lab.Settings(
            what=split(what) or WHAT,
            models=split(models),
            classes=split(classes),
            levels=tuple(filter(None, (split([chain]) for chain in levels or ()))) or None,
            backends=split(backends),
            threads=threads,
            budget=budget,
            peers=peers,
            memory=usual_memory(),
        )
    )
    picture = _checked(lambda: show.picture(plot))
    record = lab.run(lab.quick(settings) if quick else settings, show.progress)
    picture(record)
    show.record(record, as_json=json)
    raise typer.Exit(130 if not record.complete else int(any(f.what != "peers" for f in record.failures)))


def _checked(make: Callable[[], T]) -> T:
    """A wrong value is the user's error, told without a traceback."""
    try:
        return make()
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
