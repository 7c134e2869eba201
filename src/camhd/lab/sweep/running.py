"""Carrying out a plan: round after round, until every run has a result or a traceback."""

from __future__ import annotations

import secrets
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from ..data import DataError
from ..records import DiskError, Run
from ..train import amx, own
from ..train.run import MINUTES
from .board import Board, Planned
from .claims import Observer, about_me
from .engines import Engine, Pool, choose_engine
from .places import Place, keep_plan, place
from .plan import Item, Plan
from .preparing import job_of
from .watch import Watcher
from .work import Task

BREAKDOWNS = 3  # of an engine, one after the other, without a run that ended or was under way


class EngineError(RuntimeError):
    """The engine cannot carry out runs any more; what is finished is finished."""


class Failure(NamedTuple):
    """A run that failed, and its traceback."""

    item: Item
    message: str


@dataclass(frozen=True)
class Outcome:
    """What became of a plan.

    Args:
        at: the place of the records.
        done: the ids of the runs that have a result, in the order of the plan.
        failed: the other ones.
    """

    at: Place
    done: Sequence[str]
    failed: Sequence[Failure]

    @cached_property
    def runs(self) -> list[Run]:
        """The records of the runs that have a result, in the order of the plan; they are read when asked for."""
        return [self.at.read(run) for run in self.done]

    def copied_to(self, folder: Path) -> Path:
        """A folder of this machine with the records: the sweep's own, or this one with copies from an object path."""
        return self.at.copied_to(folder, self.done)


def run(
    plan: Plan | Iterable[Item],
    folder: str | Path,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    threads: int | None = None,
    retries: int = 1,
    watcher: Watcher | None = None,
    *,
    retry_failed: bool = False,
    checkpoint_minutes: float = MINUTES,
) -> Outcome:
    """Carry out those runs of a plan that are not finished yet, several at a time.

    Ctrl-C (or SIGTERM) ends all runs after the step that is under way, with checkpoints, and raises
    `KeyboardInterrupt`; the same call goes on from there. Any number of processes and machines may work on one folder
    at the same time.

    Args:
        plan: the runs.
        folder: where their records lie; a path, or a URL that fsspec knows.
        engine: "local" (processes), "ray" or "dask" (clusters), "here" (this process, one run after another).
        address: of the cluster.
        workers: runs at a time; as many as there are cores for if not given.
        threads: of the CPU for each run; local: the cores divided by the workers; 1 elsewhere.
        retries: how often a run that fails is tried again before its traceback is kept.
        watcher: is told how it goes.
        retry_failed: try runs again that have failed in an earlier sweep.
        checkpoint_minutes: between two checkpoints of a run.

    Example:
        >>> plan = Plan.grid(model="ffnn:8", optimizer=["adam", "adam-hd"], epochs=1, seeds=2)
        >>> outcome = run(plan, getfixture("tmp_path"), engine="here")
        >>> len(outcome.runs), outcome.failed
        (4, [])
    """
    if retries < 0:
        raise ValueError(f"'retries' must be 0 or more, got {retries}.")
    plan = plan if isinstance(plan, Plan) else Plan("sweep", tuple(plan))
    gpus = int(any(item.device.startswith("cuda") for item in plan.items))
    chosen = choose_engine(engine, address, workers, threads, len(plan), gpus)
    if any(item.dtype == "bfloat16" for item in plan.items):
        amx.leave_alone_if_broken()  # before a worker's first run, which may be in float32
    planned, at = prepared(plan, chosen.remote), place(str(folder))
    keep_plan(at, plan.name, {key: one.item.as_dict() for key, one in planned.items()})
    if retry_failed:
        for key in at.failed(planned):
            at.forget_failure(key)
    session = secrets.token_hex(6)
    with Board(at, planned, session, watcher or Watcher()) as board:
        if board.left:
            with chosen.connected() as pool, _signals(board.stop):
                tasks = _tasks(plan, planned, chosen, at.where, session, retries, checkpoint_minutes)
                _Rounds(board, at, pool, tasks, watcher or Watcher()).carry_out()
    _tidy(at, {key: planned[key] for key in board.done})
    if board.stopping:
        raise KeyboardInterrupt
    failed = [Failure(one.item, at.failure(key)) for key, one in planned.items() if key in board.failed]
    return Outcome(at, [key for key in planned if key in board.done], failed)


def prepared(plan: Plan, remote: bool = False) -> dict[str, Planned]:
    """The runs of a plan by id, every one of them checked.

    Args:
        plan: the plan.
        remote: the device of a run need not be one of this machine's.
    """
    own.look_in(plan.path)
    planned: dict[int, Planned] = {}
    for number, item in sorted(enumerate(plan.items), key=_data):
        try:
            job = job_of(item, "cpu" if remote else None)
        except DataError:
            raise  # no fault of the run's, and it says what to do
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"run {number + 1} of the plan {plan.name!r} ({item}): {error}") from error
        config = replace(job.config, device=item.device)
        planned[number] = Planned(item, config, job.source.dataset.task)
    found: dict[str, Planned] = {}
    for _, one in sorted(planned.items()):
        found.setdefault(one.config.id, one)  # the same one twice is one
    return found


