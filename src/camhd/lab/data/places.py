"""Where the files of a data set are, and whether they are the right ones."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import archives, vouching
from .errors import DataError, MissingData
from .formats import FORMATS, KINDS
from .published import EDITIONS, Edition, File

# The folders of a data set inside the data folder; the first is where `get` and `add` put it. The names in capitals are
# torchvision's.
HOMES: Mapping[str, tuple[str, ...]] = {
    "mnist": ("mnist", "MNIST"),
    "fashion-mnist": ("fashion-mnist", "FashionMNIST", "fashion_mnist"),
    "cifar10": ("cifar10", "CIFAR10", "cifar-10", ""),
    "svhn": ("svhn", "SVHN", "svhn-small"),
    "text": ("text",),
}


@dataclass(frozen=True)
class Copy:
    """A set of files on the disk: all or some of a format's, in one folder."""

    name: str
    place: Path
    format: str

    @property
    def files(self) -> dict[str, Path]:
        """Where each file is, or would be."""
        return {name: self.place / name for name in FORMATS[self.format].files}

    @property
    def missing(self) -> list[Path]:
        """The files that are not there."""
        return [path for path in self.files.values() if not _is_file(path)]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except PermissionError:
        return True  # there is something; what is wrong with it is told when it is read


def data_folder(folder: Path | str | None = None) -> Path:
    """The folder with the data sets: the one given, else `CAMHD_DATA`, else a folder in the user's cache."""
    given = folder if folder is not None else os.environ.get("CAMHD_DATA") or None
    if given is not None:
        return Path(given).expanduser()
    return user_cache() / "camhd" / "data"


def user_cache() -> Path:
    """As platformdirs has it."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return Path(cache) if os.path.isabs(cache) else Path.home() / ".cache"


def copies(name: str, folder: Path, homes: Iterable[str] | None = None) -> Iterator[Copy]:
    """Every place in which a copy of the data set may be, the most wanted first."""
    for home in HOMES[name] if homes is None else homes:
        for kind in KINDS[name]:
            for inside in FORMATS[kind].folders:
                yield Copy(name, folder / home / inside, kind)


def locate(candidates: Iterable[Copy]) -> Copy | None:
    """The first that is complete; else the first of which there is something; else None."""
    partly = None
    for copy in candidates:
        missing = len(copy.missing)
        if not missing:
            return copy
        if partly is None and missing < len(copy.files):
            partly = copy
    return partly


def check(copy: Copy, remedy: str) -> tuple[Edition, dict[str, bytes]]:
    """The edition that these files are, and their contents: what is read later is what was compared."""
    known = [edition for edition in EDITIONS[copy.name] if edition.format == copy.format]
    vouched = vouching.read(copy.place, copy.format)
    editions = [vouched, *known] if vouched is not None else known
    for path in copy.missing:
        raise MissingData(path, _expected(path, editions), "no such file", remedy)
    if not editions:
        first = next(iter(copy.files.values()))
        raise DataError(first, "a file that is known or vouched for", "neither", remedy)
    sizes = {name: _size(path, remedy) for name, path in copy.files.items()}
    possible = [edition for edition in editions if all(file.size == sizes[file.name] for file in edition.files)]
    if not possible:
        file = _first_wrong(editions, [{f for f in e.files if f.size == sizes[f.name]} for e in editions])
        raise DataError(copy.place / file.name, str(file), f"{sizes[file.name]:,} bytes", remedy)
    contents = {name: read(path, sizes[name], remedy) for name, path in copy.files.items()}
    right = [{file for file in edition.files if file.matches(contents[file.name])} for edition in possible]
    for edition, matching in zip(possible, right, strict=True):
        if len(matching) == len(edition.files):
            return edition, contents
    file = _first_wrong(possible, right)
    raise DataError(copy.place / file.name, str(file), file.found(contents[file.name]), remedy)


def _first_wrong(editions: Sequence[Edition], right: Sequence[set[File]]) -> File:
    """The first wrong file of the edition that most of the files belong to."""
    nearest = max(range(len(editions)), key=lambda number: len(right[number]))
    return next(file for file in editions[nearest].files if file not in right[nearest])


def _expected(path: Path, editions: Sequence[Edition]) -> str:
    for edition in editions:
        for file in edition.files:
            if file.name == path.name:
                return str(file)
    return "a file"


def _size(path: Path, remedy: str) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise DataError(path, "a file that can be read", str(error), remedy) from None


def read(path: Path, size: int, remedy: str) -> bytes:
    """A file of this size."""
    try:
        with path.open("rb") as stream:
            content = stream.read(size + 1)
    except OSError as error:
        raise DataError(path, "a file that can be read", str(error), remedy) from None
    if len(content) != size:
        raise DataError(path, f"{size:,} bytes", "another size while it was read", remedy)
    return content


def found(name: str, folder: Path | str | None) -> Copy:
    """Where the data set is, or an error that says how to get it."""
    root = data_folder(folder)
    copy = locate(copies(name, root))
    if copy is None:
        copy = download_copy(name, root)
        first = next(iter(copy.files.values()))
        looked = ", ".join(dict.fromkeys(str(root / home) for home in HOMES[name]))
        known = EDITIONS[name]
        raise MissingData(
            first,
            _expected(first, known),
            "no such file" if root.is_dir() else f"no such folder as {root}",
            f"{remedy(name, folder)} Looked in {looked}.",
        )
    return copy


def unpack(copy: Copy, contents: dict[str, bytes], root: Path, remedy: str) -> tuple[Copy, dict[str, bytes]]:
    """The members of an archive as the files of their own format, where each of them is known; else the archive."""
    inside = FORMATS[copy.format].unpacked
    for edition in EDITIONS[copy.name] if inside is not None else ():
        if edition.format == inside:
            ((name, content),) = contents.items()
            found = archives.members(content, copy.place / name, FORMATS[inside].files, remedy)
            if all(file.matches(found[file.name]) for file in edition.files):
                return Copy(copy.name, root / HOMES[copy.name][0] / FORMATS[inside].folders[0], inside), found
    return copy, contents


def download_copy(name: str, root: Path) -> Copy:
    """Where `get` puts the data set."""
    edition = next((edition for edition in EDITIONS[name] if edition.mirrors), None)
    return Copy(name, root / HOMES[name][0], edition.format if edition else KINDS[name][0])


def remedy(name: str, folder: Path | str | None, copy: Copy | None = None) -> str:
    """What to do about a copy that is missing or wrong."""
    where = "" if folder is None else f" --folder {shlex.quote(str(folder))}"
    get, add = f"camhd data get {name}{where}", f"camhd data add {name}"
    if copy is None:
        return f"Get it: {get}. Or bring your own copy: {add} PATH{where}."
    again = "Get it again" if copy == download_copy(name, data_folder(folder)) else f"Remove {copy.place} and get it"
    own = f"{add} {shlex.quote(str(copy.place))}{where} --note 'what it is'"
    return f"{again}: {get}. Or, if you know what this is and vouch for it: {own}."
