"""What can be wrong with data, said so that one knows what to do."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from pathlib import Path


class DataError(ValueError):
    """A file that is not what it should be: its place, what was expected, what was found, and the remedy.

    >>> print(DataError("train.gz", "9,912,422 bytes", "12 bytes", "Get it again: camhd data get mnist"))
    train.gz: expected 9,912,422 bytes, found 12 bytes. Get it again: camhd data get mnist
    """

    def __init__(self, file: Path | str, expected: str, found: str, remedy: str) -> None:
        super().__init__(f"{file}: expected {expected}, found {found}. {remedy}")
        self.file = file
        self.expected = expected
        self.found = found
        self.remedy = remedy


class MissingData(DataError):
    """A file that is not there."""


class NeedsPackage(ValueError):
    """An optional package that is not installed."""

    def __init__(self, what: str, package: str) -> None:
        super().__init__(f"{what} needs {package}, which is not installed: pip install 'camhd[lab]'")
        self.package = package


def choose(what: str, name: str, choices: Collection[str]) -> str:
    """The name if it is one of the choices; else an error that lists them and the nearest.

    >>> choose("data set", "digets", ("digits", "mnist"))
    Traceback (most recent call last):
    ValueError: There is no data set 'digets'; did you mean 'digits'? The choices are digits, mnist.
    """
    if name in choices:
        return name
    near = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
    hint = f" did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"There is no {what} {name!r};{hint} The choices are {', '.join(choices)}.")
