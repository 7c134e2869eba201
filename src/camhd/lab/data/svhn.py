"""SVHN, cropped: images and labels in a MATLAB file.

A file of MATLAB 5 is a header and a row of elements, each with a tag (what it is, how long it is), most of them packed
by zlib. Only two are read, `X` (32 × 32 × 3 × N bytes, the first dimension the fastest) and `y` (1…10, where 10 is the
digit 0), and only as much of each as its own header says.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from .errors import DataError

FILES = ("train_32x32.mat", "test_32x32.mat")
LIMIT = 2**30  # bytes that a variable may have; the official training images have 0.23 · 10⁹

_COMPRESSED, _MATRIX = 15, 14
_DTYPES = {
    1: torch.int8,
    2: torch.uint8,
    3: torch.int16,
    4: torch.uint16,
    5: torch.int32,
    6: torch.uint32,
    7: torch.float32,
    9: torch.float64,
}


class _Variable(NamedTuple):
    shape: tuple[int, ...]
    dtype: torch.dtype
    data: bytes

    def tensor(self) -> Tensor:
        return torch.frombuffer(bytearray(self.data), dtype=self.dtype)


def read(
    contents: Mapping[str, bytes], place: Path, remedy: str
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Training and test set."""
    train, test = (_part(contents[name], place / name, remedy) for name in FILES)
    return train, test


def _part(content: bytes, file: Path, remedy: str) -> tuple[Tensor, Tensor]:
    try:
        found = dict(variables(content, ("X", "y")))
    except (ValueError, zlib.error, struct.error) as error:
        raise DataError(file, "a whole MATLAB 5 file", str(error), remedy) from None
    expected = "'X' of 32 × 32 × 3 × N bytes and 'y' of N labels from 1 to 10"
    if found.keys() != {"X", "y"}:
        raise DataError(file, expected, f"only {', '.join(found) or 'other variables'}", remedy)
    images, labels = found["X"], found["y"]
    count = images.shape[-1]
    if (*images.shape[:-1], images.dtype) != (32, 32, 3, torch.uint8) or math.prod(labels.shape) != count or not count:
        raise DataError(file, expected, f"'X' of shape {images.shape} and 'y' of shape {labels.shape}", remedy)
    digits = labels.tensor().long()
    low, high = int(digits.min()), int(digits.max())
    if low < 1 or high > 10:
        raise DataError(file, expected, f"labels from {low} to {high}", remedy)
    return images.tensor().view(count, 3, 32, 32).transpose(2, 3).contiguous(), digits % 10


def variables(content: bytes, wanted: tuple[str, ...]) -> Iterator[tuple[str, _Variable]]:
    """The numeric variables with these names.

    Raises:
        ValueError: if the file is damaged or a variable is larger than `LIMIT`.
    """
    if len(content) < 128 or content[124:128] != b"\x00\x01IM":
        raise ValueError(f"no header of a little-endian MATLAB 5 file but {content[:20]!r}")
    place = 128
    while place < len(content):
        kind, size = struct.unpack_from("<II", content, place)
        place += 8
        if place + size > len(content):
            raise ValueError(f"an end {place + size - len(content):,} bytes too early")
        stream = _Stream(memoryview(content)[place : place + size], packed=kind == _COMPRESSED)
        place += size
        if kind == _COMPRESSED:
            kind, size = struct.unpack("<II", stream.read(8))
        if kind == _MATRIX:
            name, variable = _matrix(stream, wanted)
            if variable is not None:
                stream.finish()
                yield name, variable


class _Stream:
    """The bytes of an element, unpacked only as far as they are read."""

    def __init__(self, content: memoryview, packed: bool) -> None:
        self.left: bytes | memoryview = content
        self.unpacker = zlib.decompressobj() if packed else None

    def read(self, size: int) -> bytes:
        if self.unpacker is None:
            piece, self.left = bytes(self.left[:size]), self.left[size:]
        else:
            piece = self.unpacker.decompress(self.left, size) if size else b""
            self.left = self.unpacker.unconsumed_tail
        if len(piece) < size:
            raise ValueError(f"an end {size - len(piece):,} bytes too early")
        return piece

    def finish(self) -> None:
        """Read on to the checksum, which is not far behind the numbers."""
        if self.unpacker is not None:
            self.unpacker.decompress(self.left, 64)
            if not self.unpacker.eof:
                raise ValueError("no end where it should be")


def _matrix(stream: _Stream, wanted: tuple[str, ...]) -> tuple[str, _Variable | None]:
    _short(stream)  # flags: the class of the array; what counts is the kind of number in which it was stored
    sizes = _short(stream)
    name = _short(stream).decode("latin-1")
    if name not in wanted:
        return name, None
    shape = struct.unpack(f"<{len(sizes) // 4}i", sizes)
    kind, size, inside = _tag(stream)
    if kind not in _DTYPES:
        raise ValueError(f"{name!r} that is no array of numbers")
    width = _DTYPES[kind].itemsize
    if len(shape) < 2 or min(shape) < 0 or size != math.prod(shape) * width or size > LIMIT:
        raise ValueError(f"{name!r} of shape {shape} with {size:,} bytes, where at most {LIMIT:,} are allowed")
    return name, _Variable(shape, _DTYPES[kind], stream.read(size) if inside is None else inside)


def _short(stream: _Stream) -> bytes:
    """The content of the next element, one that describes; elements fill whole rows of eight bytes."""
    _, size, inside = _tag(stream)
    if inside is not None:
        return inside
    if size > 1024:
        raise ValueError(f"a description of {size:,} bytes")
    return stream.read(size + -size % 8)[:size]


def _tag(stream: _Stream) -> tuple[int, int, bytes | None]:
    """Kind and size of the next element, and its content if it is short enough to be inside the tag."""
    head = stream.read(8)
    kind, size = struct.unpack("<II", head)
    if kind >> 16:
        return kind & 0xFFFF, kind >> 16, head[4 : 4 + (kind >> 16)]
    return kind, size, None
