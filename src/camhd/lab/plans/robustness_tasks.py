"""The tasks of the study of robustness, how each is judged, and what knowing nothing costs there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from .grid import Problem

CHANCE = 0.9  # the error of guessing one of ten classes
CHARACTERS = math.log(100)  # the loss of guessing one of about a hundred characters, in nats
SPREAD = 3.5  # the loss of the quadratics at weights of zero
POINTS = 0.005  # half a point of accuracy
PART = 0.02  # of a loss


@dataclass(frozen=True)
class Task:
    """A problem, and how a run on it is judged: by its cost, the test error or the test loss.

    Args:
        problem: what is trained.
        metric: what its records say: "valid_accuracy" or "valid_loss".
        nothing: the cost of knowing nothing; a run that diverged, or ended above it, has this cost.
        floor: added to a loss that can reach zero, so that ratios mean something.
        fresh: whether it was held out, that is no constant of the rule was chosen by looking at it.
        of: the title of the task that this one differs from in the scale of the loss alone.
    """

    problem: Problem
    metric: str
    nothing: float
    floor: float = 0.0
    fresh: bool = False
    of: str = ""

    @property
    def title(self) -> str:
        """Of its problem."""
        return self.problem.title

    @property
    def accuracy(self) -> bool:
        """Whether it is judged by an accuracy, not a loss."""
        return self.metric == "valid_accuracy"

    @property
    def averaged_metric(self) -> str:
        """What its records say of averaged weights, if the optimizer has any."""
        return self.metric.replace("valid_", "averaged_")

    def cost(self, value: float) -> float:
        """The cost of a run whose metric ended there."""
        cost = 1 - value if self.accuracy else value + self.floor
        return cost if cost < self.nothing + self.floor else self.nothing + self.floor  # nan too

    def allowed(self, reference: float) -> float:
        """The most that still counts as equal to a reference: half a point more, or 2 % of the loss."""
        return reference + POINTS if self.accuracy else (1 + PART) * reference

    def shown(self, cost: float) -> str:
        """A cost for people: the accuracy in percent, or the loss."""
        return f"{100 * (1 - cost):.2f}" if self.accuracy else f"{cost - self.floor:.4g}"


def _images(title: str, model: str, data: str, epochs: int, batch_size: int, fresh: bool = False) -> Task:
    return Task(Problem(title, model, data, epochs, batch_size), "valid_accuracy", CHANCE, fresh=fresh)


def _text(title: str, model: str, data: str, epochs: int, batch_size: int, fresh: bool = False) -> Task:
    return Task(Problem(title, model, data, epochs, batch_size), "valid_loss", CHARACTERS, fresh=fresh)


def _quadratic(title: str, data: str, epochs: int, batch_size: int) -> Task:
    return Task(Problem(title, "logistic", data, epochs, batch_size), "valid_loss", SPREAD, floor=1e-3 * SPREAD)


DEEP = "ffnn:64,64,64,64,64,64,64,64"
DIGITS, DIABETES, FFNN, LSTM = "FFNN on digits", "FFNN on diabetes", "FFNN on MNIST", "LSTM on text"
QUADRATIC = "Quadratic"
TASKS = (
    _images("Logistic regression on MNIST", "logistic", "mnist", 10, 64),
    _images(FFNN, "ffnn:100,100", "mnist", 10, 32),
    _images(DIGITS, "ffnn:64", "digits", 15, 16),
    _images("LeNet-5 on MNIST", "lenet5", "mnist", 10, 64),
    _images("LeNet-5 on CIFAR-10", "lenet5", "cifar10", 10, 64),
    _images("LeNet-5 on SVHN", "lenet5", "svhn", 10, 64, fresh=True),
    _images("LeNet-5 on Fashion-MNIST", "lenet5", "fashion-mnist", 10, 64, fresh=True),
    _images("Deep FFNN on Fashion-MNIST", DEEP, "fashion-mnist", 10, 64, fresh=True),
    _text("Two-layer LSTM on docstrings", "lstm:64,2", "docstrings:32", 5, 32, fresh=True),
    _images("ResNet-8 on CIFAR-10", "resnet8", "cifar10", 10, 32),
    _text(LSTM, "lstm:64", "text:32", 10, 32),
    _text("GRU on text", "gru:48", "text:32", 10, 32),
    _text("Transformer on text", "transformer:32,2,4", "text:32", 10, 16),
    Task(Problem(DIABETES, "ffnn:32", "diabetes", 20, 16), "valid_loss", 1.0),
    _quadratic(QUADRATIC, "quadratic", 500, 256),
    _quadratic(f"{QUADRATIC} with noise", "noisy-quadratic", 4, 16),
)
BY_TITLE: Mapping[str, Task] = {task.title: task for task in TASKS}

# Other sizes of batches and other lengths of runs, judged as tasks of their own.
SIZES = (
    _images("FFNN on MNIST, batches of 16", "ffnn:100,100", "mnist", 5, 16),
    _images("FFNN on MNIST, batches of 1,024", "ffnn:100,100", "mnist", 30, 1024),
    _images("Deep FFNN on Fashion-MNIST, batches of 1,024", DEEP, "fashion-mnist", 30, 1024, fresh=True),
    _text("LSTM on text, batches of 256", "lstm:64", "text:32", 30, 256),
    _images("FFNN on MNIST, short", "ffnn:100,100", "mnist:10000", 1, 64),
    _images("FFNN on MNIST, long", "ffnn:100,100", "mnist", 30, 32),
    _text("Transformer on text, long", "transformer:32,2,4", "text:32", 50, 16),
    _quadratic(f"{QUADRATIC}, long", "quadratic", 1500, 256),
)

SCALES = (1e-3, 1e3)  # of the loss


def scaled(task: Task, scale: float) -> Task:
    """The same task with a factor on the loss that is trained on; the loss that it is judged by has none."""
    title = f"{task.title}, loss × {scale:g}"
    return replace(task, problem=replace(task.problem, title=title, loss_scale=scale), of=task.title)


SCALED = tuple(scaled(BY_TITLE[title], scale) for title in (DIGITS, DIABETES, FFNN, LSTM) for scale in SCALES)
ALL: Mapping[str, Task] = {task.title: task for task in (*TASKS, *SIZES, *SCALED)}
