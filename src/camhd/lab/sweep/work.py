"""What a worker does with one run: claim it, carry it out, say how it ended."""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Literal, NamedTuple

import torch

from ..records import CheckpointError, DiskError, Run, RunConfig, RunLockedError
from ..train import Progress, Watcher, own
from .claims import BEAT, LEASE, about_me, now
from .places import Held, Place, place
from .plan import Item
from .preparing import job_like

GRACE = 60.0  # seconds that a run has for its checkpoint when the sweep was killed
# The seed of a run is the process's: a process carries out one run at a time, whatever an engine's threads do.
_ONE = threading.Lock()


@dataclass(frozen=True)
class Task:
    """One run, as it is sent to a worker.

    Args:
        item: of the plan.
        config: the run that it must be.
        where: the place of the records.
        session: of the sweep that sends it.
        threads: of the CPU.
        retries: how often it is tried again when it fails.
        minutes: between two checkpoints.
        path: a folder in which modules are looked for, too.
        after: the generation of a claim whose owner is known to be dead.
        parent: the process with which this one ends; None to go on without it.
    """

    item: Item
    config: RunConfig
    where: str
    session: str
    threads: int = 1
    retries: int = 1
    minutes: float = 5.0
    path: str | None = None
    after: int = 0
    parent: int | None = None


class Report(NamedTuple):
    """What became of a task; `busy` if the run is in other hands, `stopped` if the worker was asked to end."""

    run: str
    how: Literal["finished", "failed", "busy", "stopped"]


class ClaimLostError(BaseException):
    """Another process has taken over this run; nothing of it may be touched any more, not even to tidy up."""


def carry_out(task: Task) -> Report:
    """Carry out a run, unless it is in other hands. Errors of the run are kept in its folder, not raised."""
    run = task.config.id
    if task.parent is not None:
        _belong_to(task.parent)
    with _ONE:
        own.look_in(task.path)
        at = place(task.where)
        if _asked_to_stop(task, at):
            return Report(run, "stopped")
        claim = at.claim(
            run, about_me(session=task.session, label=task.config.label, seed=task.config.seed), task.after
        )
        if claim is None:
            return Report(run, "busy")
        try:
            return _claimed(task, at, claim)
        finally:
            claim.release()


def _claimed(task: Task, at: Place, claim: Held) -> Report:
    run = task.config.id
    if at.finished([run]):
        return Report(run, "finished")
    if at.failed([run]):
        return Report(run, "failed")
    if torch.get_num_threads() != task.threads:
        torch.set_num_threads(task.threads)
    try:
        with Pulse(task, at, claim) as pulse:
            failure = _attempts(task, at, pulse)
            if failure is None:
                return Report(run, "finished")
            at.fail(task.config, failure)
            return Report(run, "failed")
    except (RunLockedError, ClaimLostError):
        return Report(run, "busy")
    except (KeyboardInterrupt, SystemExit):
        return Report(run, "stopped")


def _attempts(task: Task, at: Place, pulse: Pulse) -> str | None:
    """Try, and try again; the last traceback, or None if it went well."""
    failure, begin_again = "", False
    for _ in range(task.retries + 1):
        try:
            at.work(job_like(task.item, task.config), begin_again, task.minutes, pulse)
        except (RunLockedError, DiskError):
            raise  # neither is the run's fault
        except Exception as error:
            failure = traceback.format_exc()
            begin_again = isinstance(error, CheckpointError)
        else:
            return None
    return failure


def _asked_to_stop(task: Task, at: Place) -> bool:
    orphan = task.parent is not None and os.getppid() != task.parent
    return orphan or at.get(stop_name(task.session)) is not None


def stop_name(session: str) -> str:
    """The text whose presence asks the workers of a sweep to stop."""
    return f"stop.{session}"


@cache
def _belong_to(parent: int) -> None:
    """This process is another's worker: it leaves Ctrl-C to that one, and does not outlive it."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def wait() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        _ONE.acquire(timeout=GRACE)  # the run that is under way stops, with a checkpoint
        os._exit(1)

    threading.Thread(target=wait, name="camhd-sweep-parent", daemon=True).start()


class Pulse(Watcher):
    """While this is open, a thread says that the run is alive, and looks whether it should stop."""

    def __init__(self, task: Task, at: Place, claim: Held) -> None:
        self._task, self._at, self._claim = task, at, claim
        self._progress: Progress | None = None
        self._told = now()
        self._stop = self._lost = False
        self._over = threading.Event()
        self._one = threading.Lock()
        self._thread = threading.Thread(target=self._look, name="camhd-sweep-pulse", daemon=True)

    def __enter__(self) -> Pulse:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def begun(self, progress: Progress) -> None:
        self._progress = progress

    def stops(self) -> bool:
        if now() - self._told > LEASE / 2:  # the machine slept, or the thread had no chance: look before going on
            self._beat()
        if self._lost:
            raise ClaimLostError
        return self._stop

    def ended(self, run: Run) -> None:
        self._progress = None

    def _look(self) -> None:
        while not self._over.wait(self._at.look_every):
            try:
                self._stop = self._stop or _asked_to_stop(self._task, self._at)
            except Exception:  # a network that is down for a while is no reason to end a run
                traceback.print_exc()
            if now() - self._told >= BEAT:
                self._beat()

    def _beat(self) -> None:
        progress = self._progress
        more = {} if progress is None else {"step": progress.step, "steps": progress.steps}
        with self._one:
            try:
                self._lost = self._lost or not self._claim.beat(**more)
            except Exception:  # likewise; if it lasts, another machine takes over, and a later beat will tell
                traceback.print_exc()
            self._told = now()
