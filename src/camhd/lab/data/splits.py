"""Which examples to learn from and which to judge by."""

from __future__ import annotations

import re

import torch
from torch import Tensor

from .examples import Dataset, Examples


def split(dataset: Dataset, how: str = "full", seed: int = 0) -> tuple[Examples, Examples]:
    """The examples to learn from and those to judge by.

    | `how` | learn from | judge by |
    |---|---|---|
    | "full" | the training set | the test set |
    | "fold:2/5" | the other four folds of the training set | the second of five folds |
    | "fraction:0.1" | the rest of the training set | a tenth of it, held out |

    Folds and fractions never touch the test set. They are stratified for a classification, that is every class is
    spread evenly; random for a regression; and stretches of the text for a language, so that hardly any window is
    judged whose neighbours were learned. The same seed gives the same division on every machine.

    >>> from camhd.lab import data
    >>> train, valid = data.split(data.load("digits"), "fold:2/5")
    >>> len(train), len(valid)
    (1149, 288)
    """
    if how == "full":
        return dataset.train, dataset.test
    count = len(dataset.train)
    held = torch.zeros(count, dtype=torch.bool)
    held[_order(dataset, seed)[held_out(how, count, stretch=dataset.task == "language")]] = True
    return dataset.train.select((~held).nonzero().flatten()), dataset.train.select(held.nonzero().flatten())


def held_out(how: str, count: int, stretch: bool) -> Tensor:
    """Which of `count` places are held out: a stretch of them, or places spread evenly.

    >>> held_out("fold:2/5", 10, stretch=True), held_out("fold:2/5", 10, stretch=False)
    (tensor([2, 3]), tensor([1, 6]))
    >>> held_out("fraction:0.2", 10, stretch=True), held_out("fraction:0.2", 10, stretch=False)
    (tensor([8, 9]), tensor([4, 9]))
    """
    place = torch.arange(count)
    if fold := re.fullmatch(r"fold:(\d+)/(\d+)", how):
        number, folds = int(fold[1]), int(fold[2])
        if not (2 <= folds <= count and 1 <= number <= folds):
            raise ValueError(f"'split' must be fold:1/k to fold:k/k with k from 2 to {count}, got {how!r}.")
        if stretch:
            return place[count * (number - 1) // folds : count * number // folds]
        return place[number - 1 :: folds]
    if fraction := re.fullmatch(r"fraction:(\d*\.?\d+)", how):
        wanted = round(float(fraction[1]) * count)
        if not 0 < wanted < count:
            raise ValueError(f"'split' must leave at least one of {count} examples on either side, got {how!r}.")
        return place[-wanted:] if stretch else place[(place + 1) * wanted // count > place * wanted // count]
    raise ValueError(
        f"'split' must be full, fold:i/k such as fold:1/5, or fraction:f such as fraction:0.1, got {how!r}."
    )


def _order(dataset: Dataset, seed: int) -> Tensor:
    """An order in which places spread evenly look like the whole: mixed, and then class by class."""
    from numpy.random import MT19937, RandomState, SeedSequence  # torch does not promise the same numbers for ever

    count = len(dataset.train)
    if dataset.task == "language":
        return torch.arange(count)
    if seed < 0:
        raise ValueError(f"'seed' must be 0 or more, got {seed}.")
    order = torch.from_numpy(RandomState(MT19937(SeedSequence(seed))).permutation(count))
    if dataset.task == "regression":
        return order
    return order[dataset.train.targets.cpu()[order].argsort(stable=True)]
