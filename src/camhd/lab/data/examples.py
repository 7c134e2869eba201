"""What a data set is, once it is in memory."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from ..choices import choose_a
from .errors import NeedsPackage

Task: TypeAlias = Literal["classification", "language", "regression"]
TASKS: tuple[Task, ...] = get_args(Task)

_PIECE = 4096  # examples at a time, where a pass over all of them would need a large copy
_BYTES = torch.arange(256)


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs and what they should give; the first dimension of both counts the examples.

    Inputs stay as they were stored, images as bytes: a quarter of the memory of floats, and the bytes are gathered and
    made floats faster than floats are gathered. A batch holds (inputs − mean) / std.

    Args:
        inputs: images (N, channels, height, width), features (N, features) or tokens (N, length).
        targets: classes (N), tokens (N, length) or numbers (N, targets).
        mean: of every channel or feature, in the units of the inputs; None if they are to be used as they are.
        std: the standard deviation, likewise.
    """

    inputs: Tensor
    targets: Tensor
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.targets):
            raise ValueError(
                f"'inputs' and 'targets' must have the same length, but there are {len(self.inputs)} and"
                f" {len(self.targets)}."
            )
        if (self.mean is None) != (self.std is None):
            raise ValueError("'mean' and 'std' go together, but only one of them was given.")
        for name, values in {"mean": self.mean, "std": self.std}.items():
            if values is not None and len(values) != self.inputs.shape[1]:
                raise ValueError(f"'{name}' must have {self.inputs.shape[1]} values, one a channel, got {len(values)}.")

    def __len__(self) -> int:
        return len(self.inputs)

    def select(self, indices: Tensor) -> Examples:
        """The examples with these numbers, in that order; a copy."""
        chosen = indices.to(self.inputs.device)
        return replace(self, inputs=self.inputs.index_select(0, chosen), targets=self.targets.index_select(0, chosen))

    def to(self, device: torch.device | str) -> Examples:
        """The same examples on another device; batches are then made there."""
        return replace(self, inputs=self.inputs.to(device), targets=self.targets.to(device))


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set in memory.

    Args:
        name: as `camhd.lab.data.load` takes it.
        task: "classification", "language" or "regression".
        train: the examples to learn from.
        test: the examples to judge by.
        classes: how many classes, how many different tokens, or how many numbers to predict.
        shape: of one input as the model sees it, such as (1, 28, 28).
        note: what a reader of results must know of this copy of the data; "" if there is nothing to say.
        fingerprint: a hash of everything above that is data: equal contents, equal fingerprint, whatever files they
            came from.
    """

    name: str
    task: Task
    train: Examples
    test: Examples
    classes: int
    shape: tuple[int, ...]
    note: str
    fingerprint: str

    @property
    def mean(self) -> tuple[float, ...] | None:
        """The mean of every channel or feature of the training inputs, in their units."""
        return self.train.mean

    @property
    def std(self) -> tuple[float, ...] | None:
        """The standard deviation of every channel or feature of the training inputs, in their units."""
        return self.train.std

    @property
    def augmentable(self) -> bool:
        """Whether the inputs are images, that is whether `augment` of `Batches` can be used."""
        return self.train.inputs.dim() == 4


def from_tensors(
    name: str,
    train: tuple[Tensor, Tensor],
    test: tuple[Tensor, Tensor],
    *,
    task: Task | None = None,
    classes: int | None = None,
    normalise: bool | None = None,
    note: str = "",
) -> Dataset:
    """A data set of one's own.

    Args:
        name: what the records will call it.
        train: inputs and targets.
        test: inputs and targets.
        task: guessed if not given: floating targets make a regression, targets of the inputs' shape a language.
        classes: counted if not given.
        normalise: whether a batch holds (inputs − mean) / std, with mean and std of every channel or feature of the
            training inputs. By default it does so where the inputs are bytes.
        note: what a reader of results must know.

    >>> images = torch.zeros(6, 1, 4, 4, dtype=torch.uint8)
    >>> labels = torch.tensor([0, 1, 2, 0, 1, 2])
    >>> mine = from_tensors("mine", (images, labels), (images[:3], labels[:3]))
    >>> mine.task, mine.classes, mine.shape, len(mine.train)
    ('classification', 3, (1, 4, 4), 6)
    """
    task = _guess(train) if task is None else task
    choose_a("task", task, TASKS)
    for part, (inputs, targets) in {"train": train, "test": test}.items():
        _check(part, task, inputs, targets)
    if train[0].shape[1:] != test[0].shape[1:]:
        shapes = f"{tuple(train[0].shape[1:])} and {tuple(test[0].shape[1:])}"
        raise ValueError(f"The inputs of 'train' and 'test' must be of one shape, but those are {shapes}.")
    counted = _count(task, [train, test])
    if classes is not None and classes < counted:
        raise ValueError(f"'classes' must be at least {counted}, because that many occur, got {classes}.")
    if normalise is None:
        normalise = train[0].dtype == torch.uint8 and task != "language"
    mean, std = statistics(train[0]) if normalise else (None, None)
    return Dataset(
        name=name,
        task=task,
        train=Examples(*train, mean, std),
        test=Examples(*test, mean, std),
        classes=counted if classes is None else classes,
        shape=tuple(train[0].shape[1:]),
        note=note,
        fingerprint=fingerprint(task, [*train, *test]),
    )


def _guess(train: tuple[Tensor, Tensor]) -> Task:
    inputs, targets = train
    if targets.is_floating_point():
        return "regression"
    return "language" if targets.dim() == 2 and targets.shape == inputs.shape else "classification"


def _check(part: str, task: Task, inputs: Tensor, targets: Tensor) -> None:
    if not len(inputs) or len(inputs) != len(targets):
        raise ValueError(
            f"{part!r} must hold as many targets as inputs, and at least one, but holds {len(inputs)} inputs and"
            f" {len(targets)} targets."
        )
    shapes = f"inputs of {inputs.dtype} {tuple(inputs.shape)} and targets of {targets.dtype} {tuple(targets.shape)}"
    wanted = {
        "classification": (targets.dim() == 1 and not targets.is_floating_point(), "one whole number a target"),
        "language": (
            targets.shape == inputs.shape and not targets.is_floating_point() and not inputs.is_floating_point(),
            "rows of whole numbers for both inputs and targets",
        ),
        "regression": (targets.dim() == 2 and targets.is_floating_point(), "a row of floating-point numbers a target"),
    }
    fits, rule = wanted[task]
    if not fits:
        raise ValueError(f"A task of {task} takes {rule}, but {part!r} has {shapes}.")
    if task != "regression" and int(targets.min()) < 0:
        raise ValueError(f"Targets count from 0, but {part!r} has {int(targets.min())}.")


def _count(task: Task, parts: list[tuple[Tensor, Tensor]]) -> int:
    if task == "regression":
        return parts[0][1].shape[1]
    tokens = [tensor for part in parts for tensor in (part if task == "language" else part[1:])]
    return 1 + max(int(tensor.max()) for tensor in tokens)


def statistics(inputs: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of every channel (dimension 1).

    Bytes are summed as whole numbers, so that the result is exact and does not depend on the number of threads. A
    channel that never varies gets a standard deviation of 1.

    >>> statistics(torch.tensor([[[[0, 2]]], [[[4, 6]]]], dtype=torch.uint8))
    ((3.0,), (2.23606797749979,))
    """
    channels = inputs.shape[1]
    whole = not inputs.is_floating_point()
    total, squares = (torch.zeros(channels, dtype=torch.int64 if whole else torch.float64) for _ in range(2))
    for piece in inputs.split(_PIECE):
        for channel in range(channels):
            values = piece[:, channel].flatten().cpu()
            if inputs.dtype == torch.uint8:  # every value that there is, and how often: much faster than the sums
                often = values.bincount(minlength=256)
                total[channel] += (often * _BYTES).sum()
                squares[channel] += (often * _BYTES * _BYTES).sum()
            else:
                values = values.to(total.dtype)
                total[channel] += values.sum()
                squares[channel] += values.square().sum()
    count = inputs.numel() // channels
    mean = total.double() / count
    variance = (squares.double() / count - mean.square()).clamp(min=0)
    std = variance.sqrt()
    std[std == 0] = 1.0
    return tuple(mean.tolist()), tuple(std.tolist())


def fingerprint(task: Task, tensors: Iterable[Tensor]) -> str:
    """The SHA-256 of the contents, shapes and kinds of these tensors."""
    if importlib.util.find_spec("numpy") is None:
        raise NeedsPackage("A data set", "numpy")
    digest = hashlib.sha256(task.encode())
    for tensor in tensors:
        digest.update(f"|{tensor.dtype}{tuple(tensor.shape)}".encode())
        for piece in tensor.split(_PIECE):
            digest.update(piece.contiguous().cpu().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
