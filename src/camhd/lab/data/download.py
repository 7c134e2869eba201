"""`camhd data get`: from the internet, and only when asked.

pooch drives the download: it hands our downloader a temporary name, compares the hash, and only then gives the file its
name. What pooch cannot do is to go on where a download broke off; that is what the downloader here is for.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from . import places, vouching, writing
from .catalogue import BUNDLED
from .errors import DataError, NeedsPackage
from .formats import FORMATS
from .inventory import Description, chosen, describe
from .published import EDITIONS, Edition, File

if TYPE_CHECKING:
    import requests

Progress: TypeAlias = Callable[[str, int, int], None]

TIMEOUT = (10.0, 30.0)  # seconds to connect, and between two pieces
WAIT = 1.0  # seconds before a mirror is tried again
_TRIES = 3
_PIECE = 2**18


def get(
    name: str,
    folder: Path | str | None = None,
    mirrors: Sequence[str] = (),
    progress: Progress | None = None,
) -> Description:
    """Download a data set, unless it is here already.

    A download that broke off goes on where it stopped. A file gets its name when its hash is right, not before.

    Args:
        name: of the data set.
        folder: the data folder; by default `CAMHD_DATA`, or else a folder in the user's cache.
        mirrors: addresses of folders with the files, to be tried before the published ones.
        progress: is called with the name of a file, how many of its bytes are here, and how many it has.
    """
    (name,) = chosen([name])
    if name in BUNDLED or not EDITIONS[name]:
        return describe([name], folder)[0]
    edition = next(edition for edition in EDITIONS[name] if edition.mirrors)
    root = places.data_folder(folder)
    target = places.download_copy(name, root)
    here = places.locate(places.copies(name, root))
    if here is not None and _sound(here, target, places.remedy(name, folder, here)):
        return describe([name], folder)[0]
    _pooch()
    with writing.workshop(target.place) as partial, writing.refused(target.place):
        _tidy(partial, edition)
        addresses = [*mirrors, *edition.mirrors]
        for file in edition.files:
            path = target.place / file.name
            if not (path.is_file() and path.stat().st_size == file.size and file.matches(path.read_bytes())):
                used = _fetch(file, path, addresses, progress or _silent)
                addresses.sort(key=lambda mirror: mirror != used)  # the one that answered comes first from now on
    _unpack(target, root, places.remedy(name, folder, target))
    return describe([name], folder)[0]


def _sound(here: places.Copy, target: places.Copy, remedy: str) -> bool:
    """Whether there is nothing to do. What `get` put there it may replace; anything else that is wrong is an error."""
    if here.missing:
        return False
    try:
        places.check(here, remedy)
    except DataError:
        if here != target or vouching.read(here.place, here.format) is not None:
            raise
        return False
    return True


def _unpack(archive: places.Copy, root: Path, remedy: str) -> None:
    """Put the members of an archive in its place, if there is room for both for a moment."""
    if FORMATS[archive.format].unpacked is None:
        return
    _, contents = places.check(archive, remedy)
    copy, contents = places.unpack(archive, contents, root, remedy)
    if copy != archive and shutil.disk_usage(root).free > 2 * sum(map(len, contents.values())):
        writing.put(copy.place, contents)
        for path in archive.files.values():
            path.unlink()


def _silent(name: str, done: int, size: int) -> None:
    """No progress is shown."""


def _tidy(partial: Path, edition: Edition) -> None:
    """Throw away what a killed process left, but for parts that can be gone on with."""
    keep = {"lock", *(f"{file.name}.part" for file in edition.files)}
    for path in partial.iterdir():
        if path.name not in keep and path.is_file():
            path.unlink()


def _pooch() -> ModuleType:
    try:
        return importlib.import_module("pooch")
    except ModuleNotFoundError:
        raise NeedsPackage("A download", "pooch") from None


def _fetch(file: File, path: Path, mirrors: Sequence[str], progress: Progress) -> str:
    """Download a file from one of the mirrors, which is returned."""
    pooch = _pooch()
    partial = path.parent / writing.PARTIAL
    failures = []
    for mirror in mirrors:
        url = f"{mirror.rstrip('/')}/{file.name}"
        download = _Resuming(file, partial / f"{file.name}.part", progress)
        known = f"sha256:{file.sha256}" if file.sha256 else f"md5:{file.md5}"
        try:
            with _quiet(pooch.get_logger()):
                pooch.retrieve(url, known_hash=known, fname=file.name, path=partial, downloader=download)
        except _Failed as failure:
            failures.append(f"{url}: {failure}")
            continue
        os.replace(partial / file.name, path)
        return mirror
    raise DataError(
        path,
        str(file),
        "; ".join(["no mirror that has it", *failures]),
        "Try again later: it goes on where it stopped. Or name another mirror with --mirror, or bring the files"
        " yourself: camhd data add.",
    )


@contextlib.contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)


class _Failed(Exception):
    """This mirror will not do; the next one may."""


class _Broken(Exception):
    """It broke off; the same mirror may go on."""


class _Resuming:
    """A downloader for pooch that goes on where an earlier one stopped."""

    def __init__(self, file: File, part: Path, progress: Progress) -> None:
        self.file, self.part, self.progress = file, part, progress

    def __call__(self, url: str, output_file: str, pooch: object) -> None:
        for attempt in range(_TRIES):
            before = self._have()
            try:
                self._go_on(url)
                if self._right():
                    os.replace(self.part, output_file)
                    return
                if before == 0:
                    raise _Failed("another file than the published one")
                continue  # the part was of another file: once more from the start
            except _Broken as broken:
                if attempt == _TRIES - 1:
                    raise _Failed(str(broken)) from None
                time.sleep(WAIT * 2**attempt)
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    self.part.unlink(missing_ok=True)
                raise
        raise _Failed("another file than the published one")

    def _have(self) -> int:
        have = self.part.stat().st_size if self.part.exists() else 0
        if have > self.file.size:
            self.part.unlink()
            return 0
        return have

    def _right(self) -> bool:
        """Whether the part is the file; if not, it is thrown away."""
        if self.file.matches(self.part.read_bytes()):
            return True
        self.part.unlink()
        return False

    def _go_on(self, url: str) -> None:
        import requests
        from urllib3.exceptions import HTTPError

        have = self._have()
        if have == self.file.size:
            return
        writing.require_room(self.part.parent, self.file.size - have)
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        try:
            with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
                self._receive(answer, self._start(answer, have))
        except (requests.RequestException, HTTPError) as error:
            came = self._have()
            told = f"broke off after {came:,} of {self.file.size:,} bytes; " if came else ""
            raise _Broken(f"{told}{type(error).__name__}: {error}") from None

    def _start(self, answer: requests.Response, have: int) -> int:
        """From which byte on the answer is, if it is one."""
        if answer.status_code == 416:
            self.part.unlink(missing_ok=True)
            raise _Broken("a range that it has not")
        if answer.status_code >= 500 or answer.status_code == 429:
            raise _Broken(f"status {answer.status_code} {answer.reason}")
        if answer.status_code not in (200, 206):
            raise _Failed(f"status {answer.status_code} {answer.reason}")
        start = 0
        if answer.status_code == 206:
            if not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
                raise _Failed("another range than the one asked for")
            start = have
        length = answer.headers.get("Content-Length", "")
        if length.isdecimal() and start + int(length) != self.file.size:
            raise _Failed(f"a file of {start + int(length):,} bytes instead of {self.file.size:,}")
        return start

    def _receive(self, answer: requests.Response, start: int) -> None:
        done = start
        with self.part.open("r+b" if start else "wb") as stream:
            stream.seek(start)
            while piece := answer.raw.read(_PIECE, decode_content=False):
                done += len(piece)
                if done > self.file.size:
                    break
                stream.write(piece)
                self.progress(self.file.name, done, self.file.size)
            stream.flush()
            os.fsync(stream.fileno())
        if done > self.file.size:
            self.part.unlink()
            raise _Failed(f"more than {self.file.size:,} bytes")
        if done < self.file.size:
            raise _Broken(f"an end after {done:,} of {self.file.size:,} bytes")
