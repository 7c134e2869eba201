"""Data sets by name."""

from __future__ import annotations

import os
from pathlib import Path

from . import bundled, idx
from .errors import MissingData, choose
from .examples import Dataset, from_tensors

NAMES = ("digits", "mnist", "fashion-mnist", "cifar10", "svhn", "diabetes", "text")


def load(name: str, folder: Path | str | None = None) -> Dataset:
    """The data set of that name, read from `folder`, by default `CAMHD_DATA` or else the user's cache."""
    choose("data set", name, NAMES)
    if name == "digits":
        return bundled.digits()
    place = Path(folder or os.environ.get("CAMHD_DATA") or Path.home() / ".cache" / "camhd") / name
    parts = {}
    for part, prefix in {"train": "train", "test": "t10k"}.items():
        tensors = []
        for kind, dimensions in {"images-idx3": 3, "labels-idx1": 1}.items():
            file = place / f"{prefix}-{kind}-ubyte.gz"
            if not file.is_file():
                raise MissingData(file, "a file", "none", f"Get it: camhd data get {name}")
            tensors.append(idx.parse(file.read_bytes(), file, dimensions, f"Get it again: camhd data get {name}"))
        parts[part] = (tensors[0][:, None], tensors[1].long())
    return from_tensors(name, parts["train"], parts["test"], classes=10)
