"""Putting files into the data folder: whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from .errors import DataError

PARTIAL = ".partial"  # the folder, beside the data, in which files grow; nothing in it is ever read as data


@contextlib.contextmanager
def workshop(place: Path) -> Iterator[Path]:
    """A folder for unfinished files, for one process at a time; it is removed afterwards if nothing is left in it."""
    from filelock import FileLock  # torch needs it, so it is there

    partial = place / PARTIAL
    lock = FileLock(partial / "lock")
    with refused(place):
        while not lock.is_locked:
            partial.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):  # another process was ready and tidied up
                lock.acquire()
                if not (partial / "lock").exists():
                    lock.release()
    try:
        yield partial
    finally:
        lock.release()
        (partial / "lock").unlink(missing_ok=True)
        for folder in (partial, place):
            with contextlib.suppress(OSError):  # not empty: a part of a download is kept, to go on from
                folder.rmdir()


@contextlib.contextmanager
def refused(place: Path) -> Iterator[None]:
    """What the disk refuses is told as an error about the data folder."""
    try:
        yield
    except DataError:
        raise
    except OSError as error:
        raise DataError(
            error.filename or place,
            "a folder that can be written to, with room",
            str(error),
            "Make room, or choose another folder with --folder or CAMHD_DATA.",
        ) from None


def require_room(place: Path, size: int) -> None:
    """An error if the disk has no room for so many bytes."""
    free = shutil.disk_usage(place).free
    if free < size:
        raise DataError(
            place,
            f"room for {size:,} bytes",
            f"{free:,} bytes free",
            "Make room, or choose another folder with --folder or CAMHD_DATA.",
        )


def put(place: Path, contents: Mapping[str, bytes]) -> None:
    """Write these files, in this order. If one cannot be written, none of them that is new stays."""
    with workshop(place) as partial, refused(place):
        new = [place / name for name in contents if not (place / name).exists()]
        require_room(place, sum(map(len, contents.values())))
        try:
            for name, content in contents.items():
                write(partial / name, content)
            for name in contents:
                os.replace(partial / name, place / name)
        except BaseException:
            for path in [*(partial / name for name in contents), *new]:
                path.unlink(missing_ok=True)
            raise


def write(path: Path, content: bytes) -> None:
    """Write a file and see it onto the disk."""
    with path.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
