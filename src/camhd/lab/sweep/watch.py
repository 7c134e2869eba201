"""Looking on while a sweep goes: what a progress display is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .plan import Item


@dataclass(frozen=True)
class Ended:
    """A run that has ended.

    Args:
        run: its id.
        item: of the plan.
        label: what tables call its optimizer.
        status: `finished`, `stopped` (early), `diverged` or `failed`.
        metric: by which it is judged.
        value: of the metric, on the validation set; nan if it failed.
        seconds: that it took.
        message: why it failed.
        problem: equal for runs that may be compared.
        higher: whether more of the metric is better.
    """

    run: str
    item: Item
    label: str
    status: str
    metric: str
    value: float
    seconds: float = 0.0
    message: str = ""
    problem: str = ""
    higher: bool = True

    def better(self, than: Ended | None) -> bool:
        """Whether it is the better one; a number is better than none."""
        if self.value != self.value or self.status == "failed":
            return False
        return than is None or (self.value > than.value if self.higher else self.value < than.value)


@dataclass(frozen=True)
class Running:
    """A run that is under way, here or elsewhere.

    Args:
        run: its id.
        label: what tables call its optimizer.
        seed: of the run.
        host: where it runs.
        step: that it has taken.
        steps: in all; 0 while that is not known.
        mine: whether this sweep has sent it.
    """

    run: str
    label: str
    seed: int
    host: str
    step: int
    steps: int
    mine: bool


@dataclass(frozen=True)
class Standing:
    """Where a sweep stands.

    Args:
        total: runs in the plan.
        done: with a result.
        failed: with a traceback.
        before: those of them that had ended before this sweep began.
        running: under way.
        best: so far, on the problem of the run that ended last.
        seconds: since the sweep began.
        left: seconds, if it goes on as it went; None while that cannot be told.
    """

    total: int
    done: int
    failed: int
    before: int
    running: Sequence[Running]
    best: Ended | None
    seconds: float
    left: float | None


class Watcher:
    """Is told what happens; does nothing. Override what you want to see. It is called from a thread of its own."""

    def ended(self, ended: Ended) -> None:
        """A run ended in this sweep, or in another one on the same folder meanwhile."""

    def changed(self, standing: Standing) -> None:
        """This is where it stands now; called every second or so."""

    def broken(self, error: Exception) -> None:
        """The engine broke, because a worker was killed, say; it is started again."""
