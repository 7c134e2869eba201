"""Files that are whole or not there: atomic writes, and a lock that a killed process does not leave behind."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


HELD = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)  # a lock that another has
# What to do about what the disk says; for everything else another folder is the way out.
REMEDIES = {
    errno.ENOSPC: "Make room, or choose another folder",
    errno.EDQUOT: "Make room, or choose another folder",
    errno.EROFS: "Choose a folder that can be written to",
    errno.EACCES: "Choose a folder that you may write to",
    errno.EPERM: "Choose a folder that you may write to",
    errno.ENOTDIR: "A file is in the way: remove it, or choose another folder",
    errno.EEXIST: "A file is in the way: remove it, or choose another folder",
    errno.EISDIR: "A folder is in the way: remove it, or choose another name",
    errno.ENAMETOOLONG: "Choose a shorter name",
}


class RunLockedError(RuntimeError):
    """Another process works on this run."""


class DiskError(OSError):
    """The disk refuses to be written; the message says what, why, and what to do."""


@contextlib.contextmanager
def telling(path: Path) -> Iterator[None]:
    """What the disk says while this is written is told with the path and with what to do."""
    try:
        yield
    except DiskError:
        raise
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, "Choose another folder")
        raise DiskError(
            f"{str(path)!r} cannot be written: {error.strerror or error}. {remedy}; what was written before is whole."
        ) from error


def write(path: Path, text: str, last: bool = True, before: Callable[[], object] = lambda: None) -> None:
    """Replace a file by this text; whoever reads it sees the old or the new one, never a part.

    Args:
        path: of the file.
        text: its contents.
        last: whether its name must be safe, too, when this returns; else a power cut may take the file away again.
        before: is called when the new text is safe on the disk, but not yet in its place.
    """
    write_with(path, lambda file: file.write(text.encode()), last, before)


def write_with(
    path: Path, fill: Callable[[BinaryIO], object], last: bool = True, before: Callable[[], object] = lambda: None
) -> None:
    """Replace a file by what `fill` writes into the one it is given."""
    part = path.with_name(f".{path.name[:60]}.{os.getpid()}-{secrets.token_hex(4)}.part")
    with telling(path):
        try:
            with part.open("xb") as file:
                fill(file)
                file.flush()
                os.fsync(file.fileno())
            before()
            os.replace(part, path)
        except BaseException:
            with contextlib.suppress(OSError):  # a disk that refuses this, too, has said enough
                part.unlink(missing_ok=True)
            raise
        if last:
            _sync_folder(path.parent)


def append(file: BinaryIO, path: Path, content: bytes) -> None:
    """Write this at the end of an unbuffered file: whole, or not at all."""
    end = file.seek(0, os.SEEK_END)
    with telling(path):
        try:
            left = memoryview(content)
            while left:  # a disk that is nearly full takes a part first, and refuses the rest
                left = left[file.write(left) :]
        except BaseException:
            file.truncate(end)
            raise


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
        with telling(self._path):
            self._handle = self._taken()
            try:
                os.truncate(self._handle, 0)
                os.write(self._handle, str(os.getpid()).encode())
            except OSError:
                self.__exit__(None, None, None)
                raise
        return self

    def _taken(self) -> int:
        while True:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                take(handle)
                if self._is_mine(handle):
                    return handle
            except OSError as error:
                owner = _owner(handle)
                os.close(handle)
                if error.errno not in HELD:  # a file system without locks, say
                    raise
                raise RunLockedError(
                    f"Another process{owner} is working on the run {str(self._path.parent)!r}; wait until it has "
                    "ended, stop it, or choose another folder."
                ) from None
            os.close(handle)  # its owner has just removed it

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
