"""Data sets that come with a package: nothing to download."""

from __future__ import annotations

from .errors import NeedsPackage
from .examples import Dataset, from_tensors


def digits() -> Dataset:
    """1,797 images of 8 × 8 that ship with scikit-learn.

    They come in the order of the people who wrote them. The first 1,437 are the training set and the last 360 the test
    set, so the test asks about hands that were not seen.
    """
    import torch

    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        raise NeedsPackage("The data set 'digits'", "scikit-learn") from None
    read = load_digits()
    images = torch.from_numpy(read.images).to(torch.uint8)[:, None]
    labels = torch.from_numpy(read.target).long()
    return from_tensors("digits", (images[:1437], labels[:1437]), (images[1437:], labels[1437:]), classes=10)
