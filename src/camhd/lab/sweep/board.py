"""What a sweep knows of its runs: read from the place of the records, so that it is true whoever did the work."""

from __future__ import annotations

import contextlib
import math
import threading
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import monotonic, perf_counter, sleep
from types import TracebackType

from ..records import RunConfig
from ..records.read import last_line
from ..train.tasks import TASKS
from .places import Place
from .plan import Item
from .watch import Ended, Running, Standing, Watcher
from .work import stop_name


@dataclass(frozen=True)
class Planned:
    """A run of the plan.

    Args:
        item: of the plan.
        config: its configuration.
        task: of its data: classification, regression or language.
    """

    item: Item
    config: RunConfig
    task: str


class Board:
    """Looks at the place of the records now and then, in a thread, and tells a watcher; passes on the wish to stop.

    Args:
        at: the place of the records.
        planned: the runs, by id.
        session: of the sweep.
        watcher: who looks on.
    """

    def __init__(self, at: Place, planned: Mapping[str, Planned], session: str, watcher: Watcher) -> None:
        self._at, self._planned, self._session, self._watcher = at, planned, session, watcher
        self.stopping = False  # somebody wants it to stop
        self._over = False
        self._calls: SimpleQueue[None] = SimpleQueue()  # an Event may not be set by what a signal calls
        self._lock = threading.Lock()
        self._began = perf_counter()
        self._told = False
        self.done = at.finished(planned)
        self.failed = at.failed(planned.keys() - self.done)
        self._before = len(self.done) + len(self.failed)
        self._best: dict[str, Ended] = {}
        self._latest = ""
        for run in sorted(self.done):
            self._count(self._ended(run))
        self._thread = threading.Thread(target=self._run, name="camhd-sweep-board", daemon=True)

    @property
    def left(self) -> list[str]:
        """The runs that have not ended, in the order of the plan."""
        return [run for run in self._planned if run not in self.done and run not in self.failed]

    def __enter__(self) -> Board:
        self._watcher.changed(self.standing())
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._calls.put(None)
        self._thread.join()
        self.look()
        if self._told:
            self._at.remove(stop_name(self._session))

    def stop(self) -> None:
        """Ask all who work on these runs to stop; a signal may call this at any moment."""
        self.stopping = True
        self._calls.put(None)

    def rest(self) -> None:
        """Wait until it is time for another look, or until somebody wants it to stop."""
        until = monotonic() + self._at.look_every
        while not self.stopping and monotonic() < until:
            sleep(0.05)

    def _run(self) -> None:
        while not self._over:
            with contextlib.suppress(Empty):
                self._calls.get(timeout=0.5 if self._told else self._at.look_every)
            try:
                self.look()
            except Exception:  # the place may be out of reach for a while, and the runs go on
                traceback.print_exc()

    def look(self) -> None:
        """See what has ended, and who is under way."""
        with self._lock:
            if self.stopping and not self._told:
                self._at.put(stop_name(self._session), "")
                self._told = True
            done = self._at.finished(self.left)
            failed = self._at.failed(set(self.left) - done)
            self.done |= done
            self.failed |= failed
            for run in sorted(done | failed):
                ended = self._ended(run)
                self._count(ended)
                self._watcher.ended(ended)
            self._watcher.changed(self.standing())

    def _ended(self, run: str) -> Ended:
        planned = self._planned[run]
        config, task = planned.config, TASKS[planned.task]
        problem = f"{config.data} {config.model} {config.split}"
        if run in self.failed:
            message = last_line(self._at.failure(run))
            label = config.label
            return Ended(run, planned.item, label, "failed", task.metric, math.nan, message=message, problem=problem)
        result = self._at.result(run)
        return Ended(
            run=run,
            item=planned.item,
            label=config.label,
            status=str(result["status"]),
            metric=task.metric,
            value=float(result["final"].get(f"valid_{task.metric}", math.nan)),
            seconds=float(result["time"]["seconds"]),
            problem=problem,
            higher=task.higher,
        )

    def _count(self, ended: Ended) -> None:
        self._latest = ended.problem
        if ended.better(self._best.get(ended.problem)):
            self._best[ended.problem] = ended

    def standing(self) -> Standing:
        """Where it stands."""
        ended, seconds = len(self.done) + len(self.failed), perf_counter() - self._began
        now, total = ended - self._before, len(self._planned)
        return Standing(
            total=total,
            done=len(self.done),
            failed=len(self.failed),
            before=self._before,
            running=self.running(),
            best=self._best.get(self._latest),
            seconds=seconds,
            left=seconds / now * (total - ended) if now else None,
        )

    def running(self) -> list[Running]:
        """The runs of the plan that are claimed by somebody who is not known to be dead."""
        found = []
        for seen in self._at.claims():
            about = seen.about
            if seen.run in self._planned and seen.alive is not False and seen.run not in self.done:
                with contextlib.suppress(KeyError):  # a claim that is just being written
                    found.append(
                        Running(
                            run=seen.run,
                            label=str(about["label"]),
                            seed=int(about["seed"]),
                            host=str(about["host"]),
                            step=int(about.get("step", 0)),
                            steps=int(about.get("steps", 0)),
                            mine=about["session"] == self._session,
                        )
                    )
        return found
