"""How a benchmark is shown: rich tables on a terminal, aligned plain text elsewhere, or JSON."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from ..lab.bench import Record, Task
from ..lab.bench.report import Table, heading, tables


def progress(number: int, total: int, task: Task) -> None:
    """One line per task; on standard error, so that the output stays clean."""
    line = f"[{number}/{total}] {task.what}: {task.title}"
    if sys.stderr.isatty():
        print(f"\r\033[K{line}", end="\n" if number == total else "", file=sys.stderr, flush=True)
    else:
        print(line, file=sys.stderr, flush=True)


def record(record: Record, as_json: bool) -> None:
    """Print everything that was measured."""
    if as_json:
        print(json.dumps(record.as_dict(), indent=1, ensure_ascii=False, allow_nan=False))
        return
    print(heading(record))
    for table in tables(record):
        print()
        print_table(table)


def print_table(table: Table) -> None:
    """With rules and wrapped cells on a terminal, plain elsewhere."""
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(_rich(table))
    else:
        print(plain(table))


def plain(table: Table) -> str:
    """A table of text, aligned and as wide as it needs to be.

    >>> print(plain(Table("Times", ("who", "ms"), [("torch", "1.0"), ("camhd", "12.0")], left=1)))
    Times
      who      ms
      torch   1.0
      camhd  12.0
    """
    rows = [tuple(table.columns), *map(tuple, table.rows)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.columns))]
    lines = [table.title]
    for row in rows:
        cells = [
            text.ljust(width) if i < table.left else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def _rich(table: Table) -> RichTable:
    made = RichTable(title=table.title, title_justify="left", box=box.SIMPLE_HEAD)
    for i, column in enumerate(table.columns):
        made.add_column(column, justify="left" if i < table.left else "right", overflow="fold")
    for row in table.rows:
        made.add_row(*(text.replace("[", r"\[") for text in row))
    return made


def picture(path: Path | None) -> Callable[[Record], None]:
    """What draws the plot in the end; whatever would stop it is said before anything is measured."""
    if path is None:
        return lambda record: None
    if path.suffix.lower() != ".png":
        raise ValueError(f"'plot' must be a PNG file, got {str(path)!r}; name it {path.with_suffix('.png').name!r}.")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"'plot' must be in a folder that exists, but {str(path.parent)!r} does not; make it first.")
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError("'plot' needs matplotlib, which is not installed: pip install 'camhd[bench]'")

    def draw(record: Record) -> None:
        from ..lab.bench.plot import draw as draw_now

        try:
            draw_now(record, path)
        except ValueError as nothing:
            print(f"No plot: {nothing}", file=sys.stderr)

    return draw
