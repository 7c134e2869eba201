"""The loop: every step of every epoch, and what is written down along the way."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from ..data import Batches
from ..optimizers import Driver
from ..records import Record, RunConfig
from . import norms, seeds
from .clock import Clock
from .interrupt import Interrupt
from .parallel import Alone
from .rates import rates_line
from .stopping import EarlyStop
from .tasks import Tally, Task, check_outputs
from .watch import Watcher


@dataclass(frozen=True)
class Parts:
    """What a run is made of, built and on its device."""

    model: nn.Module
    forward: Callable[[Tensor], Tensor]  # the model as it is called in training
    driver: Driver
    scheduler: LambdaLR | None
    train: Batches
    valid: Batches
    task: Task
    classes: int


class Loop:
    """Trains; a `Progress` for whoever looks on.

    Args:
        config: of the run.
        parts: what it is made of.
        record: where it is written down.
        watcher: who looks on.
        interrupt: whether to stop between two steps.
        checkpoint_seconds: between two checkpoints.
        team: the processes that share the run.
    """

    def __init__(
        self,
        config: RunConfig,
        parts: Parts,
        record: Record,
        watcher: Watcher,
        interrupt: Interrupt,
        checkpoint_seconds: float,
        team: Alone,
    ) -> None:
        self.config, self.clock, self._team = config, Clock(), team
        self._parts, self._record, self._watcher, self._interrupt = parts, record, watcher, interrupt
        self._checkpoint_seconds, self._saved = checkpoint_seconds, perf_counter()
        self.epoch, self.batch, self.step = 1, 0, 0
        self.steps = config.epochs * len(parts.train)
        self.diverged = self.reached = False  # reached: the loss at which it stops
        self.best: dict[str, float] = {}
        self.final: dict[str, float] = {}
        self._stopper = EarlyStop(config.patience)
        self._device = team.device(config.device)
        self._tally = parts.task.tally(self._device)
        self._recent, self._seen = torch.zeros((), dtype=torch.float64, device=self._device), 0  # since the last rates
        self._rates_at = -1

    def run(self) -> str:
        """Train until the end: `finished`, `stopped` (early) or `diverged`."""
        model, driver = self._parts.model, self._parts.driver
        if self.step == 0:
            self._write_rates()
        model.train()
        driver.train()
        status = ""
        while not status:
            for inputs, targets in self._parts.train.epoch(self.epoch, start=self.batch):
                if self.diverged or self.reached:
                    break
                driver.zero_grad()
                loss = self._loss(inputs, targets)
                driver.backward(loss)
                self._step(loss)
                self.reached = self._is_enough(loss)
                self._after_step()
            status = self._end_epoch()
        if self._rates_at != self.step:
            self._write_rates()
        return status

    def _loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """The loss whose gradient is taken; what is summed up is the loss without its scale."""
        here, whole = self._parts.train.counts(self.batch)
        with precision(self.config):
            outputs = self._parts.forward(inputs)
            if self.step == 0:
                check_outputs(self._parts.task, outputs, targets, self._parts.classes)
            loss = self._parts.task.loss(outputs, targets)
        if here:
            self._tally.add(loss, outputs, targets)
            self._recent.add_(loss.detach(), alpha=here)
            self._seen += here
        # Several processes take the mean of their gradients: each loss weighs as much as it has examples.
        factor = self.config.loss_scale * (here * self._team.world / whole)
        return loss if factor == 1 else loss * factor

    def _step(self, loss: Tensor) -> None:
        began = perf_counter()
        try:
            self._parts.driver.step(loss)
        except (ArithmeticError, RuntimeError, ValueError):
            # Some optimizers refuse a loss that is not finite; that is how this run ends, and no mistake.
            if bool(torch.isfinite(loss)):
                raise
            self.diverged = True
        self.clock.step(perf_counter() - began)

    def _is_enough(self, loss: Tensor) -> bool:
        """Whether the loss of the whole batch is one to stop at; only then is it read back at every step."""
        wanted, world = self.config.stop_loss, self._team.world
        return wanted is not None and self._team.summed(loss.detach(), 0)[0] / world <= wanted * self.config.loss_scale

    def _after_step(self) -> None:
        self.step += 1
        self.batch += 1
        if self._parts.scheduler is not None and not self.diverged:
            self._parts.scheduler.step()
        if self.step % self.config.rates_every == 0:
            self._write_rates()
        self._watcher.stepped(self)
        self._keep()

    def _keep(self) -> None:
        """Write a checkpoint when it is time, or when the process is to end."""
        due = perf_counter() - self._saved >= self._checkpoint_seconds
        stop, save = self._team.agree(bool(self._interrupt) or self._watcher.stops(), due)
        if stop or save:
            self._record.save(self.state())
            self._saved = perf_counter()
        if stop:
            self._interrupt.raise_now()

    def _end_epoch(self) -> str:
        """Judge, write down, and say how the run ended; nothing if it goes on."""
        trained = self._team.joined(self._tally, self._fresh_tally()).metrics()
        judged, averaged = self._judge()
        self.final = {f"train_{name}": value for name, value in trained.items()}
        self.final |= {f"valid_{name}": value for name, value in judged.items()}
        self.final |= {f"averaged_{name}": value for name, value in averaged.items()}
        self.diverged |= not (math.isfinite(trained["loss"]) and math.isfinite(judged["loss"]))
        metric = self._parts.task.metric
        if self._parts.task.better(judged[metric], self.best.get(f"valid_{metric}")) or not self.best:
            self.best = {**self.final, "epoch": self.epoch}
        line = {"kind": "epoch", "epoch": self.epoch, "step": self.step, **self.final, "time": self.clock.epoch()}
        self._record.append(line)
        self._watcher.epoch_ended(self, line)
        self.clock.begin_epoch()
        self.epoch, self.batch = self.epoch + 1, 0
        self._tally = self._fresh_tally()
        if self.diverged:
            return "diverged"
        if self.reached or self._stopper.enough(judged["loss"]):
            return "stopped"
        if self.epoch > self.config.epochs:
            return "finished"
        self._keep()
        return ""

    @torch.no_grad()
    def _judge(self) -> tuple[dict[str, float], dict[str, float]]:
        """The metrics on the validation set; and those at averaged weights, if the optimizer has any."""
        began = perf_counter()
        model, driver = self._parts.model, self._parts.driver
        averaged: dict[str, float] = {}
        model.eval()
        driver.eval()
        judged = self._metrics(elsewhere=driver.elsewhere)
        average = driver.averaged()
        if average is not None:
            with average, norms.kept(model):
                averaged = self._metrics(elsewhere=True)
        model.train()
        driver.train()
        self.clock.valid(perf_counter() - began)
        return judged, averaged

    def _metrics(self, elsewhere: bool) -> dict[str, float]:
        """On the validation set, at the weights that the model has now: those that it is trained at, or others."""
        model, task = self._parts.model, self._parts.task
        tally = self._fresh_tally()
        if elsewhere:
            with precision(self.config):
                norms.refresh(model, self._parts.train.epoch(self.epoch))
        for number, (inputs, targets) in enumerate(self._parts.valid.epoch(0)):
            with precision(self.config):
                outputs = model(inputs)
                loss = task.loss(outputs, targets)
            if self._parts.valid.counts(number)[0]:
                tally.add(loss, outputs, targets)
        return self._team.joined(tally, self._fresh_tally()).metrics()

    def _fresh_tally(self) -> Tally:
        return self._parts.task.tally(self._device)

    # What a progress display may ask

    def metrics(self) -> dict[str, float]:
        """The training metrics of this epoch so far, in this process."""
        return self._tally.metrics()

    def rate(self) -> float | None:
        """The learning rate to show."""
        return self._parts.driver.rate()

    # What is written down, and how to go on from it

    def _write_rates(self) -> None:
        line = rates_line(self.step, self._parts.driver.optimizer, self._parts.driver.rate())  # all processes take part
        recent, seen = self._team.summed(self._recent, self._seen)
        if seen:
            line["train_loss"] = recent / seen
            self.diverged |= not math.isfinite(line["train_loss"])
        self._record.append(line)
        self._recent.zero_()
        self._seen, self._rates_at = 0, self.step

    def state(self) -> dict[str, Any]:
        """Everything that is needed to go on from here as if nothing had happened."""
        scheduler, team = self._parts.scheduler, self._team
        recent, seen = team.summed(self._recent, self._seen)
        return {
            "place": [self.epoch, self.batch, self.step, seen, self._rates_at],
            "diverged": self.diverged,
            "reached": self.reached,
            "model": team.whole(self._parts.model.state_dict()),
            "driver": team.whole(self._parts.driver.state_dict()),
            "scheduler": None if scheduler is None else scheduler.state_dict(),
            "tally": team.joined(self._tally, self._fresh_tally()).state(),
            "recent": torch.tensor(recent, dtype=torch.float64),
            "best": self.best,
            "stopper": self._stopper.state(),
            "clock": self.clock.state(),
            "random": seeds.state(),
            "random_of_each": team.gather(seeds.state()) if team.world > 1 else [],
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.epoch, self.batch, self.step, seen, self._rates_at = state["place"]
        self.diverged, self.reached = state["diverged"], state.get("reached", False)
        self._team.load(self._parts.model, self._parts.driver, state)
        if self._parts.scheduler is not None:
            self._parts.scheduler.load_state_dict(state["scheduler"])
        if self._team.leads:  # the sums are of all processes, and are added up again
            self._tally.load(state["tally"])
            self._recent.copy_(state["recent"])
            self._seen = seen
        self.best = state["best"]
        self._stopper.load(state["stopper"])
        self.clock.load(state["clock"])
        of_each = state.get("random_of_each", [])
        if self._team.world > 1 and len(of_each) == self._team.world:
            seeds.restore(of_each[self._team.rank])
        elif self._team.leads:  # with another number of processes than before, the others draw anew
            seeds.restore(state["random"])


def precision(config: RunConfig) -> AbstractContextManager[object]:
    """Autocast for bfloat16; nothing for the others, whose weights have their precision."""
    if config.dtype != "bfloat16":
        return nullcontext()
    return torch.autocast(torch.device(config.device).type, dtype=torch.bfloat16)
