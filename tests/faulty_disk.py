"""A disk that refuses: at the n-th thing that is asked of it, with any errno, and after taking a part of it."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


class Disk:
    """Counts what it is asked to do below a folder, and refuses the n-th: open, write, fsync, rename, mkdir, lock.

    Args:
        refuse: the number of the request that fails; None to count only.
        code: what it says.
        takes: the part of a refused write that is on the disk all the same.
    """

    def __init__(self, refuse: int | None = None, code: int = errno.ENOSPC, takes: float = 0.0) -> None:
        self.asked = 0
        self.log: list[str] = []
        self._refuse, self._code, self._takes = refuse, code, takes

    def ask(self, what: str) -> bool:
        """Count a request; True if it is to be refused."""
        self.log.append(what)
        self.asked += 1
        return self.asked - 1 == self._refuse

    def refusal(self) -> OSError:
        return OSError(self._code, os.strerror(self._code))

    def check(self, what: str) -> None:
        if self.ask(what):
            raise self.refusal()

    @contextlib.contextmanager
    def below(self, folder: Path) -> Iterator[Disk]:
        """While this is open, requests below the folder are counted."""
        real_open, real_mkdir = pathlib.Path.open, os.mkdir
        real: dict[str, Any] = {name: getattr(os, name) for name in ("open", "write", "fsync", "replace")}
        mine: set[int] = set()

        def path_open(path: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
            if "b" not in mode or mode == "rb" or not path.is_relative_to(folder):
                return real_open(path, mode, *args, **options)
            self.check(f"open {path.name}")
            file = _File(self, real_open(path, mode, *args, **options))
            mine.add(file.fileno())
            return file

        def os_open(path: Any, flags: int, *args: Any, **options: Any) -> int:
            ours = isinstance(path, Path) and path.is_relative_to(folder)
            if ours and flags & os.O_CREAT:
                self.check(f"create {path.name}")
            handle: int = real["open"](path, flags, *args, **options)
            if ours:
                mine.add(handle)
            return handle

        def os_write(handle: int, content: bytes) -> int:
            if handle in mine:
                self.check("write by handle")
            return int(real["write"](handle, content))

        def fsync(handle: int) -> None:
            if handle in mine:
                self.check("fsync")
            real["fsync"](handle)

        def replace(source: Any, target: Any) -> None:
            if Path(target).is_relative_to(folder):
                self.check("rename")
            real["replace"](source, target)

        def mkdir(path: Any, *args: Any, **options: Any) -> None:
            if Path(path).is_relative_to(folder) and not Path(path).exists():
                self.check("mkdir")
            real_mkdir(path, *args, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pathlib.Path, "open", path_open)
            for name, function in {"open": os_open, "write": os_write, "fsync": fsync, "replace": replace}.items():
                patch.setattr(os, name, function)
            patch.setattr(os, "mkdir", mkdir)
            yield self


class _File:
    """An open file whose writes are counted."""

    def __init__(self, disk: Disk, file: Any) -> None:
        self._disk, self._file = disk, file

    def write(self, content: Any) -> int:
        if self._disk.ask("write"):
            part = bytes(content)[: int(len(content) * self._disk._takes)]
            self._file.write(part)
            raise self._disk.refusal()
        return int(self._file.write(content))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


@contextlib.contextmanager
def small_disk(folder: Path, size: str, options: str = "") -> Iterator[Path]:
    """A real disk of a few kilobytes; the test is skipped where none may be mounted."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}{options}", "tmpfs", str(folder)]
    if os.name != "posix" or os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk can be mounted by root only")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
