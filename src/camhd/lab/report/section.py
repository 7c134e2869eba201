"""Sections of one's own above the tasks of a report: words, tables, charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .summary import Table
from .text import number


@dataclass(frozen=True)
class Series:
    """A line of a chart.

    Args:
        name: In the legend.
        xs: Where.
        ys: How much; nan where nothing is known.
        errors: Standard errors, if there are any.
    """

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    errors: Sequence[float] | None = None


@dataclass(frozen=True)
class Chart:
    """Lines over something that is not the epoch.

    Args:
        title: Of the chart; also the name of its files.
        x: The title of the horizontal axis.
        y: The title of the vertical axis.
        series: The lines.
        log_x: Whether the horizontal axis is logarithmic; then all xs must be above zero.
        log_y: Whether the vertical one is.
        percent: Whether ys are fractions, shown in percent.
        note: A sentence below it.
    """

    title: str
    x: str
    y: str
    series: Sequence[Series]
    log_x: bool = False
    log_y: bool = False
    percent: bool = False
    note: str = ""


@dataclass(frozen=True)
class Section:
    """A part of a report: a heading, paragraphs, tables, charts."""

    title: str
    texts: Sequence[str] = ()
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = field(default_factory=tuple)


def as_data(section: Section) -> dict[str, Any]:
    """For the page's program."""
    return {
        "title": section.title,
        "texts": list(section.texts),
        "tables": [table_data(table) for table in section.tables],
        "charts": [_chart(chart) for chart in section.charts],
    }


def table_data(made: Table) -> dict[str, Any]:
    """A table for the page's program."""
    return {
        "title": made.title,
        "note": made.note,
        "columns": [vars(column) for column in made.columns],
        "rows": [[[cell.text, number(cell.value), cell.mark] for cell in row] for row in made.rows],
    }


def _chart(chart: Chart) -> dict[str, Any]:
    return {
        **{key: value for key, value in vars(chart).items() if key != "series"},
        "series": [
            {
                "name": one.name,
                "xs": [number(x, 8) for x in one.xs],
                "ys": [number(y, 7) for y in one.ys],
                "errors": None if one.errors is None else [number(error, 3) for error in one.errors],
            }
            for one in chart.series
        ],
    }
