"""What data sets there are, which of them are here, and whether they are sound."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ..choices import choose_a
from . import places, vouching
from .catalogue import ABOUT, BUNDLED, NAMES, About, load
from .errors import DataError
from .published import EDITIONS, Edition

State: TypeAlias = Literal["bundled", "here", "vouched", "wrong", "incomplete", "missing"]


@dataclass(frozen=True)
class Description:
    """A data set and whether it is here; only names and sizes of files were looked at.

    Args:
        name: of the data set.
        about: what is known of it.
        state: "bundled" inside another package; "here"; "vouched" for by the user; "wrong" or "incomplete" files; or
            "missing".
        place: its folder, if it has one.
        note: what a reader of results must know of this copy.
        download: how many bytes `get` would download; 0 if there is nothing to get.
    """

    name: str
    about: About
    state: State
    place: Path | None
    note: str
    download: int


@dataclass(frozen=True)
class Verdict:
    """What came of reading a data set and comparing its files with their hashes.

    Args:
        name: of the data set.
        state: "sound", "wrong", or "missing".
        message: its note, or what is wrong.
        fingerprint: of its contents, if it could be read.
    """

    name: str
    state: Literal["sound", "wrong", "missing"]
    message: str
    fingerprint: str


def chosen(names: Iterable[str] | None) -> list[str]:
    """These data sets, or all; an unknown name is an error."""
    return list(NAMES) if names is None else [choose_a("data set", name, NAMES) for name in names]


def describe(names: Iterable[str] | None = None, folder: Path | str | None = None) -> list[Description]:
    """What there is, and what of it is here. Nothing is read.

    >>> [one.name for one in describe(["digits", "diabetes"]) if one.state == "bundled"]
    ['digits', 'diabetes']
    """
    return [_describe(name, folder) for name in chosen(names)]


def _describe(name: str, folder: Path | str | None) -> Description:
    copy = None if name in BUNDLED else places.locate(places.copies(name, places.data_folder(folder)))
    if copy is not None:
        state, note = _state(copy)
        return Description(name, ABOUT[name], state, copy.place, note, 0)
    download = next((edition.size for edition in EDITIONS.get(name, ()) if edition.mirrors), 0)
    return Description(name, ABOUT[name], "missing" if download else "bundled", None, "", download)


def _state(copy: places.Copy) -> tuple[State, str]:
    if copy.missing:
        return "incomplete", f"without {', '.join(path.name for path in copy.missing)}"
    try:
        vouched = vouching.read(copy.place, copy.format)
    except DataError as error:
        return "wrong", str(error)
    sizes = {name: path.stat().st_size for name, path in copy.files.items()}

    def fits(edition: Edition) -> bool:
        return edition.format == copy.format and all(sizes[file.name] == file.size for file in edition.files)

    if vouched is not None and fits(vouched):
        return "vouched", vouched.note
    for edition in EDITIONS[copy.name]:
        if fits(edition):
            return "here", edition.note
    return "wrong", "files of a size that is neither published nor vouched for"


def verify(names: Iterable[str] | None = None, folder: Path | str | None = None) -> list[Verdict]:
    """Read these data sets, or all that are here, and say which are sound.

    >>> [verdict.state for verdict in verify(["digits"])]
    ['sound']
    """
    return [_verify(one, folder) for one in describe(names, folder)]


def _verify(one: Description, folder: Path | str | None) -> Verdict:
    try:
        dataset = load(one.name, folder)
    except (DataError, ValueError) as error:
        return Verdict(one.name, "missing" if one.state == "missing" else "wrong", str(error), "")
    return Verdict(one.name, "sound", dataset.note, dataset.fingerprint)
