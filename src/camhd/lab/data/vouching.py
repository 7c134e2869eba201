"""Files that nobody published but that a user vouches for.

`camhd data add NAME PATH --note "what it is"` writes `vouched.json` beside them: the note, and the size and SHA-256 of
every file. From then on they are checked like published files, and the note goes wherever results are shown. Files that
are neither published nor vouched for are never read as data.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from .errors import DataError
from .formats import FORMATS
from .published import Edition, File

NAME = "vouched.json"
_VERSION = 1


def vouch(kind: str, contents: Mapping[str, bytes], note: str) -> Edition:
    """An edition of one's own."""
    files = (File(name, len(content), sha256=hashlib.sha256(content).hexdigest()) for name, content in contents.items())
    return Edition(kind, tuple(files), note=note)


def dump(edition: Edition) -> bytes:
    """The content of `vouched.json`."""
    files = {file.name: {"size": file.size, "sha256": file.sha256} for file in edition.files}
    record = {"version": _VERSION, "format": edition.format, "note": edition.note, "files": files}
    return (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode()


def read(place: Path, kind: str) -> Edition | None:
    """What is vouched for in this folder, in this format; None if nothing is."""
    file = place / NAME
    remedy = f"Remove {file}, and vouch for the files again: camhd data add NAME {place} --note 'what it is'"
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        if record["version"] != _VERSION:
            raise ValueError(f"version {record['version']}")
        if record["format"] != kind:
            return None
        names, note = FORMATS[kind].files, record["note"]
        if not (isinstance(note, str) and note.strip() and record["files"].keys() == set(names)):
            raise ValueError("no note, or other files")
        files = tuple(
            File(name, int(entry["size"]), sha256=str(entry["sha256"])) for name, entry in record["files"].items()
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        expected = f"a record of version {_VERSION} of what was vouched for"
        raise DataError(file, expected, f"{type(error).__name__}: {error}", remedy) from None
    return Edition(kind, files, note=note)
