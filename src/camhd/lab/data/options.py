"""What may follow a data set's name after a colon: a part of it, or another size of its images."""

from __future__ import annotations

import re
from dataclasses import replace

from torch import Tensor

from .examples import Dataset, from_tensors

TEXTS = ("text", "docstrings")
WHOLE = ("diabetes", "quadratic", "noisy-quadratic")  # of which no part can be had


def check(name: str, plain: str, option: str, examples: int | None) -> None:
    """Refuse an option that there is not; `examples` are those of the training set, None if nobody knows."""
    if plain in TEXTS and option.isdecimal():
        return
    if plain == "digits" and (size := re.fullmatch(r"(\d+)x(\d+)", option)):
        height, width = int(size[1]), int(size[2])
        if height == width and height and height % 8 == 0:
            return
        raise ValueError(f"{name!r}: the option must be as wide as high and a multiple of 8, as in digits:32x32.")
    if plain not in (*TEXTS, *WHOLE) and option.isdecimal() and 0 < int(option) <= (examples or int(option)):
        return
    raise ValueError(
        f"{name!r} has an option that there is not. There are mnist:6000, the first 6,000 of the training images (as "
        "many as there are, at most); digits:32x32, every pixel a square; and text:128, the length of its windows."
    )


def apply(dataset: Dataset, option: str) -> Dataset:
    """The data set that its name with this option stands for; the test set stays whole.

    >>> from .bundled import digits
    >>> apply(digits(), "32x32").shape, len(apply(digits(), "100").train)
    ((1, 32, 32), 100)
    """
    name = f"{dataset.name}:{option}"
    train, test = ((part.inputs, part.targets) for part in (dataset.train, dataset.test))
    if "x" in option:
        factor = int(option.partition("x")[0]) // dataset.shape[-1]
        train, test = (_enlarged(train[0], factor), train[1]), (_enlarged(test[0], factor), test[1])
    else:
        count = int(option)
        if count > len(train[0]):
            raise ValueError(f"{name!r} asks for more than the {len(train[0]):,} training images of {dataset.name!r}.")
        train = train[0][:count].clone(), train[1][:count].clone()
    made = from_tensors(name, train, test, classes=dataset.classes, note=dataset.note)
    return replace(made, task=dataset.task)


def _enlarged(images: Tensor, factor: int) -> Tensor:
    return images.repeat_interleave(factor, dim=2).repeat_interleave(factor, dim=3)
