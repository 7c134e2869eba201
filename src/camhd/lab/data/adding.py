"""`camhd data add`: a data set that is already on the disk."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ..choices import choose_a
from . import places, vouching, writing
from .catalogue import BUNDLED, NAMES, build
from .errors import DataError, MissingData
from .formats import FORMATS, KINDS
from .inventory import Description, describe
from .places import Copy
from .published import Edition

LIMIT = 2**30  # bytes of a file that nobody published


def add(name: str, path: Path | str, note: str | None = None, folder: Path | str | None = None) -> Description:
    """Take over a data set from another folder.

    Published files are recognised by their hashes and copied into the data folder. Other files in the same formats are
    taken only with a note, which says that you vouch for them and what they are; the note and the files' hashes are
    kept beside them, and the note goes wherever results are shown.

    Args:
        name: of the data set.
        path: a folder with its files, or one of the files.
        note: what it is, if it is not what was published.
        folder: the data folder; by default `CAMHD_DATA`, or else a folder in the user's cache.
    """
    choose_a("data set", name, NAMES)
    if name in BUNDLED:
        raise ValueError(f"{name!r} needs no files; there is nothing to add.")
    if note is not None and not note.strip():
        raise ValueError("'note' must say what the files are, got an empty one.")
    source, contents = _source(name, Path(path).expanduser(), folder)
    root = places.data_folder(folder)
    target = Copy(name, root / places.HOMES[name][0] / FORMATS[source.format].folders[0], source.format)
    if source.place.resolve() in {copy.place.resolve() for copy in places.copies(name, root)}:
        target = source  # where it is found anyway
    edition, contents = _checked(source, contents, note, folder)
    build(name, source, contents, edition.note, _vouch(name, source, folder))
    if target != source:
        target, contents = places.unpack(target, contents, root, _vouch(name, source, folder))
    _require_free(target, contents, root)
    files = {name: content for name, content in contents.items() if not (target.place / name).exists()}
    if edition.vouched:
        files[vouching.NAME] = vouching.dump(edition)  # last: without it the files before it are not taken
    if files:
        writing.put(target.place, files)
    return describe([name], folder)[0]


def _source(name: str, path: Path, folder: Path | str | None) -> tuple[Copy, dict[str, bytes] | None]:
    """The files to take, and for a text its content, which may have any name."""
    wanted = "; or ".join(", ".join(FORMATS[kind].files) for kind in KINDS[name])
    remedy = f"Give the folder that holds them: camhd data add {name} PATH"
    if not path.exists():
        raise MissingData(path, "a file or folder", "nothing", remedy)
    if name == "text" and path.is_file():
        size = path.stat().st_size
        _require_small(path, size)
        return Copy(name, path.parent, "text"), {FORMATS["text"].files[0]: places.read(path, size, remedy)}
    if path.is_file():
        kinds = [kind for kind in KINDS[name] if path.name in FORMATS[kind].files]
        candidates = [Copy(name, path.parent, kind) for kind in kinds]
    else:
        candidates = list(places.copies(name, path, dict.fromkeys(["", *places.HOMES[name]])))
    copy = places.locate(candidates)
    if copy is None:
        raise MissingData(path, f"the files of {name} ({wanted})", "none of them", remedy)
    return copy, None


def _checked(
    source: Copy, contents: dict[str, bytes] | None, note: str | None, folder: Path | str | None
) -> tuple[Edition, dict[str, bytes]]:
    remedy = _vouch(source.name, source, folder)
    if contents is None:
        try:
            edition, contents = places.check(source, remedy)
            return (replace(edition, note=note.strip()) if edition.vouched and note else edition), contents
        except MissingData:
            raise
        except DataError:
            if note is None:
                raise
        contents = {}
        for name, path in source.files.items():
            _require_small(path, size := path.stat().st_size)
            contents[name] = places.read(path, size, remedy)
    if note is None:
        raise DataError(source.place, "a file that is published or vouched for", "a text of your own", remedy)
    return vouching.vouch(source.format, contents, note.strip()), contents


def _require_small(path: Path, size: int) -> None:
    if size > LIMIT:
        raise DataError(path, f"at most {LIMIT:,} bytes", f"{size:,} bytes", "Give a smaller file.")


def _require_free(target: Copy, contents: Mapping[str, bytes], root: Path) -> None:
    """Nothing is overwritten, and what is added is what will be found."""
    for copy in places.copies(target.name, root):
        if copy == target:
            break
        if not copy.missing:
            raise DataError(copy.place, "no other copy", "one", "It would be read instead: remove it first.")
    for name, content in contents.items():
        path = target.place / name
        if path.exists() and (not path.is_file() or path.read_bytes() != content):
            remedy = "Remove it first, or choose another folder with --folder or CAMHD_DATA."
            raise DataError(path, "no file, or the same one", "another file", remedy)


def _vouch(name: str, source: Copy, folder: Path | str | None) -> str:
    where = "" if folder is None else f" --folder {shlex.quote(str(folder))}"
    command = f"camhd data add {name} {shlex.quote(str(source.place))}{where} --note 'what it is'"
    return f"If it should be the published file, get it: camhd data get {name}{where}. If you vouch for it: {command}."
