"""Test accuracy against the initial combination ratio, with γ fixed and γ trained."""

from __future__ import annotations

from dataclasses import replace

from ..report import Cell, Column, Section, Table
from ..report.curves import finite
from ..report.text import NOTHING, mean_and_error
from .claims import Check, Claim, compare
from .grid import Grid, Method, Problem
from .numbering import said
from .plan import Plan
from .reading import Results
from .scale import Change
from .sections import along
from .testing import contrast

RATIOS = tuple(number / 10 for number in range(11))  # of the global level
FIXED, TRAINED = "γ fixed", "γ trained"
FFNN, LENET, LENET_CIFAR, ADAM18, SGDN18 = (
    "FFNN on MNIST",
    "LeNet-5 on MNIST",
    "LeNet-5 on CIFAR10",
    "ResNet-18 on CIFAR10, Adam",
    "ResNet-18 on CIFAR10, SGDN",
)
CUTOUT = "crop-flip-cutout"


def label(ratio: float, how: str) -> str:
    """What a cell is called."""
    return f"{how}, ratio {ratio:g}"


def _methods(base: str, levels: tuple[str, str], ratios: tuple[float, ...] = RATIOS) -> tuple[Method, ...]:
    found = [Method("baseline", base)]
    for how, options in ((FIXED, {"combine_lr": 0.0}), (TRAINED, {})):
        found += [
            Method(
                label(ratio, how),
                f"{base}-cam-hd-2",
                {"levels": list(levels), "weights": [ratio, round(1 - ratio, 6)], **options},
            )
            for ratio in ratios
        ]
    return tuple(found)


LAYERS, FILTERS = ("global", "layer"), ("global", "filter")
GRIDS = (
    Grid("ffnn", (Problem(FFNN, "ffnn:100,100,100", "mnist", epochs=30),), _methods("adam", LAYERS)),
    Grid("lenet", (Problem(LENET, "lenet5", "mnist", epochs=10),), _methods("adam", FILTERS)),
    Grid("lenet-cifar10", (Problem(LENET_CIFAR, "lenet5", "cifar10", epochs=10),), _methods("adam", FILTERS)),
    Grid(
        "resnet-adam", (Problem(ADAM18, "resnet18", "cifar10", epochs=10, augment=CUTOUT),), _methods("adam", FILTERS)
    ),
    Grid(
        "resnet-sgdn", (Problem(SGDN18, "resnet18", "cifar10", epochs=10, augment=CUTOUT),), _methods("sgdn", FILTERS)
    ),
)


def kept(*ratios: float) -> tuple[str, ...]:
    """The labels of some of the ratios."""
    return ("baseline", *(label(ratio, how) for how in (FIXED, TRAINED) for ratio in ratios))


