"""A run that stops at a training loss."""

from __future__ import annotations

import math

import pytest

from camhd.lab import Settings, train
from camhd.lab.train import Watcher, again, execute, prepare


class Losses(Watcher):
    """The loss of every batch, from the sums of the epoch."""

    def __init__(self) -> None:
        self.found: list[float] = []

    def stepped(self, progress):
        total = progress.metrics()["loss"] * self._count(progress)
        before = 0.0 if progress.step == 1 else self._total
        self.found.append((total - before) / 32)
        self._total = total

    @staticmethod
    def _count(progress):
        return 32 * progress.step


def test_a_run_stops_after_the_first_step_whose_batch_has_that_loss():
    watcher = Losses()
    run = train(
        "logistic", "digits", "sgd", epochs=1, batch_size=32, options={"lr": 0.1}, stop_loss=0.9, watcher=watcher
    )
    assert run.status == "stopped"
    steps = run.result["steps"]
    assert 1 < steps == len(watcher.found) < run.start["steps_per_epoch"]
    assert watcher.found[-1] <= 0.9 < min(watcher.found[:-1])
    assert run.final["valid_loss"] < 2


def test_a_loss_that_is_never_reached_changes_nothing():
    settings = {"epochs": 2, "batch_size": 64}
    one = train("logistic", "digits", "adam", stop_loss=-1.0, **settings)
    other = train("logistic", "digits", "adam", **settings)
    assert one.status == other.status == "finished"
    assert one.final == other.final
    assert one.config.id != other.config.id


def test_the_loss_without_its_scale_is_looked_at():
    plain = train("logistic", "digits", "adam", epochs=1, batch_size=32, stop_loss=1.5)
    scaled = train("logistic", "digits", "adam", epochs=1, batch_size=32, stop_loss=1.5, loss_scale=8.0)
    assert plain.result["steps"] == pytest.approx(scaled.result["steps"], abs=1)  # Adam hardly notices the scale


def test_a_stopped_run_goes_on_and_is_repeated_as_it_was(tmp_path):
    class Stop(Watcher):
        def stepped(self, progress):
            if progress.step == 3:
                raise KeyboardInterrupt

    job = prepare("logistic", "digits", "sgd", Settings(epochs=1, batch_size=32, stop_loss=0.9), seed=1)
    with pytest.raises(KeyboardInterrupt):
        execute(job, tmp_path / "broken", checkpoint_minutes=0, watcher=Stop())
    broken = execute(job, tmp_path / "broken", resume=True)
    whole = execute(again(job.config), tmp_path / "whole")
    assert broken.result["steps"] == whole.result["steps"] > 3
    assert broken.final == whole.final
    assert broken.status == whole.status == "stopped"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_to_stop_at_is_finite(value):
    with pytest.raises(ValueError, match="'stop_loss' must be finite"):
        Settings(stop_loss=value)
