"""Data sets that come inside scikit-learn: nothing to download.

Their files are read directly, because importing scikit-learn takes longer than training on them for an epoch. The
numbers that were read are compared with those that are known, so a damaged installation is noticed; how they are packed
has changed from version to version and does not matter.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import struct
import zlib
from pathlib import Path

import torch
from torch import Tensor

from .errors import DataError, MissingData, NeedsPackage
from .examples import Dataset, from_tensors, statistics

# The SHA-256 of the numbers of each file, as little-endian single precision.
_KNOWN = {
    "digits.csv.gz": "26285be35f630dda601bc1138f791afa5f8f5d5b0fccf612cdb28fe1f83bb4c5",
    "diabetes_data_raw.csv.gz": "364d6af10d06ac7ee663808f0facd92f57b939758169b67fb3e5c2b95521bbd5",
    "diabetes_target.csv.gz": "64c6aa6f4027afaed70d85b069db7079ab90ff693fe67e65c9550c8454b8f2af",
}
_REMEDY = "Repair the installation: pip install --force-reinstall --no-deps scikit-learn"


def digits() -> Dataset:
    """1,797 images of 8 × 8.

    They come in the order of the people who wrote them. The first 1,437 are the training set and the last 360 the test
    set, so the test asks about hands that were not seen.

    >>> made = digits()
    >>> made.shape, len(made.train), len(made.test)
    ((1, 8, 8), 1437, 360)
    """
    table = _table("digits", "digits.csv.gz", ",")
    images, labels = table[:, :64].to(torch.uint8).view(-1, 1, 8, 8), table[:, 64].long()
    return from_tensors("digits", (images[:1437], labels[:1437]), (images[1437:], labels[1437:]), classes=10)


def diabetes() -> Dataset:
    """442 patients, ten measurements each, and how far the disease had gone on a year later.

    The first 353 are the training set and the last 89 the test set. The number to predict is standardised, with mean
    and standard deviation of the training set.

    >>> made = diabetes()
    >>> made.shape, made.task, len(made.train), len(made.test)
    ((10,), 'regression', 353, 89)
    """
    inputs = _table("diabetes", "diabetes_data_raw.csv.gz", None)
    outcome = _table("diabetes", "diabetes_target.csv.gz", None).double()
    (mean,), (std,) = statistics(outcome[:353].long())  # whole numbers: exact, and the same on every machine
    targets = ((outcome - mean) / std).float()
    return from_tensors("diabetes", (inputs[:353], targets[:353]), (inputs[353:], targets[353:]), normalise=True)


def _table(name: str, file_name: str, separator: str | None) -> Tensor:
    spec = importlib.util.find_spec("sklearn")
    if spec is None or not spec.submodule_search_locations:
        raise NeedsPackage(f"The data set {name!r}", "scikit-learn")
    file = Path(spec.submodule_search_locations[0]) / "datasets" / "data" / file_name
    try:
        lines = gzip.decompress(file.read_bytes()).decode("ascii").splitlines()
        rows = [[float(number) for number in line.split(separator)] for line in lines]
        packed = b"".join(struct.pack(f"<{len(row)}f", *row) for row in rows)
    except FileNotFoundError:
        raise MissingData(file, "a file of scikit-learn", "no such file", _REMEDY) from None
    except (OSError, EOFError, zlib.error, ValueError, struct.error, OverflowError) as error:
        raise DataError(file, "a packed table of numbers", f"a damaged one ({error})", _REMEDY) from None
    digest = hashlib.sha256(packed).hexdigest()
    if digest != _KNOWN[file_name]:
        expected = f"a table of numbers with sha256 {_KNOWN[file_name]}"
        raise DataError(file, expected, f"one with {digest}", _REMEDY)
    return torch.tensor(rows, dtype=torch.float32)
