"""Several processes on one machine that share a study."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..records import RunConfig
from ..train.interrupt import Interrupt, heard, unheard
from .storage import GRACE, StudyError, connected, open_study, quiet
from .task import Task
from .trial import PAUSE, Ended, Onlooker
from .worker import work

if TYPE_CHECKING:
    from optuna.study import Study


@dataclass(frozen=True)
class Order:
    """What a process is told to do.

    Args:
        make: gives the task; called in the process that works on it.
        url: of the storage.
        study: its name.
        folder: for the records.
        limit: how many trials the study is to have.
        seconds: after which no trial is begun.
        grace: seconds without a sign of life, after which a process counts as dead.
        threads: of torch; None for torch's choice.
    """

    make: Callable[[], Task]
    url: str
    study: str
    folder: Path
    limit: int
    seconds: float = math.inf
    grace: int = GRACE
    threads: int | None = None


def alone(order: Order, task: Task, study: Study, onlooker: Onlooker) -> None:
    """This process works."""
    before = torch.get_num_threads()
    try:
        if order.threads is not None:
            torch.set_num_threads(order.threads)
        work(task, study, order.folder, order.limit, onlooker, until=time.monotonic() + order.seconds)
    finally:
        torch.set_num_threads(before)


def together(order: Order, workers: int, onlooker: Onlooker) -> None:
    """So many processes work, and this one looks on.

    A process that is killed is missed by the others, who go on without it. Ctrl-C (or SIGTERM) ends all of them
    between two steps.

    Raises:
        StudyError: all of them died before the study had its trials.
    """
    context = multiprocessing.get_context("spawn")
    crew: dict[Connection, BaseProcess] = {}
    with Interrupt() as interrupt:
        try:
            for _ in range(workers):
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_member, args=(order, theirs), daemon=True)
                with unheard():
                    process.start()
                theirs.close()
                crew[ours] = process
            ends = _listen(crew, onlooker, interrupt)
        finally:
            _dismiss(crew)
        if interrupt:
            interrupt.raise_now()
    if workers and not any(end == 0 for end in ends):
        raise StudyError("All processes ended before the study had its trials; the same call goes on with it.")


def _listen(crew: Mapping[Connection, BaseProcess], onlooker: Onlooker, interrupt: Interrupt) -> list[int | None]:
    """Pass on what the processes say until all of them have ended; gives their exit codes."""
    open_ones, heard, told = set(crew), set[Any](), False
    while open_ones:
        for connection in wait(list(open_ones), timeout=PAUSE):
            assert isinstance(connection, Connection)
            try:
                name, arguments = connection.recv()
            except (EOFError, OSError):
                open_ones.discard(connection)
                continue
            heard.add(connection)
            getattr(onlooker, name)(*arguments)
        if interrupt and not told:
            told = True
            for connection, process in crew.items():
                if connection not in heard:
                    process.terminate()  # it has not begun, and does not listen yet
                elif process.pid is not None and process.is_alive():
                    os.kill(process.pid, signal.SIGINT)
    for process in crew.values():
        process.join()
    return [process.exitcode for process in crew.values()]


def _dismiss(crew: Mapping[Connection, BaseProcess]) -> None:
    """After a second Ctrl-C, or an error here: nobody is left behind."""
    for connection, process in crew.items():
        if process.is_alive():
            process.kill()
        process.join()
        connection.close()


class _Speaker:
    """Tells another process; without one, the work has nobody to go on for."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def _say(self, name: str, *arguments: Any) -> None:
        try:
            self._connection.send((name, arguments))
        except BrokenPipeError:
            raise KeyboardInterrupt from None

    def epoch(self, trial: int, config: RunConfig, epoch: int, loss: float) -> None:
        self._say("epoch", trial, config, epoch, loss)

    def ended(self, trial: Ended) -> None:
        self._say("ended", trial)

    def count(self, done: int, best: float | None) -> None:
        self._say("count", done, best)


def _member(order: Order, connection: Connection) -> None:
    """What each of the processes does."""
    if hasattr(os, "setsid"):
        os.setsid()  # Ctrl-C at a terminal is for the one that looks on, who passes it on once
    try:
        heard()
        task = order.make()
        with quiet(), connected(order.url, order.grace) as storage:
            alone(order, task, open_study(task, storage, order.study), _Speaker(connection))
    except (KeyboardInterrupt, SystemExit):
        sys.exit(130)
    except StudyError as error:
        sys.exit(str(error))
