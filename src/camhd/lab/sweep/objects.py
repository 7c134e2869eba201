"""Records in an object store, or wherever else fsspec leads: s3://bucket/folder, gs://…, memory://….

A run is carried out in a folder of this machine and sent when it is finished, `config.json` last. Whoever looks for
`config.json`, as every reader of records does, never sees half of a run. Its checkpoints stay on the machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
import secrets
import shutil
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..data.places import user_cache
from ..records import Run, RunConfig, read
from ..records.read import CONFIG, FAILURE, HISTORY, RESULT
from ..records.text import from_json
from ..train import Job, Watcher, execute
from .claims import Claims, Seen, machine
from .optional import needed
from .places import HIDDEN, Held

FEW = 4  # runs that are looked at one by one


def local_path(url: str) -> Path | None:
    """The folder that a URL such as file:///data/runs stands for; None if it leads elsewhere."""
    system, path = _opened(url)
    local = needed("fsspec.implementations.local", "cluster").LocalFileSystem
    return Path(path) if isinstance(system, local) else None


def _opened(url: str) -> tuple[Any, str]:
    fsspec = needed("fsspec", "cluster")
    try:
        system, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise ValueError(f"'folder' {url!r} cannot be opened: {error}") from None
    return system, str(path).rstrip("/")


