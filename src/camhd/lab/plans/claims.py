"""What the paper says, as tests on the records: a sentence, its tests, a verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..report import Cell, Column, Section, Table
from ..report.text import NOTHING, probability
from .numbering import said
from .reading import Results
from .testing import LEVEL, contrast, holm

Place = tuple[str, str]  # a grid and the label of a method of it
HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told from these runs"


@dataclass(frozen=True)
class Check:
    """One test of a claim.

    Args:
        what: the difference that is looked at.
        effect: how large it is; the claim wants it above zero.
        low: where its 95 % interval begins.
        high: where it ends.
        p: of no difference, not corrected; nan where there is no test.
        count: the numbers of runs, in words.
        unit: of the effect.
        verdict: given already, where no chance is involved.
    """

    what: str
    effect: float
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan
    count: str = ""
    unit: str = ""
    verdict: str = ""

    def judged(self, p: float) -> str:
        """The verdict with a corrected p-value."""
        if self.verdict:
            return self.verdict
        if not p < LEVEL:
            return OPEN
        return HOLDS if self.effect > 0 else FAILS


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper.

    Args:
        says: the sentence, shortened where that changes nothing.
        place: the label of the section that says it, in the paper's source; or whose it is; "" for a question of ours.
        tests: makes its tests from the results.
        most: whether more than half of the tests must hold; else all of them.
    """

    says: str
    place: str
    tests: Callable[[Results], Sequence[Check]]
    most: bool = False

    def verdict(self, verdicts: Sequence[str]) -> str:
        """Of the claim, from those of its tests."""
        held, failed = verdicts.count(HOLDS), verdicts.count(FAILS)
        if self.most:
            return HOLDS if 2 * held > len(verdicts) else FAILS if 2 * failed >= len(verdicts) > 0 else OPEN
        return FAILS if failed else HOLDS if held and held == len(verdicts) else OPEN


def between(
    found: Results, problem: str, first: Place, second: Place, metric: str = "valid_accuracy", absent: bool = False
) -> Check:
    """The test that a method is better than another, which may be of another grid.

    Args:
        found: what was read.
        problem: its title, the same in both grids.
        first: the one that should be better.
        second: the other.
        metric: an accuracy, or a loss (less is better).
        absent: the claim is that there is no significant difference in favour of the first.
    """
    return compare(
        f"{problem}: {first[1]} − {second[1]}",
        found.finals(first[0], problem, first[1], metric),
        found.finals(second[0], problem, second[1], metric),
        percent="accuracy" in metric,
        less="loss" in metric,
        absent=absent,
    )


def better(
    first: str,
    second: str | Sequence[str],
    problems: Sequence[str],
    grid: str = "table",
    metric: str = "valid_accuracy",
    absent: bool = False,
) -> Callable[[Results], list[Check]]:
    """Tests that a method is better than another, on each problem.

    Args:
        first: the label of the one that should be better.
        second: the label of the other, or several.
        problems: their titles.
        grid: in which they are.
        metric: an accuracy, or a loss (less is better).
        absent: the claim is that there is no significant difference in favour of the first.
    """
    others = [second] if isinstance(second, str) else list(second)

    def make(found: Results) -> list[Check]:
        return [
            between(found, problem, (grid, first), (grid, other), metric, absent)
            for problem in problems
            for other in others
            if found.method(grid, problem, first) and found.method(grid, problem, other)
        ]

    return make


def compare(
    what: str,
    first: Sequence[float],
    second: Sequence[float],
    percent: bool = False,
    less: bool = False,
    absent: bool = False,
) -> Check:
    """A test that the first numbers are larger (or smaller) than the second; Welch's, two-sided."""
    made = contrast([(second, first) if less else (first, second)])
    factor, unit = (100.0, "points") if percent else (1.0, "")
    count = f"{len(first)} + {len(second)}"
    verdict = "" if not absent or math.isnan(made.p) else HOLDS if made.p >= LEVEL or made.effect <= 0 else FAILS
    what = f"{what} (less is better)" if less else what
    return Check(what, factor * made.effect, factor * made.low, factor * made.high, made.p, count, unit, verdict)


def sections(found: Results, claims: Sequence[Claim]) -> tuple[Section, Section]:
    """The claims with their verdicts, in words; and every test of them, as a table."""
    made = [(claim, list(claim.tests(found))) for claim in claims]
    corrected = iter(holm([math.nan if test.verdict else test.p for _, own in made for test in own]))
    rows, texts = [], []
    for number, (claim, own) in enumerate(made, start=1):
        values = [next(corrected) for _ in own]
        verdicts = [test.judged(p) for test, p in zip(own, values, strict=True)]
        texts.append(f"{number}. {_said(claim)}: {claim.verdict(verdicts)}{_tally(verdicts)}.")
        rows += [_row(number, test, p, one) for test, p, one in zip(own, values, verdicts, strict=True)]
    table = Table("Claims, test by test", COLUMNS, rows, NOTE)
    return Section("What holds in these runs", texts), Section("The tests of the claims", (), [table])


def _said(claim: Claim) -> str:
    where = said(claim.place) if claim.place else "our own question"
    return f"{claim.says} ({where})"


COLUMNS = [
    Column("claim", "Claim", numeric=False),
    Column("test", "Difference", numeric=False),
    Column("n", "n", "Runs on either side.", numeric=False),
    Column("effect", "Effect", "A claim wants it above zero."),
    Column("interval", "95 % interval", "Not corrected for the number of tests.", numeric=False),
    Column("p", "p", "Welch's test, two-sided, not corrected."),
    Column("corrected", "p, corrected", "For all tests of this table (Holm)."),
    Column("verdict", "Verdict", numeric=False),
]
NOTE = (
    f"Effects are differences of means over seeds; p of Welch's test or of the one that is named, corrected for all "
    f"tests of the table by Holm's method. A test holds (or does not) if its corrected p is below {LEVEL}; where no p "
    f"is given there are too few runs, or no chance is involved."
)


def _row(claim: int, test: Check, p: float, verdict: str) -> list[Cell]:
    interval = NOTHING if math.isnan(test.low) else f"{number(test.low, test.unit)} … {number(test.high, test.unit)}"
    mark = {HOLDS: "better", FAILS: "worse"}.get(verdict, "")
    return [
        Cell(str(claim)),
        Cell(test.what),
        Cell(test.count or NOTHING),
        Cell(f"{number(test.effect, test.unit)} {test.unit}".strip(), test.effect),
        Cell(interval),
        Cell(probability(test.p), test.p),
        Cell(probability(p), p),
        Cell(verdict, mark=mark),
    ]


def number(value: float, unit: str) -> str:
    """An effect for people: two decimals for percentage points, three digits for others."""
    text = f"{value:+.2f}" if unit == "points" else f"{value:+.3g}"
    return NOTHING if math.isnan(value) else text.replace("-", "−")


def _tally(verdicts: Sequence[str]) -> str:
    if len(verdicts) < 2:
        return ""
    return f" ({verdicts.count(HOLDS)} of {len(verdicts)} tests hold, {verdicts.count(FAILS)} do not)"
