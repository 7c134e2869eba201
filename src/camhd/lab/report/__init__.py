"""Reports from records: one self-contained HTML page, figures, tables.

`write` reads what `camhd.lab.train` and `camhd.lab.compare` recorded, and nothing else. What is where, in order:
`source` reads runs; `group` sorts them into tasks and methods; `curves`, `rates` and `summary` compute; `study` holds
all of it, and `section` what others put above it; `page` makes the page's data, `html` the page, `figures` the
pictures, `tables` Markdown and LaTeX.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from .section import Chart, Section, Series
from .source import Source
from .study import Study, study
from .summary import Cell, Column, Published, Table, headline

__all__ = [
    "Cell",
    "Chart",
    "Column",
    "Published",
    "Section",
    "Series",
    "Study",
    "Table",
    "headline",
    "study",
    "write",
    "write_figures",
    "write_study",
]


def write(
    runs: Source | Iterable[Source],
    path: str | Path,
    title: str | None = None,
    figures: str | Path | None = None,
    *,
    first: str | None = None,
    published: Sequence[Published] = (),
    remarks: Sequence[str] = (),
) -> Path:
    """Write the report of some runs: one HTML file that needs nothing else.

    Args:
        runs: Folders of runs, at any depth, or runs in memory.
        path: The HTML file.
        title: Of the page.
        figures: A folder for the same figures as PNG, SVG and PDF, and for the tables as Markdown and LaTeX; needs
            matplotlib.
        first: The method that the others are compared with, by label or by optimizer; by default the one that was
            started first.
        published: Numbers of others, to be put beside ours.
        remarks: Paragraphs below the title.

    Returns:
        The HTML file.

    Raises:
        ValueError: There is no run at all, or none of the method `first`.
    """
    made = study(runs, title, first, published, remarks)
    if figures is not None:
        write_figures(made, figures)
    return write_study(made, path)


def write_figures(
    made: Study, folder: str | Path, formats: Sequence[str] | None = None, parts: Sequence[str] | None = None
) -> list[Path]:
    """Write the figures and tables of runs that have been read already; gives the files.

    Args:
        made: Runs, sorted.
        folder: For the files.
        formats: "png", "svg", "pdf"; all if not given.
        parts: Which figures of the tasks: "curves", "time", "rates"; all if not given. Charts of sections are always
            drawn.
    """
    from .figures import FORMATS, PARTS, draw

    return draw(made, Path(folder), formats or FORMATS, PARTS if parts is None else parts)


def write_study(made: Study, path: str | Path) -> Path:
    """Write the page of runs that have been read already."""
    from ... import __version__
    from ..records.files import write as write_whole
    from .html import render
    from .page import data
    from .tables import markdown

    tables = [table for section in made.sections for table in section.tables] + made.tables
    texts = "\n\n".join(f"{table.title}\n\n{markdown(table)}" for table in tables)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, render(data(made), made.facts, texts, __version__))
    return path