class Objects:
    """An object path.

    Args:
        url: as fsspec writes it.
        scratch: where this machine works on runs that are under way; in the user's cache if not given.
    """

    look_every = 10.0

    def __init__(self, url: str, scratch: Path | None = None) -> None:
        self.where = url
        self._system, self._root = _opened(url)
        name = hashlib.sha256(url.encode()).hexdigest()[:12]
        # With the machine's name, because homes may be shared, and what is under way must not be.
        self._scratch = scratch or user_cache() / "camhd" / "sweeps" / name / platform.node()
        self._local = Claims(self._scratch / HIDDEN / "claims")

    def _path(self, *parts: str) -> str:
        return "/".join([self._root, *parts])

    def _names(self, folder: str) -> set[str]:
        """Of everything in a folder, as it is now."""
        self._system.invalidate_cache()
        with contextlib.suppress(FileNotFoundError):
            return {str(path).rstrip("/").rpartition("/")[2] for path in self._system.ls(folder, detail=False)}
        return set()

    def _files(self, runs: Collection[str]) -> dict[str, set[str]]:
        """The names of the files of some runs: one look at everything, unless they are few."""
        if len(runs) <= FEW:
            return {run: self._names(self._path(run)) for run in runs}
        found: dict[str, set[str]] = {}
        self._system.invalidate_cache()
        with contextlib.suppress(FileNotFoundError):
            for path in self._system.find(self._root):
                *_, run, name = ("", *str(path).split("/"))
                found.setdefault(run, set()).add(name)
        return found

    def finished(self, runs: Collection[str]) -> set[str]:
        files = self._files(runs)
        return {run for run in runs if {CONFIG, RESULT} <= files.get(run, set())}

    def failed(self, runs: Collection[str]) -> set[str]:
        files = self._files(runs)
        return {run for run in runs if FAILURE in files.get(run, ()) and RESULT not in files[run]}

    def begun(self, runs: Collection[str]) -> set[str]:
        return {run for run in runs if (self._scratch / run / CONFIG).exists()}

    def _read(self, run: str, name: str) -> str:
        text: bytes = self._system.cat_file(self._path(run, name))
        return text.decode(errors="replace")

    def result(self, run: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = from_json(self._read(run, RESULT))
        return found

    def failure(self, run: str) -> str:
        return self._read(run, FAILURE)

    def read(self, run: str) -> Run:
        return read(self.fetch(run, self._scratch / "copies"))

    def fetch(self, run: str, folder: Path) -> Path:
        """Copy a record into a folder of this machine, unless it is there."""
        names = self._names(self._path(run)) & {CONFIG, HISTORY, RESULT, FAILURE}
        result = self._read(run, RESULT) if RESULT in names else None
        target = folder / run
        if result is None or not (target / RESULT).exists() or (target / RESULT).read_text(encoding="utf-8") != result:
            part = folder / f".{run}.{secrets.token_hex(4)}"
            part.mkdir(parents=True)
            for name in names:
                self._system.get_file(self._path(run, name), str(part / name))
            shutil.rmtree(target, ignore_errors=True)
            part.rename(target)
        return target

    def copied_to(self, folder: Path, runs: Collection[str]) -> Path:
        for run in runs:
            self.fetch(run, folder)
        return folder

    def work(self, job: Job, overwrite: bool, minutes: float, watcher: Watcher) -> Run:
        run, folder = job.config.id, self._scratch / job.config.id
        done = execute(job, self._scratch, not overwrite, overwrite, minutes, watcher)
        if not self.finished([run]):  # somebody may have taken this machine for dead, and have been faster
            self.forget_failure(run)
            for name in (HISTORY, RESULT, CONFIG):
                self._write(self._path(run, name), (folder / name).read_bytes())
        shutil.rmtree(folder)
        return done

    def fail(self, config: RunConfig, failure: str) -> None:
        self._write(self._path(config.id, FAILURE), failure.encode())
        self._write(self._path(config.id, CONFIG), config.to_json().encode())

    def forget_failure(self, run: str) -> None:
        if FAILURE in self._names(self._path(run)):
            for name in (CONFIG, FAILURE):
                with contextlib.suppress(FileNotFoundError):
                    self._system.rm_file(self._path(run, name))

    def tidy(self, config: RunConfig) -> None:
        shutil.rmtree(self._scratch / config.id, ignore_errors=True)

    def claim(self, run: str, about: Mapping[str, Any], after: int = 0) -> Held | None:
        """On this machine first, where a lock tells; then for all machines."""
        local = self._local.take(run, about)
        if local is None:
            return None
        about = {**about, "scratch": str(self._scratch)}
        generation = self.newest().get(run, 0)
        seen = self._seen(run, generation)
        # With this machine's claim in hand, no other process of it has the run, whatever it has left behind.
        dead = seen is None or self._is_mine(seen) or generation == after
        remote = _Remote(self, f"{run}.{generation + 1}", about, local)
        if not dead or not remote.create():
            local.release()
            return None
        return remote

    def newest(self) -> dict[str, int]:
        """The newest generation of every run that is claimed."""
        found: dict[str, int] = {}
        for name in self._names(self._path(HIDDEN, "claims")):
            run, _, generation = name.rpartition(".")
            if run and generation.isdigit():
                found[run] = max(int(generation), found.get(run, 0))
        return found

    def claims(self) -> list[Seen]:
        found = (self._seen(run, generation) for run, generation in self.newest().items())
        return [seen for seen in found if seen is not None]

    def _seen(self, run: str, generation: int) -> Seen | None:
        text = self.get(f"claims/{run}.{generation}") if generation else None
        if text is None:
            return None
        seen = Seen(run, generation, None, text)
        if not self._is_mine(seen):
            return seen
        local = self._local.look(run)
        return replace(seen, alive=local is not None and local.alive is not False)

    def _is_mine(self, seen: Seen) -> bool:
        """Whether a process of this machine made it, with a claim in this folder of the machine, too."""
        return (seen.about.get("machine"), seen.about.get("scratch")) == (machine(), str(self._scratch))

    def put(self, name: str, text: str) -> None:
        self._write(self._path(HIDDEN, name), text.encode())

    def _write(self, path: str, value: bytes, **options: str) -> None:
        try:
            self._system.pipe_file(path, value, **options)
        except FileNotFoundError:  # there are folders here, and this one is new
            self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._system.pipe_file(path, value, **options)

    def create(self, name: str, text: str) -> bool:
        """Put a text where there is none; False if there is one."""
        try:
            self._write(self._path(HIDDEN, name), text.encode(), mode="create")
        except FileExistsError:
            return False
        return self.get(name) == text  # where the store knows no "create", the last to write has it

    def get(self, name: str) -> str | None:
        with contextlib.suppress(FileNotFoundError):
            text: bytes = self._system.cat_file(self._path(HIDDEN, name))
            return text.decode(errors="replace")
        return None

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._system.rm_file(self._path(HIDDEN, name))

    def names(self) -> list[str]:
        return sorted(name for name in self._names(self._path(HIDDEN)) if "." in name)


class _Remote:
    """A claim for all machines, and with it the one for this machine."""

    def __init__(self, at: Objects, name: str, about: Mapping[str, Any], local: Held) -> None:
        self._at, self._name, self._local = at, name, local
        self._about, self._beats = dict(about), 0
        self._text = ""

    def create(self) -> bool:
        self._text = json.dumps({**self._about, "beat": 0})
        return self._at.create(f"claims/{self._name}", self._text)

    def beat(self, **more: Any) -> bool:
        run, _, own = self._name.rpartition(".")
        if (
            self._at.newest().get(run, 0) > int(own)
            or self._at.get(f"claims/{self._name}") != self._text
            or not self._local.beat(**more)
        ):
            return False
        self._beats += 1
        self._about |= more
        self._text = json.dumps({**self._about, "beat": self._beats})
        self._at.put(f"claims/{self._name}", self._text)
        return True

    def release(self) -> None:
        run, _, own = self._name.rpartition(".")
        if self._at.get(f"claims/{self._name}") == self._text:
            for generation in range(1, int(own) + 1):  # what dead owners left, first
                self._at.remove(f"claims/{run}.{generation}")
        self._local.release()
