"""The page's figures as files for papers and slides: PNG, SVG and PDF, through matplotlib; and its tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from . import rates
from .group import Task
from .study import Study
from .tables import latex, markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
# Pictures of rates beyond this number nobody looks at.
RATES = 24
# Of a task.
PARTS = ("curves", "time", "rates")


def draw(study: Study, folder: Path, formats: Sequence[str] = FORMATS, parts: Sequence[str] = PARTS) -> list[Path]:
    """Write every figure in every format, and every table as Markdown and LaTeX.

    Args:
        study: Runs, sorted.
        folder: Made if it does not exist.
        formats: Names that matplotlib knows.
        parts: Which figures of the tasks.

    Returns:
        The files, in the order in which they were written.

    Raises:
        ModuleNotFoundError: There is no matplotlib.
    """
    try:
        from matplotlib import rc_context
    except ModuleNotFoundError as missing:
        if missing.name != "matplotlib":
            raise
        raise ModuleNotFoundError("figures need matplotlib: pip install 'camhd[lab]'", name="matplotlib") from None
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    # Text stays text, and the same runs give the same files.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "camhd", "pdf.fonttype": 42, "axes.axisbelow": True}):
        for name, make in _figures(study, parts):
            figure = make()
            figure.draw_without_rendering()
            figure.set_layout_engine("none")  # It has found its places; three files need not look for them again.
            for kind in formats:
                written.append(folder / f"{name}.{kind}")
                date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
                figure.savefig(written[-1], dpi=160, metadata=date)
    own = [(slug(table.title), table) for section in study.sections for table in section.tables]
    of_tasks = [f"{name}-table" for name in names(study.tasks)]
    for name, table in [*own, *zip(of_tasks, study.tables, strict=True)]:
        for suffix, text in (("md", markdown(table)), ("tex", latex(table))):
            written.append(folder / f"{name}.{suffix}")
            written[-1].write_text(text + "\n", encoding="utf-8")
    return written


def _figures(study: Study, parts: Sequence[str]) -> Iterator[tuple[str, Callable[[], Figure]]]:
    """Names and makers: a figure is made when its turn comes, so that they are never in memory together."""
    from . import drawing

    for section in study.sections:
        yield from ((slug(chart.title), partial(drawing.chart, chart)) for chart in section.charts)
    left = RATES if "rates" in parts else 0
    for name, task in zip(names(study.tasks), study.tasks, strict=True):
        if task.metrics and "curves" in parts:
            yield f"{name}-curves", partial(drawing.curves, task)
        if "time" in parts and any("step_ms" in run.time for method in task.methods for run in method.counted):
            yield f"{name}-time", partial(drawing.times, task)
        for number, method in enumerate(task.methods, start=1):
            view = rates.together(method) if left > 0 else None
            if view is not None and view.moves:
                left -= 1
                yield f"{name}-rates-{number}-{slug(method.name)}", partial(drawing.rates, view, task.name, method.name)


def names(tasks: Sequence[Task]) -> list[str]:
    """A file's name for each task; no two are the same."""
    made: list[str] = []
    for task in tasks:
        name = slug(task.name)
        number = 2
        while name in made:
            name, number = f"{slug(task.name)}-{number}", number + 1
        made.append(name)
    return made


def slug(text: str) -> str:
    """Text as part of a file's name.

    >>> slug("ffnn:100,100 on MNIST / ../x")
    'ffnn-100-100-on-mnist-x'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:80] or "unnamed"