def _data(numbered: tuple[int, Item]) -> tuple[str, str]:
    """Runs are prepared data set by data set, so that each is read once and not once for every seed."""
    return str(numbered[1].data), numbered[1].split


def _tidy(at: Place, done: Mapping[str, Planned]) -> None:
    """Remove what workers left behind that were killed when they had just finished a run."""
    for seen in at.claims():
        claim = at.claim(seen.run, about_me()) if seen.run in done and seen.alive is False else None
        if claim is not None:
            at.tidy(done[seen.run].config)
            claim.release()


def _tasks(
    plan: Plan, planned: dict[str, Planned], engine: Engine, where: str, session: str, retries: int, minutes: float
) -> dict[str, Task]:
    return {
        key: Task(
            item=one.item,
            config=one.config,
            where=where,
            session=session,
            threads=engine.threads,
            retries=retries,
            minutes=minutes,
            path=plan.path,
            parent=engine.parent,
        )
        for key, one in planned.items()
    }


class _Rounds:
    """Sends what is left to the engine, again and again: a run may be in other hands, and an engine may break.

    A run that was under way when the engine broke may be why, or may have been killed with it. After `retries` such
    breaks it is carried out alone, and if it breaks the engine then, it has failed.
    """

    def __init__(self, board: Board, at: Place, pool: Pool, tasks: dict[str, Task], watcher: Watcher) -> None:
        self._board, self._at, self._pool, self._tasks, self._watcher = board, at, pool, tasks, watcher
        self._observer = Observer()
        self._breaks: Counter[str] = Counter()
        self._known: set[tuple[str, int]] = set()  # claims that an earlier break left behind
        self._idle = 0

    def carry_out(self) -> None:
        while not self._board.stopping:
            self._board.look()
            if not self._board.left:
                return
            ready = self._ready()
            together = [task for task in ready if self._breaks[task.config.id] <= task.retries]
            got_on = self._send(together or ready[:1], alone=not together) if ready else False
            if not got_on:  # all is in other hands
                self._board.rest()

    def _ready(self) -> list[Task]:
        """What nobody works on; with the generation of a dead owner's claim, where there is one."""
        claims = {seen.run: seen for seen in self._at.claims()}
        found = []
        for run in self._board.left:
            seen = claims.get(run)
            if seen is None:
                found.append(replace(self._tasks[run], after=0))
            elif self._observer.dead(seen):
                found.append(replace(self._tasks[run], after=seen.generation))
        return found

    def _send(self, tasks: Sequence[Task], alone: bool) -> bool:
        """Carry out tasks; gives whether any of them was not in other hands."""
        left = len(self._board.left)
        try:
            reports = self._pool.carry_out(tasks, alone)
        except DiskError as error:  # which the next run would find full, too
            raise EngineError(str(error)) from error
        except Exception as error:
            self._watcher.broken(error)
            self._board.look()
            suspects = self._under_way()
            self._idle = 0 if suspects or len(self._board.left) < left else self._idle + 1
            if self._idle >= BREAKDOWNS:
                raise EngineError(f"the engine breaks again and again, and no run gets on: {error}") from error
            self._breaks.update(suspects)
            if alone and tasks[0].config.id in self._board.left:
                self._give_up(tasks[0], f"{type(error).__name__}: {error}")
            return True
        self._idle = 0
        stopped = [report.run for report in reports if report.how == "stopped"]
        self._breaks.update(stopped)
        if alone and stopped and not self._board.stopping:
            self._give_up(tasks[0], "it was asked to end (SIGTERM), or the run called sys.exit()")
        return any(report.how != "busy" for report in reports)

    def _under_way(self) -> list[str]:
        """The runs that this sweep has claimed since the last break and not let go of, though nobody works any more."""
        session, left = next(iter(self._tasks.values())).session, set(self._board.left)
        mine = [seen for seen in self._at.claims() if seen.run in left and seen.about.get("session") == session]
        new = [seen.run for seen in mine if (seen.run, seen.generation) not in self._known]
        self._known = {(seen.run, seen.generation) for seen in mine}
        return new

    def _give_up(self, task: Task, why: str) -> None:
        """Keep what is known of a run that has ended its process when nothing else was beside it."""
        run = task.config.id
        newest = {seen.run: seen.generation for seen in self._at.claims()}.get(run, 0)
        claim = self._at.claim(run, about_me(session=task.session), after=newest)
        if claim is None:
            return
        try:
            self._at.fail(
                task.config,
                f"The process of this run ended without a word {self._breaks[run]} times, the last time with no other "
                "run beside it: it was killed, ran out of memory, or crashed in compiled code. The engine says:\n"
                f"{why}\n",
            )
        finally:
            claim.release()


@contextmanager
def _signals(stop: Callable[[], Any]) -> Iterator[None]:
    """The first SIGINT or SIGTERM asks the sweep to stop; the second acts as usual."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def ask(number: int, frame: FrameType | None) -> None:
        stop()
        back()

    for number in before:
        signal.signal(number, ask)
    try:
        yield
    finally:
        back()
