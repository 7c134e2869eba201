"""Files that are whole or not there: atomic writes, and a lock that a killed process does not leave behind."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class RunLockedError(RuntimeError):
    """Another process works on this run."""


def write(path: Path, text: str, last: bool = True) -> None:
    """Replace a file by this text; whoever reads it sees the old or the new one, never a part.

    Args:
        path: of the file.
        text: its contents.
        last: whether its name must be safe, too, when this returns; else a power cut may take the file away again.
    """
    write_with(path, lambda file: file.write(text.encode()), last)


def write_with(path: Path, fill: Callable[[BinaryIO], object], last: bool = True) -> None:
    """Replace a file by what `fill` writes into the one it is given."""
    part = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if last:
        _sync_folder(path.parent)


def remove_parts(folder: Path) -> None:
    """Remove what a killed process had not finished writing."""
    for part in folder.glob(".*.part"):
        part.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """A new name in a folder is safe only when the folder itself has been written."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Lock:
    """Held by one process at a time; the operating system lets go of it when the process ends in any way.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lock"
        self._handle = -1

    def __enter__(self) -> Lock:
        while True:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                take(handle)
            except OSError:
                owner = _owner(handle)
                os.close(handle)
                raise RunLockedError(
                    f"Another process{owner} is working on the run {str(self._path.parent)!r}; wait until it has "
                    "ended, stop it, or choose another folder."
                ) from None
            if self._is_mine(handle):
                break
            os.close(handle)  # its owner has just removed it
        os.truncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        self._handle = handle
        return self

    def _is_mine(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), os.stat(self._path))
        except FileNotFoundError:
            return False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if sys.platform != "win32":  # which does not remove open files
            self._path.unlink(missing_ok=True)
        os.close(self._handle)


def take(handle: int, shared: bool = False) -> None:
    """Take the lock of an open file, or fail at once; a shared one (not on Windows) may have many holders."""
    if sys.platform == "win32":
        os.lseek(handle, 1 << 20, os.SEEK_SET)  # far behind the number, which others may read
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        os.lseek(handle, 0, os.SEEK_SET)
    else:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


def _owner(handle: int) -> str:
    number = os.read(handle, 20).decode(errors="replace")
    return f" ({number})" if number.isdigit() else ""
