"""Small studies: problems that take no time, trials that wait until they are told to go on, and a PostgreSQL server."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import optuna
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial

import camhd

SOURCES = str(Path(camhd.__file__).parents[1])

# A model that says where it is, and stays there while a file exists, or until Ctrl-C has been heard.
HELD = """
import os, signal, time
from pathlib import Path

import torch
from torch import nn

from camhd.lab import data

HERE = Path(__file__).parent


class Held(nn.Linear):
    def forward(self, x):
        (HERE / f"at-{os.getpid()}").touch()
        while (HERE / "hold").exists() and signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            time.sleep(0.02)
        return super().forward(x)


def network():
    return Held(4, 3)


def blobs():
    numbers = torch.Generator().manual_seed(0)
    labels = torch.arange(60) % 3
    points = torch.randn(60, 4, generator=numbers) + 2.0 * nn.functional.one_hot(labels, 4)
    return data.from_tensors("blobs", (points[:45], labels[:45]), (points[45:], labels[45:]))
"""
ARGUMENTS = (
    "--model",
    "held.py:network",
    "--data",
    "held.py:blobs",
    "--optimizer",
    "adam",
    "--search",
    "lr=1e-4..1:log",
)


def held(folder: Path) -> None:
    """Write the model that waits, and let it wait."""
    (folder / "held.py").write_text(HELD)
    (folder / "hold").touch()


def start(folder: Path, *arguments: object) -> subprocess.Popen:
    """`camhd tune` with the model that waits, as a process of its own."""
    command = [sys.executable, "-m", "camhd", "tune", *ARGUMENTS, "--epochs", "2", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": SOURCES, "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True, preexec_fn=_listen_to_ctrl_c
    )


def _listen_to_ctrl_c() -> None:
    """A shell's background jobs, and so all that they start, are deaf to it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def waiting(folder: Path, count: int, processes: list[subprocess.Popen]) -> list[int]:
    """The numbers of the processes that are in the middle of a trial, when there are so many."""
    until(lambda: len(list(folder.glob("at-*"))) >= count, processes)
    return sorted(int(place.name.removeprefix("at-")) for place in folder.glob("at-*"))


def until(true: Callable[[], bool], processes: list[subprocess.Popen]) -> None:
    """Wait for something that is bound to happen while these processes live."""
    while not true():
        ended = [process for process in processes if process.poll() is not None]
        assert not ended, ended[0].communicate()
        time.sleep(0.05)


def release(folder: Path) -> None:
    """Let every trial go on."""
    (folder / "hold").unlink()


def kill(number: int) -> None:
    """End a process as a power cut would."""
    os.kill(number, signal.SIGKILL)


def trials(url: str) -> list[FrozenTrial]:
    """Those of the only study at this address."""
    storage = RDBStorage(url)
    try:
        (name,) = optuna.study.get_all_study_names(storage)
        return optuna.load_study(study_name=name, storage=storage).trials
    finally:
        storage.remove_session()
        storage.engine.dispose()


def states(url: str) -> list[str]:
    """How they stand."""
    return [trial.state.name for trial in trials(url)]


def postgres_programs() -> Path | None:
    """Where the server's programs are: on the path, or where Debian puts them."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((folder for folder in reversed(folders) if (folder / "postgres").exists()), None)


@contextmanager
def postgres() -> Iterator[str]:
    """A PostgreSQL server in a temporary folder, reached by a socket in it and by nothing else; gives its URL."""
    programs = postgres_programs()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # pytest's own folders are closed to other users, and too long
    user = _user()
    if user is not None:
        shutil.chown(folder, user)
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}

    def run(*command: object) -> None:
        words = [*_as(user), *map(str, command)]
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    data, log = folder / "data", folder / "log"
    try:
        run(programs / "initdb", "-D", data, "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        run(programs / "pg_ctl", "-D", data, "-l", log, "-o", options, "-w", "start")
        try:
            yield f"postgresql+psycopg://tester@/postgres?host={folder}"
        finally:
            run(programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder)


def _user() -> str | None:
    """Whom the server runs as: it refuses root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def _as(user: str | None) -> list[str]:
    return (
        [] if user is None else ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--clear-groups"]
    )
