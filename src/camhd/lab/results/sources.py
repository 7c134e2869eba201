"""The sources that a record was made with: another commit of camhd, unpacked, and at work in a process of its own.

The last bits of a run depend on how its kernels round, and kernels change. The project's history has them all.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import camhd

from .. import records
from ..bench.environment import git
from ..data.places import user_cache
from ..plans.measuring import Measurement
from ..records import Run, RunConfig
from ..records.text import from_json, to_json

HERE = Path(camhd.__file__).parent
PACKAGE = "src/camhd"  # in the project
# What the other sources are asked to do; they need only what has been there since the first record.
_BEGIN = """
import sys, camhd, torch
from pathlib import Path
assert Path(sys.argv[4]) in Path(camhd.__file__).parents, f"Python took {camhd.__file__} instead"
torch.set_num_threads(int(sys.argv[1]))
"""
_TRAIN = """
from camhd.lab.records import RunConfig
from camhd.lab.train import again, execute
execute(again(RunConfig.from_json(Path(sys.argv[2]).read_text())), sys.argv[3], overwrite=True)
"""
_MEASURE = """
from camhd.lab.plans import measuring
from camhd.lab.plans.running import KINDS
from camhd.lab.records.text import from_json, to_json
asked = from_json(Path(sys.argv[2]).read_text())
values = measuring.calculate(measuring.Measurement(asked["kind"], asked["arguments"]), KINDS)
Path(sys.argv[3]).write_text(to_json(values))
"""


@dataclass(frozen=True)
class Sources:
    """The sources of a commit, unpacked.

    Args:
        commit: its full name.
        folder: the one that Python looks for the package in.
    """

    commit: str
    folder: Path

    def train(self, config: RunConfig, parent: str | Path) -> Run:
        """A run with these sources, on as many threads as this process has; it gets a folder in `parent`.

        Raises:
            ValueError: They refuse it, or fail; it says why.
        """
        self._call(_TRAIN, config.to_json(), Path(parent).absolute())
        return records.read(Path(parent) / config.id)

    def measure(self, measurement: Measurement) -> Mapping[str, Any]:
        """What a measurement gives with these sources.

        Raises:
            ValueError: They refuse it, or fail; it says why.
        """
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "values.json"
            asked = {"kind": measurement.kind, "arguments": dict(measurement.arguments)}
            self._call(_MEASURE, to_json(asked), path)
            values: Mapping[str, Any] = from_json(path.read_text(encoding="utf-8"))
        return values

    def _call(self, script: str, asked: str, to: Path) -> None:
        path = os.pathsep.join([str(self.folder), *filter(None, [os.environ.get("PYTHONPATH")])])
        with tempfile.TemporaryDirectory() as place:
            file = Path(place) / "asked.json"
            file.write_text(asked, encoding="utf-8")
            words = [torch.get_num_threads(), file, to, self.folder]
            command = [sys.executable, "-c", _BEGIN + script, *map(str, words)]
            done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
        if done.returncode != 0:
            said = done.stderr.strip().rpartition("\n")[2] or f"it ended with {done.returncode}"
            raise ValueError(f"the sources of {self.commit[:9]} cannot repeat it: {said}")


def of_commit(commit: str | None, package: Path = HERE, cache: Path | None = None) -> Sources | None:
    """The sources of a commit of a project; None if they cannot be had, or are the present ones.

    A record may come from anywhere, and its word is not trusted: only what is in the history of the present sources is
    ever run.

    Args:
        commit: its full name; with a "+" behind it nobody knows what the files were.
        package: the present sources, in a clone of the project.
        cache: where those of the commit are unpacked, once; None for a folder in the user's cache.

    Raises:
        ValueError: The disk does not take them.
    """
    if not isinstance(commit, str) or not re.fullmatch("[0-9a-f]{40}", commit):
        return None
    try:
        project = Path(git(package, "rev-parse", "--show-toplevel"))
        if package.resolve() != (project / PACKAGE).resolve():
            return None
        git(project, "merge-base", "--is-ancestor", commit, "HEAD")
        if not git(project, "diff", "--name-only", commit, "--", PACKAGE):
            return None
    except (OSError, subprocess.CalledProcessError):  # no git, no repository, not in its history
        return None
    folder = (cache or user_cache() / "camhd" / "sources") / commit
    try:
        if not folder.exists():
            _unpack(project, commit, folder)
    except (OSError, subprocess.CalledProcessError, tarfile.TarError) as error:
        raise ValueError(f"the sources of {commit[:9]} cannot be unpacked into {str(folder)!r}: {error}") from error
    return Sources(commit, folder / Path(PACKAGE).parent)


def _unpack(project: Path, commit: str, folder: Path) -> None:
    """All of it or nothing: whoever comes at the same time finds it whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        archive, unpacked = Path(place) / "sources.tar", Path(place) / "sources"
        git(project, "archive", "--format=tar", f"--output={archive}", commit, PACKAGE)
        with tarfile.open(archive) as packed:
            packed.extractall(unpacked, filter="data")
        try:
            unpacked.rename(folder)
        except OSError:
            if not folder.exists():  # somebody else was faster
                raise
