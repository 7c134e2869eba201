"""Runs take subnormal numbers for 0: that saves time and changes no result, and whoever calls a run notices nothing."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from camhd.lab import Watcher, train
from camhd.lab.train import subnormals
from untimed import untimed


class Dying(nn.Module):
    """Half of its units fire for five steps and never again, as a ReLU does that has died."""

    def __init__(self):
        super().__init__()
        self.fc1, self.out = nn.Linear(64, 8), nn.Linear(8, 10)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, inputs):
        if self.training:
            self.calls += 1
        alive = torch.ones(8)
        alive[4:] = (self.calls <= 5).float()
        return self.out(F.relu(self.fc1(inputs.flatten(1))) * alive)


class Looking(Watcher):
    """How many subnormal numbers there are in the optimizer's state; and whether a run takes them for 0."""

    def __init__(self, fail=False):
        self.fail, self.zero, self.found = fail, [], 0

    def stepped(self, progress):
        self.zero.append(subnormals.are_zero())
        if self.fail:
            raise OSError("a fault")

    def ended(self, run):
        self.zero.append(subnormals.are_zero())

    def epoch_ended(self, progress, line):
        states = progress._parts.driver.optimizer.state.values()
        tensors = [value for state in states for value in state.values() if torch.is_tensor(value) and value.ndim]
        # by their bits: comparisons of floating-point numbers take them for 0 where all else does
        bits = torch.cat([value.detach().flatten().view(torch.int32) & 0x7FFFFFFF for value in tensors])
        self.found = int(((bits > 0) & (bits < 0x00800000)).sum())


@pytest.fixture(params=[False, True], ids=["kept", "flushed"])
def before(request):
    """What the calling program has chosen."""
    torch.set_flush_denormal(request.param)
    yield request.param
    torch.set_flush_denormal(False)


def test_a_thread_tells_what_it_does_with_them(before):
    assert subnormals.are_zero() is before


@pytest.mark.parametrize("fail", [False, True])
def test_runs_take_them_for_zero_and_callers_get_their_own_choice_back(before, fail):
    looking = Looking(fail)
    with pytest.raises(OSError, match="a fault") if fail else nullcontext():
        train("logistic", "digits", "adam", epochs=1, batch_size=500, watcher=looking)
    assert len(looking.zero) == (1 if fail else 4)
    assert all(looking.zero)
    assert subnormals.are_zero() is before


@pytest.mark.parametrize("optimizer", ["adam", "adam-cam-hd-3", "adam-hd", "sgdn-cam-hd-2"])
def test_they_make_no_difference_to_a_run(optimizer, tmp_path, monkeypatch):
    """Adam's averages shrink to 0.9 of themselves a step: after some 900 steps, those of dead units are subnormal."""
    records, found = [], []
    for folder, how in ((tmp_path / "zeros", subnormals.taken_for_zero), (tmp_path / "all", nullcontext)):
        monkeypatch.setattr(subnormals, "taken_for_zero", how)
        looking = Looking()
        run = train(Dying, "digits", optimizer, epochs=45, seed=3, watcher=looking, folder=folder)
        records.append(untimed(folder / run.config.id))
        found.append(looking.found)
    assert found[0] == 0
    assert found[1] > 100
    assert records[0] == records[1]
