"""On what a benchmark ran: machine, versions, commit."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import torch

import camhd

PACKAGES = ("torch", "numpy", "numba", "llvmlite")


@dataclass(frozen=True)
class Environment:
    """What a reader needs to judge the numbers."""

    started: str
    system: str
    processor: str
    cores: int
    load: float | None  # of the last minute, before the start: the machine should be idle
    threads: int
    versions: Mapping[str, str | None]
    commit: str | None  # of camhd, if it runs from a git tree; with a + if files differ from it


def look_around(threads: int) -> Environment:
    """The environment now."""
    return Environment(
        started=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        system=platform.platform(),
        processor=_processor(),
        cores=cores(),
        load=round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        threads=threads,
        versions={"camhd": camhd.__version__, "python": platform.python_version(), **_versions()},
        commit=_commit(Path(camhd.__file__).parent),
    )


def _versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return {**found, "torch": torch.__version__}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def cores() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _commit(folder: Path) -> str | None:
    try:
        git(folder, "ls-files", "--error-unmatch", "__init__.py")  # else it is the commit of something around camhd
        changed = git(folder, "status", "--porcelain", "--", ".")
        return git(folder, "rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def git(folder: Path, *arguments: str) -> str:
    """What git says in a folder.

    Raises:
        OSError: There is no git.
        subprocess.CalledProcessError: It refuses.
    """
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