SIX = kept(0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SMALL = Change(
    seeds=3,
    models={"resnet18": "resnet18:0.125"},
    data={"cifar10": "cifar10:10000"},
    batch_size={"": 128},  # with the paper's there would be too few steps for any rate to move
    methods=SIX,
    dtype="bfloat16",
)
TINY = Change(
    seeds=2,
    epochs={"": 1},
    batch_size={LENET: 128, LENET_CIFAR: 64, ADAM18: 256, SGDN18: 256},
    data={"mnist": "digits:32x32", "cifar10": "digits:32x32"},
    methods=kept(0.0, 0.5, 1.0),
)
TINY_RESNET = replace(TINY, data={"cifar10": "digits"}, models={"resnet18": "resnet18:0.0625"}, augment=False)


def finals(found: Results, grid: Grid, how: str) -> dict[float, list[float]]:
    """Final accuracies by ratio, where there are any."""
    (problem,) = grid.problems
    values = {ratio: found.finals(grid.name, problem.title, label(ratio, how)) for ratio in RATIOS}
    return {ratio: own for ratio, own in values.items() if own}


def _charts(found: Results) -> Section | None:
    """A panel and a table for every problem that has runs."""
    charts, tables = [], []
    for grid in found.grids:
        (problem,) = grid.problems
        lines = {how: list(finals(found, grid, how).items()) for how in (FIXED, TRAINED)}
        base = found.finals(grid.name, problem.title, "baseline")
        if base or any(lines.values()):
            lines["baseline"] = [(0.0, base), (1.0, base)]
            charts.append(along(problem.title, "ratio of the global level", lines))
            tables.append(_table(found, grid))
    text = "Test accuracy after the last epoch: mean over runs, with a band of one standard error to either side."
    title = f"Accuracy against the initial combination ratio: {said('Fig:1')}"
    return Section(title, (text,), tables, charts) if charts else None


def _table(found: Results, grid: Grid) -> Table:
    (problem,) = grid.problems
    columns = [Column("ratio", "Ratio of the global level", numeric=False)]
    columns += [Column(how, f"{how}, %", "Mean ± standard error over runs (n).") for how in (FIXED, TRAINED)]
    by_ratio = [finals(found, grid, how) for how in (FIXED, TRAINED)]
    rows = [
        [Cell(f"{ratio:g}"), *(_cell(own.get(ratio, [])) for own in by_ratio)]
        for ratio in RATIOS
        if any(ratio in own for own in by_ratio)
    ]
    rows.append([Cell("baseline"), _cell(found.finals(grid.name, problem.title, "baseline")), Cell(NOTHING)])
    note = "Test accuracy after the last epoch: mean ± standard error over runs (n). The paper shows a figure only."
    return Table(problem.title, columns, rows, note)


def _cell(values: list[float]) -> Cell:
    made = finite(values)
    return Cell(f"{mean_and_error(made, percent=True)} ({len(values)})" if made.count else NOTHING, made.mean)


def _inside_is_best(found: Results) -> list[Check]:
    """The best ratio inside against each end. It was picked, so its p-value is corrected for the number inside."""
    tests = []
    for grid in found.grids:
        for how in (FIXED, TRAINED):
            own = finals(found, grid, how)
            inside = [ratio for ratio in own if 0 < ratio < 1]
            if not inside or not {0.0, 1.0} <= set(own):
                continue
            best = max(inside, key=lambda ratio: sum(own[ratio]) / len(own[ratio]))
            end = max((0.0, 1.0), key=lambda ratio: sum(own[ratio]) / len(own[ratio]))
            what = f"{grid.problems[0].title}, {how}: best inside ({best:g}) − better end ({end:g})"
            made = compare(what, own[best], own[end], percent=True)
            tests.append(replace(made, p=min(1.0, made.p * len(inside))))
    return tests


def _better_than_baseline(found: Results) -> list[Check]:
    return [
        compare(
            f"{grid.problems[0].title}, {label(ratio, how)} − baseline",
            values,
            found.finals(grid.name, grid.problems[0].title, "baseline"),
            percent=True,
        )
        for grid in found.grids
        for how in (FIXED, TRAINED)
        for ratio, values in finals(found, grid, how).items()
    ]


def _trained_is_better(found: Results) -> list[Check]:
    """For each panel, the mean difference over all ratios: one test with the ratios as strata."""
    tests = []
    for grid in found.grids:
        fixed, trained = finals(found, grid, FIXED), finals(found, grid, TRAINED)
        pairs = [(trained[ratio], fixed[ratio]) for ratio in trained if ratio in fixed]
        made = contrast(pairs)
        what = f"{grid.problems[0].title}: γ trained − γ fixed, mean over {len(pairs)} ratios"
        count = f"{made.count[0]} + {made.count[1]}"
        tests.append(Check(what, 100 * made.effect, 100 * made.low, 100 * made.high, made.p, count, "points"))
    return tests


PLAN = Plan(
    name="ratio",
    title="Initial combination ratio and test accuracy",
    about="Two levels, from the ratio 0 (all layers or filters) to 1 (all global), with the weights γ fixed and "
    "trained.",
    places=("Sec:5.4.2", "Fig:1"),
    grids=GRIDS,
    cpu={
        "": Change(seeds=5),
        "lenet": Change(seeds=5, methods=SIX),
        "lenet-cifar10": Change(seeds=5, methods=SIX),
        "resnet-adam": SMALL,
        "resnet-sgdn": SMALL,
    },
    smoke={
        "": TINY,
        "ffnn": Change(
            seeds=2,
            epochs={"": 4},
            models={"ffnn:100,100,100": "ffnn:32,32,32"},
            data={"mnist": "digits"},
            methods=kept(0.0, 0.2, 0.5, 0.8, 1.0),
        ),
        "resnet-adam": TINY_RESNET,
        "resnet-sgdn": TINY_RESNET,
    },
    silent=(
        "The paper does not say on which of its two data sets LeNet-5 was trained here; it is done on both.",
        "The ratios are read off its figure's description, 'the ratio of global-level adaptive learning rates': 0, "
        "0.1, …, 1.",
        "Its table of hyper-parameters has no row for the network (100, 100, 100); that of the two larger networks is "
        "taken.",
    ),
    sections=(_charts,),
    claims=(
        Claim(
            "Usually the optimal performance is neither at full global level nor full layer/filter level, but a "
            "weighted combination of two levels, for both update and no-update cases.",
            "Sec:5.4.2",
            _inside_is_best,
            most=True,
        ),
        Claim(
            "CAM-HD methods outperform baseline Adam/SGDN methods for most of the combination ratios initializations.",
            "Sec:5.4.2",
            _better_than_baseline,
            most=True,
        ),
        Claim(
            "Updating of combination weights is effective and helpful in achieving better performance than applying "
            "fixed combination weights.",
            "Sec:5.4.2",
            _trained_is_better,
        ),
    ),
    curves=False,
)
