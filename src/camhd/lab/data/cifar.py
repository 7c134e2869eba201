"""CIFAR-10 as it is published: six batches, binary or pickled, in a folder or in an archive."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

from . import archives, pickles
from .errors import DataError

Part: TypeAlias = tuple[Tensor, Tensor]

BINARY = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
PYTHON = tuple(name.removesuffix(".bin") for name in BINARY)
_SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32


def read_binary(contents: Mapping[str, bytes], place: Path, remedy: str) -> tuple[Part, Part]:
    """Training and test set out of the binary batches: a byte for the class, then red, green and blue."""
    return _join(contents, BINARY, place, remedy, _binary)


def read_python(contents: Mapping[str, bytes], place: Path, remedy: str) -> tuple[Part, Part]:
    """Training and test set out of the pickled batches, which are not run."""
    return _join(contents, PYTHON, place, remedy, _pickled)


def read_binary_archive(contents: Mapping[str, bytes], place: Path, remedy: str) -> tuple[Part, Part]:
    """Training and test set out of the archive of binary batches."""
    return read_binary(*_unpack(contents, BINARY, place, remedy), remedy)


def read_python_archive(contents: Mapping[str, bytes], place: Path, remedy: str) -> tuple[Part, Part]:
    """Training and test set out of the archive of pickled batches."""
    return read_python(*_unpack(contents, PYTHON, place, remedy), remedy)


def _unpack(
    contents: Mapping[str, bytes], names: tuple[str, ...], place: Path, remedy: str
) -> tuple[dict[str, bytes], Path]:
    ((name, content),) = contents.items()
    return archives.members(content, place / name, names, remedy), place / name


def _join(
    contents: Mapping[str, bytes],
    names: tuple[str, ...],
    place: Path,
    remedy: str,
    read: Callable[[bytes, Path, str], Part],
) -> tuple[Part, Part]:
    *batches, test = [read(contents[name], place / name, remedy) for name in names]
    return (torch.cat([images for images, _ in batches]), torch.cat([labels for _, labels in batches])), test


def _binary(content: bytes, file: Path, remedy: str) -> Part:
    if not content or len(content) % (1 + _PIXELS):
        raise DataError(file, f"whole records of {1 + _PIXELS:,} bytes", f"{len(content):,} bytes", remedy)
    records = torch.frombuffer(bytearray(content), dtype=torch.uint8).view(-1, 1 + _PIXELS)
    return _checked(records[:, 1:].reshape(-1, *_SHAPE), records[:, 0].long(), file, remedy)


def _pickled(content: bytes, file: Path, remedy: str) -> Part:
    try:
        batch = pickles.load(content)
        if not isinstance(batch, dict):
            raise ValueError(f"a {type(batch).__name__}")
        entries = {pickles.text(key): value for key, value in batch.items()}
        labels = entries.get("labels")
        if not isinstance(labels, list) or not all(type(label) is int for label in labels):
            raise ValueError("no list of labels")
        shape, pixels = pickles.array(entries.get("data"))
        if not labels or shape != (len(labels), _PIXELS) or len(pixels) != len(labels) * _PIXELS:
            raise ValueError(f"{len(labels):,} labels, an array of shape {shape} and {len(pixels):,} bytes")
    except ValueError as error:
        expected = "a pickled batch of CIFAR-10: 'labels' and 'data', nothing to be run"
        raise DataError(file, expected, str(error), remedy) from None
    images = torch.frombuffer(bytearray(pixels), dtype=torch.uint8).view(-1, *_SHAPE)
    return _checked(images, torch.tensor(labels), file, remedy)


def _checked(images: Tensor, labels: Tensor, file: Path, remedy: str) -> Part:
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high > 9:
        raise DataError(file, "classes from 0 to 9", f"{low} to {high}", remedy)
    return images, labels
