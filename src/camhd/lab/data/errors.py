"""What can be wrong with data, said so that one knows what to do."""

from __future__ import annotations

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

    def __reduce__(self) -> tuple[type[DataError], tuple[Path | str, str, str, str]]:
        """From one process to another."""
        return type(self), (self.file, self.expected, self.found, self.remedy)


class MissingData(DataError):
    """A file that is not there."""


class NeedsPackage(ValueError):
    """An optional package that is not installed."""

    def __init__(self, what: str, package: str) -> None:
        super().__init__(f"{what} needs {package}, which is not installed: pip install 'camhd[lab]'")
        self.what, self.package = what, package

    def __reduce__(self) -> tuple[type[NeedsPackage], tuple[str, str]]:
        """From one process to another."""
        return type(self), (self.what, self.package)
