"""Reading out of a packed archive, whatever was put into it.

Nothing is ever written: the members that are wanted are read into memory, by name, while the archive streams by. An
archive that tries to be clever is refused as a whole.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Collection
from pathlib import Path, PurePosixPath, PureWindowsPath

from .errors import DataError

LIMIT = 2**29  # bytes that an archive may unpack to; CIFAR-10 has 0.18 · 10⁹


def members(content: bytes, file: Path, wanted: Collection[str], remedy: str) -> dict[str, bytes]:
    """The members of a .tar.gz with these names, in whichever folder of it.

    Args:
        content: of the archive.
        file: for errors.
        wanted: the names.
        remedy: for errors.
    """
    unpacked = _Limited(gzip.GzipFile(fileobj=io.BytesIO(content)), file, remedy)
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=unpacked, mode="r|") as archive:
            for member in archive:
                _refuse(member, file, remedy)
                name = PurePosixPath(member.name).name
                if name not in wanted or not member.isreg():
                    continue
                if name in found:
                    raise DataError(file, f"one member {name!r}", "two", remedy)
                stream = archive.extractfile(member)
                found[name] = b"" if stream is None else stream.read()
        while unpacked.read(2**16):
            pass  # on to the end, where gzip compares its checksum
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise DataError(file, "a whole .tar.gz archive", f"a damaged one ({error})", remedy) from None
    for name in wanted:
        if name not in found:
            raise DataError(file, f"a member {name!r}", f"{', '.join(sorted(found)) or 'none of those wanted'}", remedy)
    return found


def _refuse(member: tarfile.TarInfo, file: Path, remedy: str) -> None:
    """No member may point out of the archive, be a link or a device, or claim more than it holds."""
    name, windows = PurePosixPath(member.name), PureWindowsPath(member.name)
    if name.is_absolute() or windows.drive or windows.root or ".." in name.parts or ".." in windows.parts:
        raise DataError(file, "members below its own folder", f"{member.name!r}", remedy)
    if not (member.isdir() or member.type in (tarfile.REGTYPE, tarfile.AREGTYPE)) or member.issparse():
        kind = "a link" if member.issym() or member.islnk() else "a special file"
        raise DataError(file, "plain files and folders only", f"{kind}, {member.name!r}", remedy)
    if member.size > LIMIT:
        raise DataError(file, f"members of at most {LIMIT:,} bytes", f"{member.name!r} with {member.size:,}", remedy)


class _Limited(io.RawIOBase):
    """A stream that ends with an error after `LIMIT` bytes."""

    def __init__(self, stream: io.BufferedIOBase, file: Path, remedy: str) -> None:
        self.stream, self.file, self.remedy = stream, file, remedy
        self.left = LIMIT

    def read(self, size: int = -1) -> bytes:
        piece = self.stream.read(min(size, self.left + 1) if size >= 0 else self.left + 1)
        self.left -= len(piece)
        if self.left < 0:
            raise DataError(
                self.file, f"an archive that unpacks to at most {LIMIT:,} bytes", "one that goes on", self.remedy
            )
        return piece
