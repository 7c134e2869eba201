"""Who works on which run: claims, so that several sweeps on one folder never do a run twice.

A claim is a file `<run>.<generation>` that only one process can create (`O_EXCL`, which network file systems keep,
too). Its owner holds a lock on it, which the operating system lets go of when the owner ends in any way, and writes a
new beat into it every few seconds. So a claim is dead

- at once, if nobody holds its lock and its owner was on this machine;
- after `LEASE` seconds without a new beat, if its owner was on another one, whose locks may not be seen here.

Whoever takes over a dead claim creates the next generation, which again only one process can. An owner that finds a
newer generation, after a pause that was longer than the lease, has lost the run and leaves it alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from ..records.files import HELD, take, telling

BEAT = 5.0  # seconds between two beats
LEASE = 60.0  # seconds without a beat after which a claim of another machine is dead; more than file systems cache


def now() -> float:
    """Seconds that go on while the machine sleeps, because other machines' clocks do."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


@cache
def machine() -> str:
    """One name for everything that shares a kernel, and with it the locks of files; another one after a restart."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return platform.node()


def about_me(**more: Any) -> dict[str, Any]:
    """What a claim says of its owner."""
    return {"machine": machine(), "host": platform.node(), "pid": os.getpid(), **more}


@dataclass(frozen=True)
class Seen:
    """A claim as another process sees it.

    Args:
        run: its id.
        generation: the newest there is.
        alive: True or False where that is certain; None where only a new beat can tell.
        text: what it says now; any change is a beat.
    """

    run: str
    generation: int
    alive: bool | None
    text: str

    @property
    def about(self) -> Mapping[str, Any]:
        """What its owner says; empty while it is being written."""
        with contextlib.suppress(ValueError):
            found = json.loads(self.text)
            return found if isinstance(found, dict) else {}
        return {}


@dataclass
class Observer:
    """Remembers since when claims have not changed, by this machine's clock."""

    _since: dict[str, tuple[str, float]] = field(default_factory=dict)

    def dead(self, seen: Seen) -> bool:
        """Whether its owner has ended, as far as can be told by now."""
        if seen.alive is not None:
            return not seen.alive
        text, since = self._since.get(seen.run, ("", 0.0))
        if text != f"{seen.generation} {seen.text}":
            self._since[seen.run] = (f"{seen.generation} {seen.text}", now())
            return False
        return now() - since > LEASE


class Claim:
    """A claim that this process holds.

    Args:
        path: of its file.
        handle: of the open file, whose lock is held.
        about: what it says.
    """

    def __init__(self, path: Path, handle: int, about: Mapping[str, Any]) -> None:
        self._path, self._handle = path, handle
        self._run, _, generation = path.name.rpartition(".")
        self._generation = int(generation)
        self._about, self._beats = dict(about), 0
        self._write()

    def beat(self, **more: Any) -> bool:
        """Say that this process is alive; gives False if the run now belongs to another."""
        if not self._is_mine() or max(_generations(self._path.parent, self._run), default=0) > self._generation:
            return False
        self._about |= more
        self._write()
        os.fsync(self._handle)  # network file systems keep it to themselves before
        return True

    def release(self) -> None:
        """Let go of it: its work is done, or somebody else may do it."""
        if self._is_mine():
            for generation in sorted(_generations(self._path.parent, self._run)):  # the dead ones first, then this
                if generation <= self._generation:
                    (self._path.parent / f"{self._run}.{generation}").unlink(missing_ok=True)
        os.close(self._handle)

    def _write(self) -> None:
        self._beats += 1
        text = json.dumps({**self._about, "beat": self._beats}).encode()
        os.lseek(self._handle, 0, os.SEEK_SET)
        os.write(self._handle, text + b"\n" + b" " * max(0, 400 - len(text)))  # in one piece, over what was there

    def _is_mine(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._handle), os.stat(self._path))
        except OSError:
            return False


class Claims:
    """The claims of a folder.

    Args:
        folder: where they lie; made when the first is made.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, run: str, about: Mapping[str, Any], after: int = 0) -> Claim | None:
        """Claim a run; None if it has an owner.

        Args:
            run: its id.
            about: what the claim says of its owner.
            after: the generation whose owner is known to be dead.
        """
        with telling(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        newest = self.look(run)
        if newest is not None and newest.alive is not False and newest.generation != after:
            return None
        path = self._folder / f"{run}.{(newest.generation if newest else 0) + 1}"
        with telling(path):
            try:
                handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
            except FileExistsError:
                return None
            _lock(handle)
            try:
                return Claim(path, handle, about)
            except OSError:
                path.unlink(missing_ok=True)
                os.close(handle)
                raise

    def look(self, run: str) -> Seen | None:
        """The newest claim of a run."""
        generation = max(_generations(self._folder, run), default=0)
        return None if generation == 0 else _seen(self._folder / f"{run}.{generation}")

    def all(self) -> list[Seen]:
        """The newest claims of all runs, dead ones too."""
        newest: dict[str, int] = {}
        for run, generation in _listed(self._folder):
            newest[run] = max(generation, newest.get(run, 0))
        found = (_seen(self._folder / f"{run}.{generation}") for run, generation in newest.items())
        return [seen for seen in found if seen is not None]


def _generations(folder: Path, run: str) -> list[int]:
    return [generation for name, generation in _listed(folder) if name == run]


def _listed(folder: Path) -> Iterator[tuple[str, int]]:
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(folder):
            run, _, generation = name.rpartition(".")
            if run and generation.isdigit():
                yield run, int(generation)


def _seen(path: Path) -> Seen | None:
    run, _, generation = path.name.rpartition(".")
    try:
        handle = os.open(path, os.O_RDWR)
    except OSError:  # it has just been let go of
        return None
    try:
        text = os.read(handle, 4096).decode(errors="replace").partition("\n")[0]
        held = _is_held(handle)
    finally:
        os.close(handle)
    seen = Seen(run, int(generation), True if held else None, text)
    here = seen.about.get("machine") == machine()
    return replace(seen, alive=False) if held is False and here else seen


def _lock(handle: int) -> None:
    """Take the lock of a new file. Somebody may be looking at it just now, with a lock for a moment."""
    for _ in range(1000):
        try:
            take(handle)
        except OSError as error:
            if error.errno not in HELD:
                return  # this file system has no locks; beats must do
            time.sleep(0.001)
        else:
            return


def _is_held(handle: int) -> bool | None:
    """Whether somebody holds the lock of an open file; None where there are no locks."""
    try:
        take(handle, shared=True)
    except OSError as error:
        return True if error.errno in HELD else None
    return False
