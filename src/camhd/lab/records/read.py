"""Records read back. An unfinished run is a run; a damaged one is reported and never stops the reading of others."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .config import RunConfig
from .run import Run, Runs, run_from_lines
from .text import from_json

CONFIG, HISTORY, RESULT, CHECKPOINT = "config.json", "history.jsonl", "result.json", "checkpoint.pt"
FAILURE = "failure.txt"  # the traceback of a run that failed in a sweep
Folders = str | Path | Iterable[str | Path]


def load(folders: Folders) -> Runs:
    """All runs in a folder, or in several, however deep they lie.

    Example:
        `camhd.lab.load("runs").results` is a pandas table with one row for each run, `.epochs` one with a row for each
        epoch, and `.rates` one with a row for each rate.
    """
    runs, problems = [], []
    for folder in find(folders):
        try:
            runs.append(read(folder))
        except (OSError, ValueError) as error:
            problems.append(str(error))
    return Runs(tuple(runs), (*problems, *(problem for run in runs for problem in run.problems)))


def find(folders: Folders) -> list[Path]:
    """The folders that hold a run, in order; each once.

    A path that does not exist is an error; a folder without runs gives none.
    """
    given = [folders] if isinstance(folders, (str, Path)) else list(folders)
    found: dict[Path, Path] = {}
    for folder in map(Path, given):
        if not folder.is_dir():
            raise FileNotFoundError(f"There is no folder {str(folder)!r}; give a run's folder, or one with runs in it.")
        for run in _below(folder):
            found.setdefault(run.resolve(), run)
    return list(found.values())


def _below(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders.sort()
        if CONFIG in files:
            yield Path(place)
            folders.clear()  # a run holds no runs


def read(folder: str | Path) -> Run:
    """One run; what was wrong with its history is in `problems`, and what came before is kept.

    A folder without a readable `config.json` is no run: a `ValueError` says so.
    """
    folder = Path(folder)
    config = read_config(folder)
    problems: list[str] = []
    lines = read_history(folder / HISTORY, problems)
    result = _read_result(folder / RESULT, problems)
    failure = _read_failure(folder / FAILURE, problems) if result is None else ""
    return run_from_lines(config, lines, result, folder, tuple(problems), failure)


def read_config(folder: Path) -> RunConfig:
    """The configuration of the run in a folder."""
    try:
        return RunConfig.from_json((folder / CONFIG).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{str(folder)!r} holds no run: it has no {CONFIG}.") from None
    except (ValueError, TypeError) as error:
        raise ValueError(f"{str(folder / CONFIG)!r} cannot be read: {error}") from None


def read_history(path: Path, problems: list[str]) -> list[dict[str, Any]]:
    """The lines of a history up to the first one that cannot be read.

    A last line without its end is what a killed process was writing; it is left out and is no problem.
    """
    try:
        whole, _, _ = path.read_bytes().rpartition(b"\n")
    except FileNotFoundError:
        return []
    lines: list[dict[str, Any]] = []
    for number, text in enumerate(whole.split(b"\n") if whole else (), start=1):
        try:
            line = from_json(text.decode())
            if not isinstance(line, dict) or "kind" not in line:
                raise ValueError("it has no 'kind'")
        except ValueError as error:
            problems.append(f"{str(path)!r} is damaged at line {number} ({error}); what follows is left out.")
            break
        lines.append(line)
    return lines


def _read_result(path: Path, problems: list[str]) -> dict[str, Any] | None:
    try:
        result = from_json(path.read_text(encoding="utf-8"))
        if not isinstance(result, dict) or not {"status", "final"} <= result.keys():
            raise ValueError("it has no 'status' and 'final'")
    except FileNotFoundError:
        return None
    except ValueError as error:
        problems.append(f"{str(path)!r} is damaged ({error}); the run counts as unfinished.")
        return None
    return result


def last_line(failure: str) -> str:
    """What a traceback ends with: the error itself."""
    return next((line.strip() for line in reversed(failure.splitlines()) if line.strip()), "")


def _read_failure(path: Path, problems: list[str]) -> str:
    try:
        failure = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    problems.append(f"the run failed: {last_line(failure)} ({str(path)!r} has the whole of it)")
    return failure
