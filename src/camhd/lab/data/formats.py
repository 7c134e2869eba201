"""How a set of files is read: their names, the folders they usually lie in, and what makes a data set of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from torch import Tensor

from . import cifar, idx, svhn, text
from .errors import DataError

Parts: TypeAlias = tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]
Reader: TypeAlias = Callable[[Mapping[str, bytes], Path, str], Parts]

_IDX = tuple(f"{part}-{what}-ubyte" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1"))


def read_idx(contents: Mapping[str, bytes], place: Path, remedy: str) -> Parts:
    """Training and test set out of four idx files, packed or not."""
    suffix = ".gz" if _IDX[0] not in contents else ""
    parts = []
    for images_name, labels_name in (_IDX[:2], _IDX[2:]):
        images = idx.parse(contents[images_name + suffix], place / (images_name + suffix), 3, remedy)
        labels = idx.parse(contents[labels_name + suffix], place / (labels_name + suffix), 1, remedy)
        if len(images) != len(labels):
            expected = f"{len(images):,} labels, one for each image of {images_name + suffix}"
            raise DataError(place / (labels_name + suffix), expected, f"{len(labels):,}", remedy)
        parts.append((images[:, None], labels.long()))
    return parts[0], parts[1]


@dataclass(frozen=True)
class Format:
    """A set of files.

    Args:
        files: their names.
        folders: where they lie, below the folder of the data set.
        read: what reads images and labels out of them; None for a text.
        unpacked: for an archive, the format of what is in it, which is much faster to read.
    """

    files: tuple[str, ...]
    folders: tuple[str, ...]
    read: Reader | None
    unpacked: str | None = None


FORMATS: Mapping[str, Format] = {
    "idx.gz": Format(tuple(f"{name}.gz" for name in _IDX), ("", "raw"), read_idx),
    "idx": Format(_IDX, ("", "raw"), read_idx),
    "cifar-binary": Format(cifar.BINARY, ("cifar-10-batches-bin", ""), cifar.read_binary),
    "cifar-python": Format(cifar.PYTHON, ("cifar-10-batches-py", ""), cifar.read_python),
    "cifar-binary.tar.gz": Format(("cifar-10-binary.tar.gz",), ("",), cifar.read_binary_archive, "cifar-binary"),
    "cifar-python.tar.gz": Format(("cifar-10-python.tar.gz",), ("",), cifar.read_python_archive, "cifar-python"),
    "svhn": Format(svhn.FILES, ("",), svhn.read),
    "text": Format((text.FILE,), ("",), None),
}

# In which formats a data set comes; where two are complete in one folder, the first is read.
KINDS: Mapping[str, tuple[str, ...]] = {
    "mnist": ("idx.gz", "idx"),
    "fashion-mnist": ("idx.gz", "idx"),
    "cifar10": ("cifar-binary", "cifar-python", "cifar-binary.tar.gz", "cifar-python.tar.gz"),
    "svhn": ("svhn",),
    "text": ("text",),
}
