"""Numbers in remarks are quoted from the records, so that they stay true when runs are added.

`{difference: ffnn | FFNN(100, 100) | Adam-CAM-HD (2-level) | Adam}` becomes `+0.17 points (n 10 + 10, p 0.012)`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from ..choices import choose, choose_a
from ..plans.claims import Check, number
from ..plans.sections import rate_left
from ..plans.testing import contrast, from_zero
from ..report.curves import finite
from ..report.group import Method
from ..report.text import NOTHING, probability
from .questions import QUESTIONS, Found, agreements, answers

PATTERN = re.compile(r"\{(\w+):([^{}]*)\}")
OVER = re.compile(r" \(mean of \d+\)$")


def filled(text: str, found: Found) -> str:
    """A remark with its numbers.

    Args:
        text: with quotations: a kind of `KINDS`, and after a colon what it wants, with bars between.
        found: what was read of the plans.

    Raises:
        ValueError: There is no such kind, plan, problem, method or comparison, or not as many as the kind wants.
    """
    return PATTERN.sub(lambda match: _quoted(match[1], [part.strip() for part in match[2].split("|")], found), text)


def _quoted(kind: str, parts: list[str], found: Found) -> str:
    make, wanted = KINDS[choose("kind of quotation in remarks.md", kind, KINDS)]
    if len(parts) != len(wanted):
        raise ValueError(
            f"'{kind}' in remarks.md must have {', '.join(wanted)}, with bars between them, "
            f"but got {' | '.join(parts)!r}."
        )
    return make(found, *parts)


def _method(found: Found, plan: str, problem: str, label: str) -> Method:
    """The first of that name, in the order of the plan's grids."""
    results = found[choose_a("plan with records", plan, found)]
    choose_a(f"problem of the plan {plan!r}", problem, dict.fromkeys(title for _, title in results.tasks))
    methods = {
        method.label: method
        for (_, title), task in reversed(results.tasks.items())
        for method in task.methods
        if title == problem
    }
    return methods[choose_a(f"method of {problem!r}", label, methods)]


def _accuracy(found: Found, plan: str, problem: str, label: str) -> str:
    mean = finite(_method(found, plan, problem, label).finals("valid_accuracy")).mean
    return NOTHING if math.isnan(mean) else f"{100 * mean:.2f}"


def _loss(found: Found, plan: str, problem: str, label: str) -> str:
    mean = finite(_method(found, plan, problem, label).finals("valid_loss")).mean
    return NOTHING if math.isnan(mean) else f"{mean:.3f}"


def _difference(found: Found, plan: str, problem: str, *labels: str) -> str:
    first, second = (_method(found, plan, problem, label).finals("valid_accuracy") for label in labels)
    made = contrast([(first, second)])
    return f"{_points(made.effect)} (n {len(first)} + {len(second)}, p {_chance(made.p)})"


def _paired(found: Found, plan: str, problem: str, *labels: str) -> str:
    methods = (_method(found, plan, problem, label) for label in labels)
    first, second = ({run.config["seed"]: run.final["valid_accuracy"] for run in one.counted} for one in methods)
    pairs = [first[seed] - second[seed] for seed in sorted(set(first) & set(second))]
    made = from_zero(pairs)
    least, most = (number(100 * end, "points") for end in (min(pairs, default=math.nan), max(pairs, default=math.nan)))
    return f"{_points(made.effect)} (n {len(pairs)} pairs, {least} … {most}, paired p {_chance(made.p)})"


def _left(found: Found, plan: str, problem: str, label: str) -> str:
    value = rate_left(_method(found, plan, problem, label))
    return NOTHING if math.isnan(value) else f"{value:.2g}"


def _paper(found: Found, plan: str, problem: str, label: str) -> str:
    _method(found, plan, problem, label)
    cells = {(one.plan, one.problem, one.method): one for one in agreements(found)}
    made = cells.get((plan, problem, label))
    return _tested(made.check, made.p) if made else NOTHING


def _answer(found: Found, question: str, what: str) -> str:
    rows = answers(found)[choose_a("question", question, [one.key for one in QUESTIONS])]
    named = {OVER.sub("", row.check.what): row for row in rows}
    row = named[choose_a(f"comparison of the question {question!r}", what, named)]
    return _tested(row.check, row.p)


def _tested(check: Check, corrected: float) -> str:
    if math.isnan(check.effect):
        return NOTHING
    effect = f"{number(check.effect, check.unit)} {check.unit}"
    return f"{effect} (n {check.count}, p {_chance(check.p)}, {_chance(corrected)} corrected)"


def _points(effect: float) -> str:
    return f"{number(100 * effect, 'points')} points"


def _chance(p: float) -> str:
    return probability(p).replace("<", r"\<")


CELL = ("plan", "problem", "method")
PAIR = (*CELL, "method")
KINDS: Mapping[str, tuple[Callable[..., str], tuple[str, ...]]] = {
    "accuracy": (_accuracy, CELL),  # 98.03
    "loss": (_loss, CELL),  # 0.078
    "difference": (_difference, PAIR),  # +0.15 points (n 10 + 10, p 0.0021)
    "paired": (_paired, PAIR),  # +1.00 points (n 5 pairs, +0.70 … +1.27, paired p 0.0007)
    "left": (_left, CELL),  # 0.44: of the initial rate, in the last step
    "paper": (_paper, CELL),  # ours less the paper's: −1.58 points (n 5 + 10, p 0.0061, 0.13 corrected)
    "answer": (_answer, ("question", "comparison")),  # −0.16 points (n 27 + 26, p 0.0017, 0.027 corrected)
}
