"""Records as they are written: into a folder, or into memory for a run that nobody wants to keep."""

from __future__ import annotations

import contextlib
import os
from itertools import takewhile
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol

from . import files
from .checkpoint import CheckpointError, dump, load
from .config import RunConfig
from .read import CHECKPOINT, CONFIG, HISTORY, RESULT, read, read_config
from .run import Run, run_from_lines
from .text import from_json, to_json


class Record(Protocol):
    """Where a run writes what it does."""

    def append(self, line: dict[str, Any]) -> None:
        """Add a line to the history."""

    def save(self, state: dict[str, Any]) -> None:
        """Keep what is needed to go on from here."""

    def restore(self) -> dict[str, Any] | None:
        """What was kept last, with the history cut back to that moment; None to begin at the beginning."""

    def finish(self, result: dict[str, Any]) -> None:
        """Write the result; after this nothing changes any more."""

    def run(self) -> Run:
        """The run as it stands."""


class InMemory:
    """A record that is not kept."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._lines: list[dict[str, Any]] = []
        self._result: dict[str, Any] | None = None

    def append(self, line: dict[str, Any]) -> None:
        self._lines.append(from_json(to_json(line)))

    def save(self, state: dict[str, Any]) -> None:
        """Nothing outlives the process."""

    def restore(self) -> dict[str, Any] | None:
        return None

    def finish(self, result: dict[str, Any]) -> None:
        self._result = from_json(to_json(result))

    def run(self) -> Run:
        return run_from_lines(self._config, self._lines, self._result)


class InFolder:
    """A record in a folder of its own, `parent/<id>`; a context manager that holds the run's lock.

    Args:
        parent: the folder for runs; made if it is not there.
        config: of the run.
        resume: go on with an unfinished run; a finished one stays as it is.
        overwrite: begin again, whatever is there.

    Raises:
        FileExistsError: when there is a record already, and neither `resume` nor `overwrite` is given.
        RunLockedError: when another process works on this run.
        DiskError: when the disk refuses to be written, now or later; what was written before is whole.
    """

    def __init__(self, parent: str | Path, config: RunConfig, resume: bool = False, overwrite: bool = False) -> None:
        self.path: Path = Path(parent) / config.id
        self._config = config
        self._resume, self._overwrite = resume, overwrite
        self._lock = files.Lock(self.path)
        self._history: BinaryIO | None = None
        self._made: list[Path] = []  # folders above it that were not there, the nearest first

    @property
    def finished(self) -> bool:
        """Whether there is a result."""
        return (self.path / RESULT).exists()

    def __enter__(self) -> InFolder:
        self._made = list(takewhile(lambda folder: not folder.exists(), self.path.parents))
        try:
            with files.telling(self.path):
                self.path.mkdir(parents=True, exist_ok=True)
            self._lock.__enter__()
            try:
                self._open()
            except BaseException:
                self._lock.__exit__(None, None, None)
                raise
        except BaseException:
            self._remove_empty()
            raise
        return self

    def _open(self) -> None:
        files.remove_parts(self.path)
        exists = (self.path / CONFIG).exists()
        if exists and not self._overwrite:
            self._check()
        if not exists or self._overwrite:  # without a configuration there is no run yet
            files.write(self.path / CONFIG, self._config.to_json(), last=False, before=self._remove_old)
        with files.telling(self.path / HISTORY):
            if self.finished:
                (self.path / CHECKPOINT).unlink(missing_ok=True)
            else:
                self._history = (self.path / HISTORY).open("ab", buffering=0)

    def _remove_old(self) -> None:
        """Only when the disk has taken the new configuration. The result first: what is left never looks finished."""
        for name in (RESULT, CHECKPOINT, HISTORY):
            (self.path / name).unlink(missing_ok=True)

    def _remove_empty(self) -> None:
        if not (self.path / CONFIG).exists():
            with contextlib.suppress(OSError):  # somebody may have begun it, or another run beside it, meanwhile
                for folder in (self.path, *self._made):
                    folder.rmdir()

    def _check(self) -> None:
        if not self._resume:
            state = "a finished" if self.finished else "an unfinished"
            raise FileExistsError(
                f"There is {state} run in {str(self.path)!r}; 'resume' goes on with it (a finished one is taken as "
                "it is), 'overwrite' begins again."
            )
        different = self._config.differences(read_config(self.path))
        if different:
            name, (own, other) = next(iter(different.items()))
            raise ValueError(
                f"The run in {str(self.path)!r} has {name} {other!r}, but {own!r} was asked for; give 'overwrite' to "
                "begin again, or choose another folder."
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._history is not None:
            self._history.close()
        self._lock.__exit__(kind, error, trace)
        self._remove_empty()

    def append(self, line: dict[str, Any]) -> None:
        files.append(self._file, self.path / HISTORY, to_json(line).encode() + b"\n")

    def save(self, state: dict[str, Any]) -> None:
        length = self._sync()
        files.write_with(self.path / CHECKPOINT, lambda file: dump({**state, "history": length}, file))

    def restore(self) -> dict[str, Any] | None:
        path = self.path / CHECKPOINT
        state = load(path) if path.exists() else None
        length = 0 if state is None else state.pop("history")
        if self._file.seek(0, os.SEEK_END) < length:
            raise CheckpointError(
                f"{str(self.path / HISTORY)!r} is shorter than at the last checkpoint, so the run cannot go on; "
                "give 'overwrite' to begin again."
            )
        self._file.truncate(length)
        return state

    def finish(self, result: dict[str, Any]) -> None:
        self._sync()
        files.write(self.path / RESULT, to_json(result, indent=1) + "\n")
        (self.path / CHECKPOINT).unlink(missing_ok=True)

    def forget(self) -> None:
        """Remove a run that has nothing to go on from; what it wrote would only be in the way."""
        if self.finished or (self.path / CHECKPOINT).exists():
            return
        self._file.close()
        for name in (HISTORY, CONFIG):
            (self.path / name).unlink(missing_ok=True)

    def run(self) -> Run:
        return read(self.path)

    def _sync(self) -> int:
        """Everything that was appended is on the disk; gives the length."""
        with files.telling(self.path / HISTORY):
            os.fsync(self._file.fileno())
        return self._file.seek(0, os.SEEK_END)

    @property
    def _file(self) -> BinaryIO:
        if self._history is None:
            raise RuntimeError(f"The run in {str(self.path)!r} is finished, or not open.")
        return self._history
