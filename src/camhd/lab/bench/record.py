"""From settings to a record: the tasks, one after another, and what came out of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch

from . import measure
from .cases import CASES, RULES, Case, Contestant, baselines, camhd_contestant, matrix, torch_contestant
from .environment import Environment, look_around
from .first_step import first_steps
from .peers import installed, peers
from .results import Entry, Failure, Peer, Result, StepTime
from .settings import Scope, Settings
from .timing import Effort


@dataclass(frozen=True)
class Task:
    """One piece of work that gives some results."""

    what: str
    title: str
    work: Callable[[], Iterator[Result]]


@dataclass(frozen=True)
class Record:
    """A benchmark that has run."""

    settings: Settings
    environment: Environment
    results: tuple[Result, ...]
    peers: tuple[Peer, ...]
    complete: bool  # False: it was interrupted

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What could not be measured."""
        return tuple(result for result in self.results if isinstance(result, Failure))

    def of(self, what: str) -> tuple[Result, ...]:
        """What was measured for one measurement."""
        return tuple(r for r in self.results if r.what == what and not isinstance(r, Failure))

    def as_dict(self) -> dict[str, Any]:
        """For JSON: what it ran on, then a list for each measurement."""
        asked_for = [*self.settings.what, *(["peers"] if self.settings.peers else [])]
        names = dict.fromkeys([*asked_for, *(result.what for result in self.results)])
        return {
            "complete": self.complete,
            "environment": asdict(self.environment),
            "settings": asdict(self.settings),
            "results": {what: [asdict(result) for result in self.of(what)] for what in names},
            "failures": [asdict(failure) for failure in self.failures],
            "peers": [asdict(peer) for peer in self.peers],
        }


def run(settings: Settings, on_task: Callable[[int, int, Task], None] = lambda number, total, task: None) -> Record:
    """Measure. An interrupt (Ctrl-C) ends it, and what was measured until then is kept.

    Args:
        settings: what to measure.
        on_task: called before each task, with its number (from 1), how many there are, and the task.
    """
    results: list[Result] = []
    complete = True
    with _threads(settings.threads) as threads:
        environment = look_around(threads)
        tasks = plan(settings, threads)
        try:
            for number, task in enumerate(tasks, start=1):
                on_task(number, len(tasks), task)
                _collect(task, results)
        except KeyboardInterrupt:
            complete = False
    return Record(settings, environment, tuple(results), peers() if settings.peers else (), complete)


def _collect(task: Task, results: list[Result]) -> None:
    """Each result is kept as it comes, and an error (no memory left, say) ends this task only."""
    try:
        for result in task.work():
            results.append(result)
    except Exception as error:
        about = Entry(task.what, task.title, 0, "", "", (), "", "")
        results.append(Failure(**vars(about), error=measure.message(error)))


def plan(settings: Settings, threads: int) -> list[Task]:
    """All that the settings ask for, in order."""
    planners: dict[str, Callable[[Settings, Scope], list[Task]]] = {
        "steps": _steps,
        "growth": _growth,
        "share": _share,
        "memory": _memory,
        "first-step": partial(_first_step, threads=threads),
    }
    tasks = [task for what in settings.what for task in planners[what](settings, settings.scope(what))]
    return tasks + (_peers(settings, settings.scope("peers")) if settings.peers else [])


def _steps(settings: Settings, scope: Scope) -> list[Task]:
    cases = [CASES[name] for name in scope.models]
    return [_race("steps", case, rule, settings, scope) for case in cases for rule in scope.classes]


def _growth(settings: Settings, scope: Scope) -> list[Task]:
    cases = [matrix(size) for size in settings.sizes]
    return [_race("growth", case, rule, settings, scope) for case in cases for rule in scope.classes]


def _race(what: str, case: Case, rule: str, settings: Settings, scope: Scope) -> Task:
    against = baselines(rule, scope.backends, scope.levels)
    effort = Effort(settings.budget)
    return Task(
        what,
        f"{case.title}, {rule}",
        lambda: measure.steps(what, case, against, _contestants(rule, scope), effort, settings.memory),
    )


def _share(settings: Settings, scope: Scope) -> list[Task]:
    def task(case: Case, rule: str) -> Task:
        field = _all_of(rule, scope)
        return Task("share", f"{case.title}, {rule}", lambda: measure.share(case, field, Effort(settings.budget)))

    trainable = [case for case in map(CASES.__getitem__, scope.models) if case.batch is not None]
    return [task(case, rule) for case in trainable for rule in scope.classes]


def _memory(settings: Settings, scope: Scope) -> list[Task]:
    def task(case: Case, rule: str) -> Task:
        field = _all_of(rule, scope)
        return Task("memory", f"{case.title}, {rule}", lambda: measure.memory(case, field))

    return [task(CASES[name], rule) for name in scope.models for rule in scope.classes]


def _first_step(settings: Settings, scope: Scope, threads: int) -> list[Task]:
    def task(case: Case, rule: str) -> Task:
        field = _all_of(rule, scope)
        return Task("first-step", f"{case.title}, {rule}", lambda: first_steps(case, field, threads, settings.repeats))

    return [task(CASES[name], rule) for name in scope.models for rule in scope.classes]


def _peers(settings: Settings, scope: Scope) -> list[Task]:
    """Each peer runs against torch's fused Adam alone, so that none can disturb another."""
    baseline, effort = torch_contestant("adam", "fused"), Effort(settings.budget)

    def work(case: Case, peer: Contestant) -> Iterator[Result]:
        results = list(measure.steps("peers", case, [baseline], [peer], effort, settings.memory))
        yield from results
        if any(isinstance(result, StepTime) for result in results):
            yield from measure.memory(case, [peer])

    def task(case: Case, peer: Contestant) -> Task:
        return Task("peers", f"{case.title}, {peer.library} {peer.rule}", lambda: work(case, peer))

    cases = [CASES[name] for name in scope.models]
    return [task(case, adapter.contestant()) for case in cases for adapter in installed()]


def _all_of(rule: str, scope: Scope) -> list[Contestant]:
    """All optimizers of that rule, torch's and camhd's."""
    return [*(b for b in baselines(rule, scope.backends) if b.rule == rule), *_contestants(rule, scope)]


def _contestants(rule: str, scope: Scope) -> list[Contestant]:
    chains = [levels for levels in scope.levels if RULES[rule].has(levels)]
    return [camhd_contestant(rule, levels, backend) for levels in chains for backend in scope.backends]


@contextmanager
def _threads(number: int | None) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield torch.get_num_threads()
    finally:
        torch.set_num_threads(before)
