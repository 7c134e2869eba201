"""What the default promises, and what others say of theirs, as tests on the records of the study of robustness."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from . import robustness_methods as m
from .claims import FAILS, HOLDS, OPEN, Check, Claim, compare
from .reading import Results
from .robustness_methods import Family
from .robustness_scores import Row, Scores, mean
from .robustness_tasks import SCALED, SIZES, TASKS, Task
from .testing import LEVEL, Contrast, contrast, holm, sign_test

SHARE = 0.8  # 8 of 10 tasks


def last(scores: Scores) -> Row:
    """The default at its last weights."""
    return scores.row(m.DEFAULT)


def averaged(scores: Scores) -> Row:
    """The default at averaged weights."""
    return scores.averaged(m.DEFAULT)


def within(among: Sequence[Task], ours: Callable[[Scores], Row] = last) -> Callable[[Results], list[Check]]:
    """On each task, from the worst initial rate: how far inside of what is allowed. Means are compared, not tested."""

    def make(found: Results) -> list[Check]:
        scores = Scores(found)
        checks = []
        for task in scores.tasks(among):
            rates, runs = _ours(scores, ours(scores), task)
            if rates:
                allowed, reference = task.allowed(scores.reference(task)), scores.reference(task)
                slack, rate = min((allowed - mean(runs[rate]), rate) for rate in rates)
                effect = 100 * slack if task.accuracy else slack / reference
                what = f"{task.title}: allowed − reached, from the worst rate ({rate:g})"
                unit = "points" if task.accuracy else "of the loss"
                verdict = HOLDS if slack >= 0 else FAILS
                checks.append(Check(what, effect, count=_count(runs), unit=unit, verdict=verdict))
        return checks

    return make


def _ours(scores: Scores, row: Row, task: Task) -> tuple[list[float], dict[float, list[float]]]:
    runs = {rate: row.costs(task, rate) for rate in scores.rates(task)}
    return [rate for rate, costs in runs.items() if costs], runs


def _count(runs: dict[float, list[float]]) -> str:
    counts = sorted({len(costs) for costs in runs.values()})
    return f"{counts[0]} each" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} each"


def _against_the_best(scores: Scores, row: Row) -> Iterator[tuple[Task, float, list[float], list[float]]]:
    """On each task: the best constant rate, its costs run by run, and ours as means over initial rates."""
    for task in scores.tasks():
        rates, runs = _ours(scores, row, task)
        best = scores.best(task)
        assert best is not None
        ours = [mean(row) for row in zip(*(runs[rate] for rate in rates), strict=False)]
        if ours:
            yield task, best[0], scores.costs(task, m.ADAM, best[0]), ours


def beats_the_best(ours: Callable[[Scores], Row] = last) -> Callable[[Results], list[Check]]:
    """On each task: the mean over initial rates against the best constant rate, run by run."""

    def make(found: Results) -> list[Check]:
        scores, checks = Scores(found), []
        row = ours(scores)
        for task, best, theirs, mine in _against_the_best(scores, row):
            what = f"{task.title}: Adam at {best:g} − {row.name}, the mean over initial rates"
            checks.append(compare(f"{what} (error)" if task.accuracy else what, theirs, mine, percent=task.accuracy))
        return [check for check in checks if not math.isnan(check.effect)]

    return make


def ahead_on_most(ours: Callable[[Scores], Row] = last) -> Callable[[Results], list[Check]]:
    """On how many tasks, means alone, the mean over initial rates is better than the best constant rate."""

    def make(found: Results) -> list[Check]:
        scores = Scores(found)
        row = ours(scores)
        pairs = [(mine, theirs) for _, _, theirs, mine in _against_the_best(scores, row)]
        if not pairs:
            return []
        won, lost = _won_and_lost(pairs)
        what = (
            f"{row.name}, mean over initial rates, better than the best constant: on {won} of {len(pairs)}, less half"
        )
        effect, p = 100 * (won / len(pairs) - 0.5), sign_test(won, lost)
        verdict = OPEN if len(pairs) < len(scores.tasks()) else HOLDS if effect > 0 else FAILS
        return [Check(what, effect, p=p, count=_tasks(len(pairs)), unit="points", verdict=verdict)]

    return make


def _won_and_lost(pairs: Sequence[tuple[list[float], list[float]]]) -> tuple[int, int]:
    won = sum(mean(mine) < mean(theirs) for mine, theirs in pairs)
    return won, sum(mean(mine) > mean(theirs) for mine, theirs in pairs)


def ahead_of_all(ours: Callable[[Scores], Row] = last) -> Callable[[Results], list[Check]]:
    """Against each opponent: the mean over tasks of the logarithm of the ratio of costs."""

    def make(found: Results) -> list[Check]:
        scores = Scores(found)
        row = ours(scores)
        return [_over_tasks(scores, row, other) for other in scores.opponents] if any(scores.places(row)) else []

    return make


def ahead_by_means(ours: Callable[[Scores], Row] = last) -> Callable[[Results], list[Check]]:
    """Against each opponent, means alone: the geometric mean of the ratio of costs, over tasks and initial rates.

    Open as long as the opponent has not been run everywhere.
    """

    def make(found: Results) -> list[Check]:
        scores = Scores(found)
        row = ours(scores)
        if not any(scores.places(row)):
            return []
        wanted = sum(len(scores.rates(task)) for task in scores.tasks())
        return [_by_means(scores, row, other, wanted) for other in scores.opponents]

    return make


def _by_means(scores: Scores, row: Row, other: Row, wanted: int) -> Check:
    logs = [math.log(theirs.cost / mine.cost) for mine, theirs in scores.common(row, other)]
    effect = mean(logs)
    what = f"ln of the cost of {other.name} / {row.name}, mean over places"
    verdict = FAILS if effect <= 0 else HOLDS if len(logs) == wanted or other.name in m.ENDS_ONLY else OPEN
    return Check(what, effect, count=f"{len(logs)} places", verdict=verdict)


def levels(found: Results) -> list[Check]:
    """Two levels against one, and against three."""
    scores = Scores(found)
    rows = [scores.row(family) for family in m.LEVELS]
    return [_over_tasks(scores, scores.row(m.DEFAULT), row) for row in rows if any(scores.places(row))]


def less_sensitive(family: Family) -> Callable[[Results], list[Check]]:
    """Whether a method beats Adam, over tasks and initial rates."""

    def make(found: Results) -> list[Check]:
        scores = Scores(found)
        row = scores.row(family)
        return [_over_tasks(scores, row, scores.row(m.ADAM))] if any(scores.places(row)) else []

    return make


def _over_tasks(scores: Scores, first: Row, second: Row) -> Check:
    """Tasks are what is sampled: a t-test of their differences against zero."""
    found = list(scores.advantage(first, second).values())
    made = contrast([(found, (0.0, 0.0))])
    what = f"ln of the cost of {second.name} / {first.name}, mean over initial rates"
    return Check(what, made.effect, made.low, made.high, made.p, _tasks(len(found)))


def _tasks(count: int) -> str:
    return f"{count} task{'s' * (count != 1)}"


def recommended(ours: Family, rate: float, other: Family, at: float) -> Callable[[Results], list[Check]]:
    """On how many tasks the default at its own lr beats a constant lr that people take; 8 of 10 are wanted."""

    def make(found: Results) -> list[Check]:
        scores = Scores(found)
        pairs = [(scores.costs(task, ours, rate), scores.costs(task, other, at)) for task in TASKS]
        pairs = [(mine, theirs) for mine, theirs in pairs if mine and theirs]
        if not pairs:
            return []
        won, lost = _won_and_lost(pairs)
        what = f"{ours.name} from {rate:g} better than {other.name} at {at:g}: on {won} of {len(pairs)}, less 80 %"
        effect, p = 100 * (won / len(pairs) - SHARE), sign_test(won, lost)
        verdict = HOLDS if effect >= 0 else FAILS
        if len(pairs) < len(scores.tasks()):
            verdict = OPEN  # a few tasks say little of all
        return [Check(what, effect, p=p, count=_tasks(len(pairs)), unit="points", verdict=verdict)]

    return make


def same_at_any_scale(found: Results) -> list[Check]:
    """No significant difference between a scaled loss and the loss itself, from each initial rate.

    A difference in either direction would be a fault. The p-values are corrected for their number here, because a
    verdict that there is no difference is given already.
    """
    scores = Scores(found)
    cells = []
    for task in SCALED:
        plain = next(one for one in TASKS if one.title == task.of)
        for rate in m.ENDS:
            pair = scores.costs(task, m.DEFAULT, rate), scores.costs(plain, m.DEFAULT, rate)
            if min(map(len, pair)) > 1:
                cells.append((task, rate, contrast([pair])))
    corrected = holm([made.p for _, _, made in cells])
    return [_same(task, rate, made, p) for (task, rate, made), p in zip(cells, corrected, strict=True)]


def _same(task: Task, rate: float, made: Contrast, corrected: float) -> Check:
    factor, unit = (100.0, "points") if task.accuracy else (1.0, "")
    return Check(
        f"{task.title}, from {rate:g}: its cost − that of the loss × 1",
        factor * made.effect,
        factor * made.low,
        factor * made.high,
        made.p,
        f"{made.count[0]} + {made.count[1]}",
        unit,
        FAILS if corrected < LEVEL else HOLDS,  # equal numbers are no test, and no difference
    )


CLAIMS = (
    Claim("From any initial rate, every task ends within 0.5 points, or 2 % of the loss, of the best constant rate of "
          "Adam.", "", within(TASKS)),
    Claim("The same at averaged weights.", "", within(TASKS, averaged)),
    Claim("Means alone, it is better than the best constant rate on most tasks.", "", ahead_on_most()),
    Claim("The same at averaged weights.", "", ahead_on_most(averaged)),
    Claim("On most tasks it is better than the best constant rate, beyond chance.", "", beats_the_best(), most=True),
    Claim("The same at averaged weights.", "", beats_the_best(averaged), most=True),
    Claim("Means alone, over tasks and initial rates it is ahead of every opponent.", "", ahead_by_means()),
    Claim("The same at averaged weights.", "", ahead_by_means(averaged)),
    Claim("Over tasks and initial rates it is ahead of every opponent, beyond chance.", "", ahead_of_all()),
    Claim("The same at averaged weights.", "", ahead_of_all(averaged)),
    Claim("From 1e-3 it beats Adam at 1e-3 on 8 of 10 tasks.", "", recommended(m.DEFAULT, 1e-3, m.ADAM, 1e-3)),
    Claim("SGD's default from 0.01 beats SGDN at 0.1 and at 0.01 on 8 of 10 tasks.", "", lambda found: [
        check for at in (0.1, 0.01) for check in recommended(m.SGDN_DEFAULT, 0.01, m.SGDN, at)(found)]),
    Claim("Two levels are better than one and better than three.", "", levels),
    Claim("With the loss scaled by 1e-3 or 1e3 the result is the same, but for noise.", "", same_at_any_scale),
    Claim("Batches of 16 and of 1,024, short and long runs need no other setting.", "", within(SIZES)),
    Claim("HD is much less sensitive to the choice of the initial learning rate than the same algorithm without.",
          "README of Baydin et al.", less_sensitive(m.HD)),
    Claim("That hyper-parameters are tuned does not mean that the performance is sensitive to each of them: with "
          "CAM-HD, the initial rate matters less than without.", "Sec:5.4.1", less_sensitive(m.CAM_HD)),
)  # fmt: skip
