"""What other settings than the paper's change: a section, and tests across grids of their own and the paper's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..report import Cell, Column, Section, Table
from ..report.curves import finite
from ..report.text import mean_and_error
from .claims import Check, Place, between
from .reading import Results

BETA = Column("beta", "β", "The step size of the rates.", numeric=False)


def named(what: str, beta: float) -> str:
    """What a method is called with a β."""
    return f"{what}, β {beta:g}"


def section(
    title: str, problem: str, settings: Sequence[Column], rows: Sequence[tuple[Place, Sequence[str]]], text: str
) -> Callable[[Results], Section]:
    """A table of accuracies and losses after the last epoch.

    Args:
        title: of the section.
        problem: the title of the problem.
        settings: the columns of what is varied.
        rows: the methods, and what each has in those columns.
        text: what is compared, and why.
    """
    columns = [
        Column("method", "Method", numeric=False),
        *settings,
        Column("n", "n", "Runs."),
        Column("accuracy", "Test accuracy, %", "After the last epoch: mean ± standard error."),
        Column("loss", "Test loss", "Likewise."),
    ]
    note = f"After the last epoch, on {problem}: mean ± standard error over runs."

    def make(found: Results) -> Section:
        cells = []
        for (grid, label), own in rows:
            if found.method(grid, problem, label) is None:
                continue
            made = [finite(found.finals(grid, problem, label, one)) for one in ("valid_accuracy", "valid_loss")]
            accuracy, loss = (Cell(mean_and_error(one, percent=i == 0), one.mean) for i, one in enumerate(made))
            count = Cell(str(made[0].count), made[0].count)
            cells.append([Cell(label), *map(Cell, own), count, accuracy, loss])
        return Section(title, (text,), [Table("", columns, cells, note)])

    return make


def better(
    problem: str, *pairs: tuple[Place, Place], metric: str = "valid_accuracy"
) -> Callable[[Results], list[Check]]:
    """Tests that the first of a pair is better than the second; they may be of different grids."""
    return lambda found: [between(found, problem, first, second, metric) for first, second in pairs]
