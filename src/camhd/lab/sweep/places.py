"""Where the records of a sweep lie: a folder, which may be shared between machines, or an object path (`objects`)."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from ..records import InFolder, Run, RunConfig, RunLockedError, read
from ..records.files import telling, write
from ..records.read import CONFIG, FAILURE, RESULT
from ..records.text import from_json
from ..train import Job, Watcher, execute
from .claims import Claims, Seen

HIDDEN = ".sweep"  # beside the runs' folders: claims, plans, and who has been asked to stop


class Held(Protocol):
    """A claim that this process holds."""

    def beat(self, **more: Any) -> bool:
        """Say that this process is alive; gives False if the run now belongs to another."""

    def release(self) -> None:
        """Let go of it."""


class Place(Protocol):
    """Where records lie, and everything that a sweep does there. A run is called by its id."""

    where: str
    look_every: float  # seconds; looking costs more where each look is a request

    def finished(self, runs: Collection[str]) -> set[str]:
        """Those that have a result."""

    def failed(self, runs: Collection[str]) -> set[str]:
        """Those that have a traceback, and no result."""

    def begun(self, runs: Collection[str]) -> set[str]:
        """Those that can go on from a checkpoint, as far as this machine can see."""

    def result(self, run: str) -> Mapping[str, Any]:
        """The contents of `result.json`."""

    def failure(self, run: str) -> str:
        """The traceback."""

    def read(self, run: str) -> Run:
        """The record."""

    def copied_to(self, folder: Path, runs: Collection[str]) -> Path:
        """A folder of this machine with those records: the place itself, if it is one, else this one with copies."""

    def work(self, job: Job, overwrite: bool, minutes: float, watcher: Watcher) -> Run:
        """Carry out a job that is claimed, or go on with it."""

    def fail(self, config: RunConfig, failure: str) -> None:
        """Keep the traceback of a run that is claimed."""

    def forget_failure(self, run: str) -> None:
        """Remove the traceback of a run."""

    def tidy(self, config: RunConfig) -> None:
        """Remove everything but the record of a run that is finished and claimed."""

    def claim(self, run: str, about: Mapping[str, Any], after: int = 0) -> Held | None:
        """Claim a run; None if it has an owner. `after` is the generation whose owner is known to be dead."""

    def claims(self) -> list[Seen]:
        """All claims, dead ones too."""

    def put(self, name: str, text: str) -> None:
        """Keep a text beside the runs."""

    def get(self, name: str) -> str | None:
        """That text; None if there is none."""

    def remove(self, name: str) -> None:
        """Remove it."""

    def names(self) -> list[str]:
        """Of all such texts."""


def place(where: str) -> Place:
    """The place that a path, or a URL that fsspec knows, leads to."""
    return opened(where) if "://" in where or "::" in where else Folder(Path(where))


@lru_cache(maxsize=8)
def opened(where: str) -> Place:
    """The place of a URL; opened once, because that may take a while."""
    from .objects import Objects, local_path

    path = local_path(where)
    return Folder(path) if path is not None else Objects(where)


class Folder:
    """A folder on this machine, or one that several machines share."""

    look_every = 1.0

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self._claims = Claims(self._folder / HIDDEN / "claims")
        self.where = str(self._folder)

    def finished(self, runs: Collection[str]) -> set[str]:
        return {run for run in runs if os.path.exists(f"{self.where}/{run}/{RESULT}")}

    def failed(self, runs: Collection[str]) -> set[str]:
        found = {run for run in runs if os.path.exists(f"{self.where}/{run}/{FAILURE}")}
        return found - self.finished(found)

    def begun(self, runs: Collection[str]) -> set[str]:
        return {run for run in runs if (self._folder / run / CONFIG).exists()}

    def result(self, run: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = from_json((self._folder / run / RESULT).read_text(encoding="utf-8"))
        return found

    def failure(self, run: str) -> str:
        return (self._folder / run / FAILURE).read_text(encoding="utf-8", errors="replace")

    def read(self, run: str) -> Run:
        return read(self._folder / run)

    def copied_to(self, folder: Path, runs: Collection[str]) -> Path:
        return self._folder

    def work(self, job: Job, overwrite: bool, minutes: float, watcher: Watcher) -> Run:
        run = execute(job, self._folder, not overwrite, overwrite, minutes, watcher)
        self.forget_failure(job.config.id)
        return run

    def fail(self, config: RunConfig, failure: str) -> None:
        with InFolder(self._folder, config, resume=True) as record:  # it has a configuration now, and a lock
            if not record.finished:
                write(record.path / FAILURE, failure)

    def forget_failure(self, run: str) -> None:
        (self._folder / run / FAILURE).unlink(missing_ok=True)

    def tidy(self, config: RunConfig) -> None:
        with contextlib.suppress(RunLockedError), InFolder(self._folder, config, resume=True):
            pass  # to open and to close it is enough

    def claim(self, run: str, about: Mapping[str, Any], after: int = 0) -> Held | None:
        return self._claims.take(run, about, after)

    def claims(self) -> list[Seen]:
        return self._claims.all()

    def put(self, name: str, text: str) -> None:
        path = self._folder / HIDDEN / name
        with telling(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        write(path, text)

    def get(self, name: str) -> str | None:
        with contextlib.suppress(FileNotFoundError):
            return (self._folder / HIDDEN / name).read_text(encoding="utf-8")
        return None

    def remove(self, name: str) -> None:
        (self._folder / HIDDEN / name).unlink(missing_ok=True)

    def names(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return sorted(path.name for path in (self._folder / HIDDEN).iterdir() if path.is_file())
        return []


def keep_plan(at: Place, name: str, runs: Mapping[str, Mapping[str, Any]]) -> None:
    """Write down which runs a plan has, so that `camhd sweep --status` can count them."""
    at.put(f"{name}.json", json.dumps({"name": name, "runs": runs}, indent=1) + "\n")


def kept_plans(at: Place) -> dict[str, dict[str, Any]]:
    """The runs of every plan that was ever started here, by its name."""
    texts = {name: at.get(name) for name in at.names() if name.endswith(".json")}
    return {name.removesuffix(".json"): json.loads(text)["runs"] for name, text in texts.items() if text}
