"""Ill-conditioned quadratics as data sets of a linear regression: exact numbers, the same on every machine.

The inputs are X = H diag(s) R with H orthogonal columns of ±1, s = 1, ½, …, 2⁻⁷ (each eight times) and R a rotation,
both Hadamard matrices. So XᵀX / N = Rᵀ diag(s²) R: the mean squared error of a linear model is a rotated quadratic with
the condition number 4⁷ = 16,384. Every entry is a sum of few powers of two, and no rounding occurs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .examples import Dataset, from_tensors

COLUMNS, SCALES = 64, 8
ROWS, MANY_ROWS = 256, 4096
_SEED = 8


def quadratic() -> Dataset:
    """A quadratic without noise, if the batch holds all 256 examples; the test set is the training set.

    >>> made = quadratic()
    >>> inputs = made.train.inputs.double()
    >>> eigenvalues = torch.linalg.eigvalsh(inputs.T @ inputs / len(inputs))
    >>> round(float(eigenvalues.max() / eigenvalues.min()))
    16384
    """
    inputs, targets = _regression(ROWS)
    return from_tensors("quadratic", (inputs, targets), (inputs.clone(), targets.clone()), normalise=False)


def noisy_quadratic() -> Dataset:
    """The same quadratic with noise on the targets of 4,096 examples; those of the test set have none.

    So the loss on the test set is zero at the minimum of the quadratic, and what is above that is left of the way
    there and of the noise. The noise is uniform between −√3/2 and √3/2, nearly: its standard deviation is ½.

    >>> made = noisy_quadratic()
    >>> round(float((made.train.targets - made.test.targets).std()), 2)
    0.5
    """
    inputs, targets = _regression(MANY_ROWS)
    steps = torch.from_numpy(_random().randint(-887, 888, (MANY_ROWS, 1)))  # whole numbers: exact on every machine
    noisy = targets + steps.float() / 1024
    return from_tensors("noisy-quadratic", (inputs, noisy), (inputs.clone(), targets), normalise=False)


def _regression(rows: int) -> tuple[Tensor, Tensor]:
    """Inputs, and the outputs of weights of −1, −½, ½ or 1."""
    columns = _signs(rows, COLUMNS + 1)[:, 1:]  # without the column of ones, which is the bias
    scales = 0.5 ** torch.arange(SCALES, dtype=torch.float64).repeat_interleave(COLUMNS // SCALES)
    inputs = (columns * scales) @ (_signs(COLUMNS, COLUMNS) / COLUMNS**0.5)
    drawn = torch.tensor([-1.0, -0.5, 0.5, 1.0], dtype=torch.float64)
    weights = drawn[torch.from_numpy(_random().randint(0, 4, COLUMNS))]
    return inputs.float(), (inputs @ weights)[:, None].float()


def _signs(rows: int, columns: int) -> Tensor:
    """The first columns of Sylvester's matrix of ±1, which are orthogonal; `rows` is a power of two.

    >>> _signs(4, 2).tolist()
    [[1.0, 1.0], [1.0, -1.0], [1.0, 1.0], [1.0, -1.0]]
    """
    common = torch.arange(rows)[:, None] & torch.arange(columns)
    odd = torch.zeros_like(common)
    while common.any():
        odd ^= common & 1
        common >>= 1
    return 1.0 - 2.0 * odd.double()


def _random() -> Any:
    from numpy.random import MT19937, RandomState, SeedSequence  # torch does not promise the same numbers for ever

    return RandomState(MT19937(SeedSequence(_SEED)))
