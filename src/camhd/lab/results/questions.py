"""What a reader wants to know first: four questions, each answered by comparisons of means.

A comparison has one test over all of its problems together (a mean difference with the problems as strata, Welch's
test) and one for each problem. The first kind is corrected for its number in all questions (Holm), and so is the
second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..plans import ffnn, hd, lenet, ratio, resnet
from ..plans.claims import FAILS, HOLDS, OPEN, Check
from ..plans.reading import Results
from ..plans.sections import as_published
from ..plans.testing import LEVEL, contrast, holm, summaries
from ..report.curves import finite
from ..statistics import Summary

PAPER_RUNS = 10  # "for ten runs", the paper says of each experiment

Found = Mapping[str, Results]
Values = tuple[str, Sequence[float], Sequence[float]]  # a problem, ours, the other's


@dataclass(frozen=True)
class Comparison:
    """One method against another.

    Args:
        what: the difference that is looked at.
        plan: in which plan.
        values: the problems, with the numbers of both sides.
        checks: tests in place of those; for what is no difference of means.
    """

    what: str
    plan: str
    values: Callable[[Results], Sequence[Values]] = lambda found: ()
    checks: Callable[[Results], Sequence[Check]] | None = None


@dataclass(frozen=True)
class Question:
    """A question, and what answers it.

    Args:
        key: for remarks.
        asks: the question.
        claim: what would have to hold.
        comparisons: that answer it.
    """

    key: str
    asks: str
    claim: str
    comparisons: Sequence[Comparison]


@dataclass(frozen=True)
class Row:
    """A test, its corrected p-value and its verdict; `parts` are the same for each problem."""

    check: Check
    p: float
    verdict: str
    parts: Sequence[Row] = field(default_factory=tuple)


def _cells(first: str, second: str, problems: Sequence[str], grid: str = "table") -> Callable[[Results], list[Values]]:
    """The final accuracies of two methods on some problems of a table."""

    def make(found: Results) -> list[Values]:
        return [
            (problem, found.finals(grid, problem, first), found.finals(grid, problem, second)) for problem in problems
        ]

    return make


def _between(
    plan: str, first: str, second: str, problems: Sequence[str], where: str, grid: str = "table"
) -> Comparison:
    return Comparison(f"{where}: {first} − {second}", plan, _cells(first, second, problems, grid))


def _tuned(first: str, second: str) -> Comparison:
    """Each with the settings that the same search found for it."""
    return _between("ffnn", ffnn.tuned(first), ffnn.tuned(second), (ffnn.SMALL,), ffnn.SMALL, ffnn.TUNED)


FFNNS, LENETS, RESNETS = "FFNNs", "LeNet-5", "reduced ResNets"


def _trained(found: Results) -> list[Values]:
    """Each ratio of each panel: accuracy with γ trained, and with γ fixed."""
    values: list[Values] = []
    for grid in found.grids:
        fixed, trained = ratio.finals(found, grid, ratio.FIXED), ratio.finals(found, grid, ratio.TRAINED)
        both = [one for one in trained if one in fixed]
        values += [(f"{grid.problems[0].title}, ratio {one:g}", trained[one], fixed[one]) for one in both]
    return values


def _panel(name: str) -> Callable[[Results], list[Values]]:
    return lambda found: [
        one for one in _trained(found) if one[0].startswith(f"{found.grid(name).problems[0].title}, ratio")
    ]


def _over_ratios(found: Results) -> list[Values]:
    """For each panel and each seed the mean over ratios, beside the baseline: what one gets who takes any ratio."""
    made: list[Values] = []
    for grid in found.grids:
        columns = list(ratio.finals(found, grid, ratio.TRAINED).values())
        means = [sum(row) / len(row) for row in zip(*columns, strict=False)]
        made.append((grid.problems[0].title, means, found.finals(grid.name, grid.problems[0].title, "baseline")))
    return made


QUESTIONS = (
    Question(
        "multi-level",
        "Does multi-level beat global HD?",
        "Adam-CAM-HD reaches a higher test accuracy than Adam-HD, which is the same with one global rate.",
        (
            _between("ffnn", ffnn.TWO, ffnn.HD, ffnn.ALL, FFNNS),
            _between("ffnn", ffnn.TWO, ffnn.HD_DEFAULT, ffnn.ALL, FFNNS),
            _between("ffnn", ffnn.TWO, ffnn.HD_FLOOR, ffnn.ALL, FFNNS),
            _between("ffnn", ffnn.THREE, ffnn.HD_FLOOR, ffnn.ALL, FFNNS),
            _between("lenet", lenet.CAM, lenet.HD, lenet.ALL, LENETS),
            _between("resnet", resnet.CAM, resnet.HD, resnet.BOTH, RESNETS),
            _tuned(ffnn.TWO, ffnn.FLOOR),
            _tuned(ffnn.EVEN, ffnn.FLOOR),
        ),
    ),
    Question(
        "hd-or-adam",
        "Does HD beat Adam?",
        "Adam-HD reaches a higher test accuracy than Adam from the same rate; from a small rate it needs fewer steps.",
        (
            _between("ffnn", ffnn.HD, ffnn.ADAM, ffnn.ALL, FFNNS),
            _between("ffnn", ffnn.HD_DEFAULT, ffnn.ADAM, ffnn.ALL, FFNNS),
            _between("ffnn", ffnn.HD_FLOOR, ffnn.ADAM, ffnn.ALL, FFNNS),
            _between("lenet", lenet.HD, lenet.ADAM, lenet.ALL, LENETS),
            _between("resnet", resnet.HD, resnet.ADAM, resnet.BOTH, RESNETS),
            _tuned(ffnn.FLOOR, ffnn.ADAM),
            Comparison("steps to a loss of 0.29", "hd", checks=hd.fewer_steps),
        ),
    ),
    Question(
        "weights",
        "Does learning γ beat fixed γ?",
        "From the same initial ratio of the levels, trained weights γ reach a higher test accuracy than fixed ones.",
        tuple(
            Comparison(f"{grid.problems[0].title}: γ trained − γ fixed, all ratios", "ratio", _panel(grid.name))
            for grid in ratio.GRIDS
        ),
    ),
    Question(
        "transfer",
        "Do the paper's settings transfer?",
        "With the paper's settings, CAM-HD beats its baseline on problems for which the paper did not tune them: other "
        "data, a reduced network, another ratio.",
        (
            _between("lenet", lenet.CAM, lenet.ADAM, (lenet.SVHN,), "LeNet-5, SVHN"),
            _between("resnet", resnet.CAM, resnet.ADAM, resnet.BOTH, RESNETS),
            _between("resnet", resnet.ADABOUND_CAM, resnet.ADABOUND, resnet.BOTH, RESNETS),
            _between("resnet", resnet.SGDN_CAM, resnet.SGDN, resnet.BOTH, RESNETS),
            Comparison("any ratio, γ trained − baseline, five panels", "ratio", _over_ratios),
        ),
    ),
)


def answers(found: Found) -> dict[str, list[Row]]:
    """The rows of every question, by its key. A plan without records gives rows without numbers."""
    made = [
        (question.key, one)
        for question in QUESTIONS
        for comparison in question.comparisons
        for one in _tests(comparison, found)
    ]
    p = iter(holm([check.p for _, (check, _) in made]))
    p_parts = iter(holm([part.p for _, (_, parts) in made for part in parts]))
    rows: dict[str, list[Row]] = {question.key: [] for question in QUESTIONS}
    for key, (check, parts) in made:
        own = [_row(part, next(p_parts)) for part in parts]
        rows[key].append(_row(check, next(p), own))
    return rows


def _row(check: Check, p: float, parts: Sequence[Row] = ()) -> Row:
    return Row(check, p, check.judged(p), tuple(parts))


def _tests(comparison: Comparison, found: Found) -> Iterator[tuple[Check, list[Check]]]:
    """The test over all problems that can be tested, and that of each if there are several."""
    results = found.get(comparison.plan)
    if results is None:
        yield Check(comparison.what, math.nan), []
        return
    if comparison.checks is not None:
        yield from ((check, []) for check in comparison.checks(results))
        return
    values = [one for one in comparison.values(results) if one[1] and one[2]]
    parts = [_check(f"{comparison.what}: {problem}", [(first, second)]) for problem, first, second in values]
    tested = [one for one in values if min(len(one[1]), len(one[2])) > 1] or values
    over = f" (mean of {len(tested)})" if len(tested) > 1 else f" ({tested[0][0]})" if len(values) > 1 else ""
    yield _check(comparison.what + over, [one[1:] for one in tested]), parts if len(values) > 1 else []


def _check(what: str, pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Check:
    made = contrast(list(pairs))
    count = f"{made.count[0]} + {made.count[1]}"
    return Check(what, 100 * made.effect, 100 * made.low, 100 * made.high, made.p, count, "points")


def verdict(rows: Sequence[Row]) -> str:
    """Of a question: holds if more than half of its comparisons do, does not if at least half do not; else open."""
    verdicts = [row.verdict for row in rows]
    held, failed = verdicts.count(HOLDS), verdicts.count(FAILS)
    return HOLDS if 2 * held > len(verdicts) else FAILS if verdicts and 2 * failed >= len(verdicts) else OPEN


@dataclass(frozen=True)
class Agreement:
    """A number of the paper beside ours.

    Args:
        plan: whose plan.
        problem: the title of the problem.
        method: the label of the method.
        ours: from the records.
        theirs: the paper's.
        check: ours less theirs.
        p: corrected for the number of cells.
    """

    plan: str
    problem: str
    method: str
    ours: Summary
    theirs: Summary
    check: Check
    p: float

    @property
    def differs(self) -> bool:
        """Whether chance does not explain the difference."""
        return self.p < LEVEL


def agreements(found: Found) -> list[Agreement]:
    """Every accuracy that the paper gives for a problem that was trained here as the paper did it."""
    made = []
    for name, results in found.items():
        titles = {one.title for grid in results.grids for one in grid.problems if as_published(results, one)}
        for number in results.plan.published:
            if number.metric != "valid_accuracy" or number.problem not in titles:
                continue
            ours = finite(results.finals("table", number.problem, number.method))
            theirs = Summary(number.mean, number.error, PAPER_RUNS)
            if ours.count > 1:
                test = summaries(ours, theirs)
                count = f"{ours.count} + {PAPER_RUNS}"
                what = f"{number.problem}, {number.method}: ours − paper's"
                check = Check(what, 100 * test.effect, 100 * test.low, 100 * test.high, test.p, count, "points")
                made.append(Agreement(name, number.problem, number.method, ours, theirs, check, math.nan))
    corrected = holm([one.check.p for one in made])
    return [
        Agreement(one.plan, one.problem, one.method, one.ours, one.theirs, one.check, p)
        for one, p in zip(made, corrected, strict=True)
    ]
