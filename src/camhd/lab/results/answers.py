"""The section "What reproduces and what does not", from the rows of `questions`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ..plans.claims import FAILS, HOLDS, OPEN, Check, number
from ..report import Cell, Column, Table
from ..report.tables import markdown
from ..report.text import NOTHING, mean_and_error, probability
from .questions import QUESTIONS, Agreement, Found, Row, agreements, answers, verdict

COLUMNS = [
    Column("test", "Difference", numeric=False),
    Column("n", "n", numeric=False),
    Column("effect", "Effect"),
    Column("interval", "95 % interval", numeric=False),
    Column("p", "p"),
    Column("corrected", "p, corrected"),
    Column("verdict", "Verdict", numeric=False),
]
NEAR = 2.0  # standard errors
_WORDS = {HOLDS: "holds", FAILS: "does not hold", OPEN: "open"}


def blocks(found: Found, remarks: Mapping[str, str]) -> Iterator[str]:
    """The section: for each question its answer, the tests behind it, and what people remarked."""
    yield "## What reproduces and what does not"
    yield (
        "Effects are differences of test accuracies after the last epoch, in percentage points, or what is named. "
        "Where a comparison has several problems, the effect is the mean over them (Welch's test with the problems as "
        "strata) as far as there are two runs of either side, and the single problems are folded up below. Corrected "
        "p-values count all comparisons of this section; those of single problems count all single problems."
    )
    for question, rows in zip(QUESTIONS, answers(found).values(), strict=True):
        yield f"### {question.asks}"
        yield f"{question.claim} **{_sentence(rows)}**"
        yield markdown(_table(question.asks, rows))
        parts = [part for row in rows for part in row.parts]
        if parts:
            yield f'<details markdown="1"><summary>Problem by problem ({len(parts)})</summary>'
            yield markdown(_table(question.asks, parts))
            yield "</details>"
        yield remarks.get(question.key, "")
    yield from _agreement(agreements(found))


def _sentence(rows: Sequence[Row]) -> str:
    """The answer in a sentence; every word of it is decided by the rows."""
    verdicts = [row.verdict for row in rows]
    empty = sum(math.isnan(row.check.effect) for row in rows)
    said = (
        f"{verdicts.count(HOLDS)} of {len(rows)} comparisons hold, {verdicts.count(FAILS)} do not, "
        f"{verdicts.count(OPEN)} are open"
    )
    waiting = f" ({empty} for want of runs)" if empty else ""
    found = verdict(rows)
    partly = " for the most part" if found != OPEN and verdicts.count(found) < len(rows) else ""
    return f"Verdict: {_WORDS[found]}{partly}. {said}{waiting}."


def _table(title: str, rows: Sequence[Row]) -> Table:
    return Table(title, COLUMNS, [_cells(row.check, row.p, _WORDS[row.verdict]) for row in rows], "")


def _cells(check: Check, p: float, word: str) -> list[Cell]:
    low, high = (number(value, check.unit) for value in (check.low, check.high))
    return [
        Cell(check.what),
        Cell(check.count or NOTHING),
        Cell(NOTHING if math.isnan(check.effect) else f"{number(check.effect, check.unit)} {check.unit}".strip()),
        Cell(NOTHING if math.isnan(check.low) else f"{low} … {high}"),
        Cell(probability(check.p)),
        Cell(probability(p)),
        Cell(word),
    ]


def _agreement(cells: Sequence[Agreement]) -> Iterator[str]:
    """Whether the paper's numbers come back where everything was done as in the paper."""
    yield "### Do the paper's own numbers come back?"
    if not cells:
        yield "Of no problem that was trained as in the paper there are two runs yet."
        return
    near = sum(abs(one.check.effect) <= NEAR * 100 * math.hypot(one.ours.error, one.theirs.error) for one in cells)
    differ = sum(one.differs for one in cells)
    yield (
        f"Cells of the paper's tables whose network, data and settings are the paper's: **{near} of {len(cells)} are "
        f"within two standard errors of the paper's number; {differ} differ from it by more than chance explains** "
        "(Welch's test with the paper's ten runs, corrected for the number of cells)."
    )
    columns = [
        *(Column(name, title, numeric=False) for name, title in (("problem", "Problem"), ("method", "Method"))),
        Column("ours", "Ours, %"),
        Column("paper", "Paper, %"),
        *COLUMNS[1:],
    ]
    rows = [
        [
            Cell(one.problem),
            Cell(one.method),
            Cell(mean_and_error(one.ours, percent=True)),
            Cell(mean_and_error(one.theirs, percent=True)),
            *_cells(one.check, one.p, "differs" if one.differs else "not told apart")[1:],
        ]
        for one in cells
    ]
    yield markdown(Table("The paper's numbers", columns, rows, ""))
