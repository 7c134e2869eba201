"""A text as a data set: which character comes next?"""

from __future__ import annotations

import hashlib
import platform
from pathlib import Path

import torch
from torch import Tensor

from .errors import DataError, MissingData
from .examples import Dataset, Task, from_tensors

LENGTH = 64  # characters in a window, unless told otherwise
FILE = "text.txt"
_TASK: Task = "language"
_LEAST = 100_000  # characters; the chapters of every Python from 3.10 on have more than three times as many


def reference() -> tuple[str, str]:
    """The language reference that ships inside Python (`pydoc_data.topics`), and what to say of it.

    Chapters come in the order of their names. Some of them repeat others, and a paragraph is taken once only, so that
    the end of the text, which is the test set, was not seen before. The text differs between versions of Python.
    """
    remedy = "Install a whole Python, or bring a text of your own: camhd data add text FILE --note 'what it is'"
    name = "pydoc_data/topics.py of Python's standard library"
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise MissingData(name, "the module", "none", remedy) from None
    except (SyntaxError, ValueError) as error:
        raise DataError(name, "a Python module", f"a damaged one ({error})", remedy) from None
    paragraphs: dict[str, str] = {}
    for _, chapter in sorted(topics.items()):
        for paragraph in chapter.split("\n\n"):
            paragraphs.setdefault(" ".join(paragraph.split()), paragraph.rstrip())
    text = "\n\n".join(paragraphs.values()) + "\n"
    if len(text) < _LEAST:
        raise DataError(name, f"at least {_LEAST:,} characters", f"{len(text):,}", remedy)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return text, f"the language reference inside Python {platform.python_version()}, text {digest}"


def decode(content: bytes, file: Path, remedy: str) -> str:
    """The text of a file in UTF-8."""
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise DataError(file, "text in UTF-8", f"something else at byte {error.start:,}", remedy) from None


def from_text(name: str, text: str, length: int = LENGTH, note: str = "") -> Dataset:
    """A data set out of a text: windows of `length` characters, and the same windows one character later.

    The first nine tenths are the training set, the rest is the test set. The characters that occur are numbered in the
    order of Unicode.

    >>> made = from_text("abc", "abcd" * 100, length=8)
    >>> made.classes, made.shape, len(made.train), len(made.test)
    (4, (8,), 44, 4)
    >>> made.train.inputs[0].tolist(), made.train.targets[0].tolist()
    ([0, 1, 2, 3, 0, 1, 2, 3], [1, 2, 3, 0, 1, 2, 3, 0])
    """
    if length < 1:
        raise ValueError(f"The length of a window must be 1 or more, got {length}.")
    if len(text) < 20 * length:
        raise ValueError(
            f"The text {name!r} must have at least {20 * length:,} characters for windows of {length}, but has"
            f" {len(text):,}; take a longer text or shorter windows."
        )
    codes = torch.frombuffer(bytearray(text.encode("utf-32-le")), dtype=torch.int32)
    characters, tokens = codes.unique(return_inverse=True)
    stream = tokens.to(torch.uint8 if len(characters) <= 256 else torch.int32)
    cut = len(stream) * 9 // 10
    train, test = _windows(stream[:cut], length), _windows(stream[cut:], length)
    return from_tensors(name, train, test, task=_TASK, classes=len(characters), note=note)


def _windows(stream: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Side by side, without overlap; two views of one stream."""
    used = (len(stream) - 1) // length * length
    return stream[:used].view(-1, length), stream[1 : used + 1].view(-1, length)
