"""The measurements that run in this process: steps, growth, share, memory."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .cases import Case, Contestant, Stepper, backend_of
from .memory import state_bytes
from .results import Entry, Failure, Result, Share, Spell, StateSize, StepTime
from .timing import Effort, Rounds, Spread, nothing, race, timed

# Scalars of the yardsticks: more than a cache holds, and so few that two cores have them in their own.
IN_MEMORY, IN_CACHE = 30_000_000, 60_000


@dataclass(frozen=True)
class Ready:
    """A contestant that has been built and is warm."""

    contestant: Contestant
    model: nn.Module
    stepper: Stepper
    estimate: float  # seconds of a step
    tidy: Callable[[], object] = nothing  # what it leaves to be done after a step, and is not timed


@dataclass
class Field:
    """A model and the contestants that run on copies of it.

    All share the model's gradients, and each has parameters and a state of its own: in training nobody else
    moves an optimizer's parameters between its steps.
    """

    what: str
    case: Case
    model: nn.Module
    as_given: list[Tensor | None]  # a copy of its gradients
    ready: list[Ready]
    failures: list[Failure]

    @property
    def grads(self) -> list[Tensor | None]:
        """The gradients of the model."""
        return [p.grad for p in self.model.parameters()]

    def hand_out(self) -> None:
        """Give the gradients to all contestants; a peer may have taken its own away."""
        for ready in self.ready:
            self.lend(ready.model)

    def lend(self, model: nn.Module) -> None:
        """Give the gradients to one of them."""
        for p, grad in zip(model.parameters(), self.grads, strict=True):
            p.grad = grad

    def spoiled(self) -> bool:
        """Whether somebody has written into the gradients."""
        pairs = zip(self.grads, self.as_given, strict=True)
        return any(a is not None and b is not None and not torch.equal(a, b) for a, b in pairs)

    def restore(self) -> None:
        """Make the gradients what they were."""
        for grad, given in zip(self.grads, self.as_given, strict=True):
            if grad is not None and given is not None:
                grad.copy_(given)

    def race(
        self, effort: Effort, prelude: Callable[[], object], tidy: list[Callable[[], object]] | None = None
    ) -> Rounds:
        """Let all that are ready take turns."""
        steps, estimates = [r.stepper.step for r in self.ready], [r.estimate for r in self.ready]
        yardsticks = [memory_yardstick(IN_MEMORY), cores_yardstick(IN_CACHE)]
        return race(steps, estimates, effort, prelude, tidy=tidy, yardsticks=yardsticks)

    def about(self, contestant: Contestant, holder: object = None) -> dict[str, Any]:
        """The fields of an `Entry`."""
        return vars(entry(self.what, self.case, parameters(self.model), contestant, backend_of(holder)))


def memory_yardstick(scalars: int) -> Callable[[], object]:
    """Reads two arrays and writes a third, so that its time is that of the memory."""
    one, other, total = (torch.ones(scalars) for _ in range(3))
    return lambda: torch.add(one, other, out=total)


def cores_yardstick(scalars: int, times: int = 50) -> Callable[[], object]:
    """Computes on all cores, which wait for each other many times."""
    numbers, roots = torch.ones(scalars), torch.ones(scalars)

    def work() -> Tensor:
        for _ in range(times):
            torch.sqrt(numbers, out=roots)
        return roots

    return work


def spell(rounds: Rounds) -> Spell:
    """How quiet the machine was."""
    return Spell(len(rounds.prelude), len(rounds.quiet), 3 * 4 * IN_MEMORY / rounds.yardstick(0))


def entry(what: str, case: Case, count: int, c: Contestant, ran_on: str) -> Entry:
    """Which optimizer, over which model."""
    return Entry(what, case.name, count, c.library, c.rule, c.levels, c.backend, ran_on)


def parameters(model: nn.Module) -> int:
    """How many scalars a model has."""
    return sum(p.numel() for p in model.parameters())


def enter(what: str, case: Case, contestants: Sequence[Contestant], warm_up: int) -> Field:
    """Build and warm every contestant; one that raises, or does not move the parameters, is a failure."""
    model = case.model()
    given = [p.grad if p.grad is None else p.grad.clone() for p in model.parameters()]
    field = Field(what, case, model, given, [], [])
    for contestant in contestants:
        try:
            field.ready.append(_warm(field, contestant, warm_up))
        except Exception as error:  # whatever it is, the others can still be measured
            field.restore()
            field.failures.append(Failure(**field.about(contestant), error=message(error)))
    return field


def message(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _warm(field: Field, contestant: Contestant, steps: int) -> Ready:
    model = copy.deepcopy(field.model)
    field.lend(model)
    stepper = contestant.build(model)
    before = stepper.watch().detach().clone()
    estimate = min(timed(stepper.step) for _ in range(steps))
    if torch.equal(before, stepper.watch()):
        raise RuntimeError(f"{contestant.label} did not move the parameters in {steps} steps.")
    pairs = zip(model.parameters(), field.grads, strict=True)
    if any(grad is not None and p.grad is not grad for p, grad in pairs):
        raise RuntimeError(f"{contestant.label} takes the gradients away, so that only its first step would be one.")
    if not field.spoiled():
        return Ready(contestant, model, stepper, estimate)
    # torch's foreach SGD adds Nesterov's term to the gradients; fixed gradients would soon be infinite.
    field.restore()
    return Ready(contestant, model, stepper, estimate, field.restore)


def steps(
    what: str,
    case: Case,
    baselines: Sequence[Contestant],
    contestants: Sequence[Contestant],
    effort: Effort,
    memory: int,
) -> Iterator[Result]:
    """Time of one step, with fixed gradients, and as a multiple of each baseline's.

    Baselines run in every group that fits into memory, and are reported once; those of another rule are not.
    """
    rules = {contestant.rule for contestant in contestants}
    for number, group in enumerate(fitting(case, len(baselines), contestants, memory)):
        field = enter(what, case, [*baselines, *group], effort.warm_up)
        times = _step_times(field, baselines, effort) if field.ready else []
        known = [_key(b) for b in baselines if number or b.rule not in rules]
        results: list[Result] = [*field.failures, *times]
        yield from (result for result in results if _key(result) not in known)


def _key(which: Contestant | Entry) -> tuple[object, ...]:
    return which.library, which.rule, which.levels, which.backend


def _step_times(field: Field, baselines: Sequence[Contestant], effort: Effort) -> list[StepTime]:
    rounds = field.race(effort, field.hand_out, [r.tidy for r in field.ready])
    against = {i: r.contestant for i, r in enumerate(field.ready) if r.contestant in baselines}
    return [
        StepTime(
            **field.about(ready.contestant, ready.stepper.holder),
            seconds=rounds.seconds(i),
            ratios={
                base.baseline: rounds.ratio(i, b)
                for b, base in against.items()
                if ready.contestant.is_measured_against(base)
            },
            steps_per_turn=rounds.steps_per_turn,
            machine=spell(rounds),
        )
        for i, ready in enumerate(field.ready)
    ]


def fitting(case: Case, baselines: int, contestants: Sequence[Contestant], memory: int) -> list[Sequence[Contestant]]:
    """The contestants in groups that fit into memory together with the baselines.

    None of them has more than five tensors as large as the parameters, its own among them; what it uses during a step
    is gone after it.
    """
    with torch.device("meta"):
        count = parameters(case.build())
    room = max(1, memory // (5 * 4 * max(count, 1)) - baselines)
    return [contestants[i : i + room] for i in range(0, len(contestants), room)]


def share(case: Case, contestants: Sequence[Contestant], effort: Effort) -> Iterator[Result]:
    """The step's share of a training step: forward, backward, step.

    Each round has one forward and backward pass, after which every contestant takes one step with its gradients.
    """
    field = enter("share", case, contestants, effort.warm_up)
    yield from field.failures
    if not field.ready:
        return
    one_step = Effort(effort.budget, effort.warm_up, effort.fewest, effort.most, steps=1)
    work = _forward_backward(field, case.loss())
    work()
    rounds = field.race(one_step, work)
    for i, ready in enumerate(field.ready):
        yield Share(
            **field.about(ready.contestant, ready.stepper.holder),
            batch=case.batch_title,
            forward_backward=Spread.of([rounds.prelude[round_] for round_ in rounds.quiet]),
            step=rounds.seconds(i),
            share=rounds.share(i),
            machine=spell(rounds),
        )


def _forward_backward(field: Field, loss: Callable[[nn.Module], Tensor]) -> Callable[[], object]:
    def work() -> None:
        field.model.zero_grad()
        torch.autograd.backward(loss(field.model))
        field.hand_out()

    return work


def memory(case: Case, contestants: Sequence[Contestant], what: str = "memory") -> Iterator[Result]:
    """Bytes of state per parameter, after the first steps; one contestant at a time."""
    for contestant in contestants:
        field = enter(what, case, [contestant], warm_up=3)
        yield from field.failures
        for ready in field.ready:
            size = state_bytes(ready.stepper.holder, ready.model)
            about = field.about(contestant, ready.stepper.holder)
            yield StateSize(**about, bytes_per_parameter=size / parameters(field.model))
