"""Does the default need tuning? Many tasks, every initial learning rate from 1e-6 to 1, and what others do there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from . import robustness_details as details
from . import robustness_methods as m
from . import robustness_sections as sections
from . import robustness_tasks as t
from .grid import Grid, Method
from .plan import Plan
from .robustness_claims import CLAIMS
from .robustness_tasks import Task
from .scale import Change

SEED, TUNING_SEED = 100, 50  # none of those by which the rule was made, and none of the other
EVERY = 50  # steps between two lines of rates


def _grid(name: str, tasks: Sequence[Task], methods: tuple[Method, ...]) -> Grid:
    problems = tuple(task.problem for task in tasks)
    return Grid(name, problems, methods, seeds=5, rates_every=EVERY, first_seed=SEED, paper=False)


# In the order of their importance, which is the order of the runs.
GRIDS = (
    _grid("tasks", t.TASKS, m.methods(*m.FIRST)),
    _grid("peers", t.TASKS, m.methods(*m.PEERS)),
    _grid(
        "scales", t.SCALED, m.methods(replace(m.DEFAULT, rates=m.ENDS), *(replace(one, rates=(1e-2,)) for one in m.SGD))
    ),
    _grid("levels", t.TASKS, m.methods(*m.LEVELS)),
    _grid("sgd", t.TASKS, m.methods(*m.SGD)),
    _grid("sizes", t.SIZES, m.methods(*m.FIRST)),
    _grid("scheduled", t.TASKS, m.methods(*m.SCHEDULED)),
    replace(_grid("tuning", t.TASKS, m.methods(*m.SCHEDULED)), seeds=1, first_seed=TUNING_SEED),
    _grid("rest", t.TASKS, m.methods(*m.REST)),
    _grid("starts", t.TASKS, m.methods(*m.STARTS)),
)

# Sizes at which a run takes 1,000 steps or more, mostly, and seconds on one core. Of a few hundred, a rule that starts
# from anywhere spends many on the way to the right rate.
SMALL = {
    "mnist": "mnist:10000",
    "svhn": "svhn:10000",
    "fashion-mnist": "fashion-mnist:10000",
    "cifar10": "cifar10:10000",
    "FFNN on MNIST, batches of 1,024": "mnist:20000",
    "Deep FFNN on Fashion-MNIST, batches of 1,024": "fashion-mnist:20000",
    "ResNet-8 on CIFAR-10": "cifar10:5000",  # fewer examples, more often: after 300 steps batch norms still lag behind
}
# Half of the examples in a step take half of the time, and as many steps see half as many examples.
LENETS = tuple(task.title for task in t.TASKS if task.problem.model == "lenet5")
SHORT = {
    "Logistic regression on MNIST": 10,
    "FFNN on MNIST": 5,
    **dict.fromkeys(LENETS, 4),
    "Deep FFNN on Fashion-MNIST": 10,
    "Two-layer LSTM on docstrings": 3,
    "ResNet-8 on CIFAR-10": 4,
    "LSTM on text": 5,
    "GRU on text": 3,
    "Transformer on text": 3,
    "FFNN on MNIST, batches of 16": 2,
    "FFNN on MNIST, batches of 1,024": 40,
    "Deep FFNN on Fashion-MNIST, batches of 1,024": 40,
    "LSTM on text, batches of 256": 18,
    "FFNN on MNIST, long": 30,
    "Transformer on text, long": 10,
}
# A few hundred test examples, or a run that ends well or badly by chance, and less than a second: more seeds.
SMALLEST = (t.DIGITS, t.DIABETES, t.QUADRATIC, f"{t.QUADRATIC} with noise")
SEEDS = dict.fromkeys((*SMALLEST, *(task.title for task in t.SCALED if task.of in SMALLEST)), 12)
SEEDS[f"{t.QUADRATIC}, long"] = 6
SHORT |= {task.title: SHORT[task.of] for task in t.SCALED if task.of in SHORT}
CPU = Change(
    seeds=3,
    more_seeds=SEEDS,
    epochs=SHORT,
    batch_size={**dict.fromkeys(LENETS, 32), "ResNet-8 on CIFAR-10": 16},
    data=SMALL,
    models={"resnet8": "resnet8:0.25"},
)

# What ships with scikit-learn, and few methods from few rates.
TWO = (t.DIGITS, t.DIABETES)
FEW = (m.DEFAULT, m.HD, m.SGDN_DEFAULT, m.SGDN, m.ONE_LEVEL, m.THREE_LEVELS)
SMOKE = Change(
    seeds=2,
    epochs={t.DIGITS: 3, t.DIABETES: 5},
    batch_size=dict.fromkeys(TWO, 32),
    problems=TWO,
    methods=[*(family.label(rate) for family in FEW for rate in m.ENDS), *(one.label for one in m.ADAM.methods)],
)
SMOKE_SCALES = replace(
    SMOKE, epochs={"": 3}, batch_size={"": 32}, problems=[task.title for task in t.SCALED if task.of == t.DIGITS]
)
LEFT_OUT = Change(problems=())

PLAN = Plan(
    name="robustness",
    title="Does the default need tuning?",
    about="camhd's default rule and its opponents on many tasks, from initial learning rates of 1e-6 to 1. The paper "
    "has no such experiment.",
    places=(),
    grids=GRIDS,
    cpu={"": CPU, "tuning": replace(CPU, seeds=1, more_seeds={})},
    smoke={
        **{grid.name: LEFT_OUT for grid in GRIDS},
        **dict.fromkeys(("tasks", "peers", "levels", "sgd"), SMOKE),
        "scales": SMOKE_SCALES,
    },
    source="full study",
    sections=(sections.summary, sections.by_task, details.lost, details.levels, details.sizes, details.tasks),
    claims=CLAIMS,
    details=False,
    curves=False,
)
