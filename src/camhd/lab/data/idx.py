"""The idx format of MNIST: a header that says what follows, then the bytes; usually inside gzip.

The header is two zero bytes, the kind of number, the number of dimensions, and the size of each as a big-endian 32-bit
number.
"""

from __future__ import annotations

import gzip
import io
import math
import struct
import zlib
from pathlib import Path

import torch
from torch import Tensor

from .errors import DataError

_BYTES = 0x08  # the kind of number: the official files have no other
LIMIT = 2**30  # bytes that a file may unpack to


def parse(content: bytes, file: Path | str, dimensions: int, remedy: str) -> Tensor:
    r"""The numbers of an idx file.

    Args:
        content: of the file, packed by gzip or not.
        file: for errors.
        dimensions: how many there have to be: 3 for images, 1 for labels.
        remedy: for errors.

    >>> parse(b"\0\0\x08\1\0\0\0\3" + b"abc", "letters", 1, "")
    tensor([97, 98, 99], dtype=torch.uint8)
    """
    stream: io.BufferedIOBase = io.BytesIO(content)
    if content[:2] == b"\x1f\x8b":
        stream = gzip.GzipFile(fileobj=io.BytesIO(content))
    try:
        return _parse(stream, file, dimensions, remedy)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(file, "a whole gzip file", f"a damaged one ({error})", remedy) from None


def _parse(stream: io.BufferedIOBase, file: Path | str, dimensions: int, remedy: str) -> Tensor:
    wanted = bytes([0, 0, _BYTES, dimensions])
    magic = stream.read(4)
    if magic != wanted:
        raise DataError(
            file,
            f"an idx file of bytes in {dimensions} dimensions, which starts with {wanted.hex()}",
            magic.hex() or "nothing",
            remedy,
        )
    header = stream.read(4 * dimensions)
    if len(header) < 4 * dimensions:
        raise DataError(file, f"{dimensions} sizes", f"an end after {len(header)} bytes of them", remedy)
    shape = struct.unpack(f">{dimensions}I", header)
    size = math.prod(shape)
    if not 0 < size <= LIMIT:
        raise DataError(file, f"1 to {LIMIT:,} numbers", f"a header that says {size:,}", remedy)
    numbers = stream.read(size + 1)
    if len(numbers) != size:
        found = "more" if len(numbers) > size else f"{len(numbers):,}"
        raise DataError(file, f"{size:,} numbers, as its header says", found, remedy)
    return torch.frombuffer(bytearray(numbers), dtype=torch.uint8).view(shape)
