"""Networks by name: `ffnn:100,100` is a feed-forward network with two hidden layers of 100."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import nn

from ..choices import choose
from .ffnn import ffnn, logistic
from .lenet import lenet5
from .recurrent import gru, lstm
from .resnet import resnet8, resnet18, resnet34
from .transformer import TransformerShape, transformer

Build = Callable[[], nn.Module]


@dataclass(frozen=True)
class Problem:
    """What a network has to fit.

    Args:
        shape: of one input, as a data set gives it: (1, 28, 28), (10,), or (length,) for text.
        classes: classes, or the size of the vocabulary, or the number of values of a regression.
        task: "classification", "regression" or "language".
    """

    shape: tuple[int, ...]
    classes: int
    task: str


@dataclass(frozen=True)
class Kind:
    """A kind of network in the catalog."""

    usage: str  # its name, and which numbers may follow
    about: str
    make: Callable[[str, tuple[float, ...], Problem], Build]


def find(name: str, shape: tuple[int, ...], classes: int, task: str = "classification") -> Build:
    """What builds the network of that name for inputs of that shape; everything is checked here, nothing built yet.

    Args:
        name: one of `NAMES`, with its numbers after a colon.
        shape: of one input: (1, 28, 28), (10,), or (length,) for text.
        classes: classes, or the size of the vocabulary, or the number of values of a regression.
        task: "classification", "regression" or "language".

    >>> build = find("ffnn:100,100", (1, 28, 28), 10)
    >>> sum(p.numel() for p in build().parameters())
    89610
    """
    kind, numbers = _parse(name)
    return KINDS[kind].make(name, numbers, Problem(tuple(shape), classes, task))


def describe() -> dict[str, str]:
    """How each network is asked for, and what it is."""
    return {kind.usage: kind.about for kind in KINDS.values()}


def _parse(name: str) -> tuple[str, tuple[float, ...]]:
    """`ffnn:100,50` is the kind `ffnn` and the numbers 100 and 50."""
    kind, colon, rest = name.strip().lower().partition(":")
    choose("model", kind, NAMES)
    try:
        numbers = tuple(float(text) for text in rest.split(",")) if colon else ()
    except ValueError:
        raise ValueError(f"'model' {name!r} must be of the form {KINDS[kind].usage}, with numbers.") from None
    if any(not 0 < number < math.inf for number in numbers):
        raise ValueError(f"'model' {name!r} must have numbers above zero only.")
    return kind, numbers


def _whole(name: str, numbers: tuple[float, ...], most: int | None = None) -> tuple[int, ...]:
    """Whole numbers, and not more of them than the kind of network takes."""
    if any(number != int(number) for number in numbers):
        raise ValueError(f"'model' {name!r} must have whole numbers, such as {KINDS[_parse(name)[0]].usage}.")
    _at_most(name, numbers, most)
    return tuple(int(number) for number in numbers)


def _at_most(name: str, numbers: tuple[float, ...], most: int | None) -> None:
    if most is not None and len(numbers) > most:
        usage = KINDS[_parse(name)[0]].usage
        raise ValueError(f"'model' {name!r} has {len(numbers)} numbers, but the form is {usage}.")


def _needs(name: str, problem: Problem, images: bool = False, text: bool = False) -> None:
    """A misfit is told with what would fit."""
    if text and problem.task != "language":
        raise ValueError(
            f"'model' {name!r} reads text, but the task is {problem.task}; take ffnn, or the data set 'text'."
        )
    if not text and problem.task == "language":
        raise ValueError(
            f"'model' {name!r} cannot read text; take lstm, gru or transformer, or a data set of another kind."
        )
    if images and len(problem.shape) != 3:
        raise ValueError(
            f"'model' {name!r} takes images (channels, height, width), but one input has the shape {problem.shape}; "
            "take ffnn or logistic."
        )


def _ffnn(name: str, numbers: tuple[float, ...], problem: Problem) -> Build:
    _needs(name, problem)
    hidden = _whole(name, numbers) or (100, 100)
    return partial(ffnn, hidden, math.prod(problem.shape), problem.classes)


def _logistic(name: str, numbers: tuple[float, ...], problem: Problem) -> Build:
    _needs(name, problem)
    _at_most(name, numbers, 0)
    return partial(logistic, math.prod(problem.shape), problem.classes)


def _lenet5(name: str, numbers: tuple[float, ...], problem: Problem) -> Build:
    _needs(name, problem, images=True)
    _at_most(name, numbers, 0)
    channels, height, width = problem.shape
    if (height, width) not in ((28, 28), (32, 32)):
        raise ValueError(
            f"'model' 'lenet5' takes images of 28 × 28 or 32 × 32, but these are {height} × {width}; "
            "take ffnn or resnet18:0.25, or a data set such as mnist."
        )
    return partial(lenet5, channels, problem.classes)


def _resnet(
    build: Callable[[int, float, int], nn.Module], name: str, numbers: tuple[float, ...], problem: Problem
) -> Build:
    _needs(name, problem, images=True)
    _at_most(name, numbers, 1)
    (width,) = numbers or (1.0,)
    return partial(build, problem.classes, width, problem.shape[0])


def _recurrent(
    build: Callable[[int, int, int], nn.Module], name: str, numbers: tuple[float, ...], problem: Problem
) -> Build:
    _needs(name, problem, text=True)
    width, depth = (*_whole(name, numbers, 2), *(128, 1)[len(numbers) :])
    return partial(build, problem.classes, width, depth)


def _transformer(name: str, numbers: tuple[float, ...], problem: Problem) -> Build:
    _needs(name, problem, text=True)
    width, depth, heads = (*_whole(name, numbers, 3), *(64, 2, 4)[len(numbers) :])
    if width % heads:
        raise ValueError(f"'model' {name!r}: the width {width} must be a multiple of the number of heads, {heads}.")
    return partial(transformer, TransformerShape(width, depth, heads, problem.classes, problem.shape[0]))


KINDS = {
    "ffnn": Kind("ffnn[:sizes]", "feed-forward, hidden layers 100,100 unless sizes are given", _ffnn),
    "logistic": Kind("logistic", "no hidden layer: logistic or linear regression", _logistic),
    "lenet5": Kind("lenet5", "LeNet-5 for images of 28 × 28 or 32 × 32", _lenet5),
    "resnet8": Kind("resnet8[:width]", "ResNet-8 for small images", partial(_resnet, resnet8)),
    "resnet18": Kind("resnet18[:width]", "ResNet-18 for small images", partial(_resnet, resnet18)),
    "resnet34": Kind("resnet34[:width]", "ResNet-34 for small images", partial(_resnet, resnet34)),
    "lstm": Kind("lstm[:width[,depth]]", "LSTM character model, 128,1", partial(_recurrent, lstm)),
    "gru": Kind("gru[:width[,depth]]", "GRU character model, 128,1", partial(_recurrent, gru)),
    "transformer": Kind("transformer[:width[,depth[,heads]]]", "decoder-only transformer, 64,2,4", _transformer),
}
NAMES = tuple(KINDS)
