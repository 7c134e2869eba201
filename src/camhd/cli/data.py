"""`camhd data`: which data sets there are, and bringing them here."""

from __future__ import annotations

import dataclasses
import json as json_format
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from ..lab import data
from ..lab.bench.report import Table
from . import show

T = TypeVar("T")

app = typer.Typer(
    help="Data sets: which there are, getting them, bringing your own, checking them.", no_args_is_help=True
)

Folder = Annotated[
    Path | None, typer.Option(help="The data folder; by default CAMHD_DATA, or else a folder in your cache.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
_NAMES = ", ".join(data.NAMES)
_BUNDLED = {
    **dict.fromkeys(("text", "docstrings"), "yes, inside Python"),
    **dict.fromkeys(("quadratic", "noisy-quadratic"), "yes, computed"),
}


@app.command(name="list")
def list_(folder: Folder = None, json: Json = False) -> None:
    """Say which data sets there are and which of them are here."""
    found = _checked(lambda: data.describe(folder=folder))
    _print_list(found, data.data_folder(folder), json)


@app.command()
def get(
    name: Annotated[str, typer.Argument(help=f"One of {_NAMES}.")],
    folder: Folder = None,
    mirror: Annotated[
        list[str] | None, typer.Option(help="The address of a folder with the files, to be tried first.")
    ] = None,
    json: Json = False,
) -> None:
    """Download a data set, unless it is here already.

    Hashes are checked before a file gets its name. Ctrl-C keeps what has come, and the same command goes on from there.
    """
    with _progress() as progress:
        found = _checked(lambda: data.get(name, folder, mirror or (), progress))
    _print_one(found, json)


@app.command()
def add(
    name: Annotated[str, typer.Argument(help=f"One of {_NAMES}.")],
    path: Annotated[Path, typer.Argument(help="A folder with its files, or one of them.")],
    note: Annotated[
        str | None,
        typer.Option(help="What the files are, if they are not the published ones: by this you vouch for them."),
    ] = None,
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Take over a data set that is already on your disk.

    Published files are recognised by their hashes. Any others are taken only with --note, which says what they are and
    is shown with every result on them.
    """
    found = _checked(lambda: data.add(name, path, note, folder))
    _print_one(found, json)


@app.command()
def verify(
    names: Annotated[list[str] | None, typer.Argument(help=f"Any of {_NAMES}; all that are here if none.")] = None,
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Read data sets, and compare their files with the published hashes.

    The exit code is 1 if a data set is wrong, or if one that was named is missing.
    """
    verdicts = _checked(lambda: data.verify(names or None, folder))
    _print_verdicts(verdicts, json)
    raise typer.Exit(int(any(v.state == "wrong" or (names and v.state == "missing") for v in verdicts)))


def _checked(call: Callable[[], T]) -> T:
    """A wrong argument is the user's error (2), wrong data an error of the data (1); neither has a traceback."""
    try:
        return call()
    except data.DataError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    except KeyboardInterrupt:
        print("\nStopped. What has come is kept; the same command goes on from there.", file=sys.stderr)
        raise typer.Exit(130) from None


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar for every file, where there is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as bars:
        tasks: dict[str, Any] = {}

        def advance(file: str, done: int, size: int) -> None:
            if file not in tasks:
                tasks[file] = bars.add_task(file, total=size)
            bars.update(tasks[file], completed=done)

        yield advance


def _state(one: data.Description) -> str:
    return {
        "bundled": _BUNDLED.get(one.name, "yes, inside scikit-learn"),
        "here": "yes",
        "vouched": "yes, vouched for by you",
        "incomplete": "only a part",
        "wrong": "wrong files",
        "missing": f"no: camhd data get {one.name} ({one.download / 1e6:,.0f} MB)",
    }[one.state]


def _as_dict(one: data.Description) -> dict[str, object]:
    about = dataclasses.asdict(one.about)
    place = None if one.place is None else str(one.place)
    return {"name": one.name, **about, "state": one.state, "place": place, "note": one.note, "download": one.download}


def _dump(value: object) -> None:
    print(json_format.dumps(value, indent=1, ensure_ascii=False))


def _print_table(table: Table) -> None:
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(show._rich(table))
    else:
        print(show.plain(table))


def _print_list(found: list[data.Description], folder: Path, json: bool) -> None:
    if json:
        _dump({"folder": str(folder), "data": [_as_dict(one) for one in found]})
        return
    rows = [
        (
            one.name,
            one.about.what,
            _state(one) + (f"; {one.note}" if one.note else ""),
            *(f"{count:,}" if count and not one.note else "" for count in (one.about.train, one.about.test)),
        )
        for one in found
    ]
    _print_table(Table(f"Data sets; folder {folder}", ("name", "what", "here", "train", "test"), rows, left=3))


def _print_one(one: data.Description, json: bool) -> None:
    if json:
        _dump(_as_dict(one))
        return
    place = "" if one.place is None else f", in {one.place}"
    print(f"{one.name}: {_state(one)}{place}" + (f". {one.note}" if one.note else ""))


def _print_verdicts(verdicts: list[data.Verdict], json: bool) -> None:
    if json:
        _dump([dataclasses.asdict(verdict) for verdict in verdicts])
        return
    for verdict in verdicts:
        told = verdict.message if verdict.state != "missing" else f"camhd data get {verdict.name}"
        print(f"{verdict.name}: {verdict.state}" + (f". {told}" if told else ""))
