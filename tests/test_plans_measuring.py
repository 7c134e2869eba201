"""Measurements and their records; the theorems and the costs that are measured."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch import nn

from camhd.lab import models
from camhd.lab.plans import costs, measuring, theorems
from camhd.lab.plans.measuring import FILE, Measurement
from camhd.lab.records import RunLockedError
from camhd.lab.records.files import Lock

ONE = Measurement("sum", {"first": 2, "second": [1, 0.5]})


def test_a_measurement_is_made_once_and_read_back(tmp_path):
    calls = []

    def add(first, second):
        calls.append(first)
        return {"total": first + sum(second), "worst": math.inf}

    made = measuring.measure(ONE, tmp_path, {"sum": add})
    again = measuring.measure(ONE, tmp_path, {"sum": add})
    assert calls == [2]
    assert dict(made.values) == {"total": 3.5, "worst": math.inf}
    assert again == made == measuring.read(tmp_path)[0]
    assert [path.name for path in (tmp_path / ONE.id).iterdir()] == [FILE]
    assert json.loads((tmp_path / ONE.id / FILE).read_text())["environment"]["torch"] == torch.__version__


def test_a_measurement_that_was_interrupted_leaves_nothing_and_is_made_again(tmp_path):
    def stop(first, second):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measuring.measure(ONE, tmp_path, {"sum": stop})
    assert measuring.read(tmp_path) == []
    assert measuring.measure(ONE, tmp_path, {"sum": lambda first, second: {"total": 1}}).values == {"total": 1}


def test_one_process_at_a_time_makes_a_measurement(tmp_path):
    (tmp_path / ONE.id).mkdir()
    with Lock(tmp_path / ONE.id), pytest.raises(RunLockedError):
        measuring.measure(ONE, tmp_path, {"sum": lambda first, second: {}})


def test_another_argument_is_another_measurement_and_their_order_decides_nothing():
    assert Measurement("sum", {"second": [1, 0.5], "first": 2}).id == ONE.id
    others = [Measurement("sum", {"first": 3, "second": [1, 0.5]}), Measurement("product", ONE.arguments)]
    assert len({ONE.id, *(one.id for one in others)}) == 3


def test_a_damaged_record_is_told_with_its_place(tmp_path):
    measuring.measure(ONE, tmp_path, {"sum": lambda first, second: {}})
    (tmp_path / ONE.id / FILE).write_text("{}")
    with pytest.raises(ValueError, match=r"measurement\.json' cannot be read .*remove it"):
        measuring.read(tmp_path)
    with pytest.raises(ValueError, match="'kind' has no choice 'sum'"):
        measuring.measure(ONE, tmp_path, {"product": dict})


# The theorems


def test_regularised_rates_are_the_combination_to_the_last_digit():
    made = theorems.combination(["global", "layer"], 1e-2, steps=6, seed=0)
    assert made["difference"] < 1e-12
    assert made["gap_difference"] < 1e-12
    with pytest.raises(ValueError, match="'levels' must be two"):
        theorems.combination(["global"], 1e-2, steps=6, seed=0)


@pytest.mark.parametrize(("limit", "converges"), [(0.9, True), (2.5, False)])
def test_descent_converges_below_the_theorems_limit_and_not_beyond_twice(limit, converges):
    made = theorems.descent(["global", "layer"], 5.0, limit, decay=0.1, hyper_lr=0.01, steps=300)
    assert (made["distance"][-1] < 1e-6) == converges
    assert made["steps"][-1] == 300
    assert 0 < made["largest_share_of_bound"] <= 1


def test_the_best_in_hindsight_is_that_of_another_solver():
    optimize = pytest.importorskip("scipy.optimize")
    generator = torch.Generator().manual_seed(0)
    inputs, labels = torch.randn(30, 3, generator=generator), torch.randint(10, (30,), generator=generator)
    counts = torch.randint(5, (30,), generator=generator)
    least, gap, theta = theorems.hindsight(inputs, labels, counts, rounds=3000)
    x = torch.cat([inputs, torch.ones(30, 1)], 1).double()

    def total(flat):
        weights = torch.tensor(flat, requires_grad=True)
        losses = nn.functional.cross_entropy(x @ weights.view(4, 10), labels, reduction="none")
        loss = (losses * counts).sum()
        loss.backward()
        return loss.item(), weights.grad.numpy()

    found = optimize.minimize(total, [0.0] * 40, jac=True, method="L-BFGS-B", bounds=[(-1, 1)] * 40)
    assert least == pytest.approx(found.fun, rel=1e-5)
    assert least - gap <= found.fun
    assert theta.abs().max() <= 1


def test_regret_is_what_was_paid_less_the_best_in_hindsight():
    made = theorems.regret(["global", "layer"], 1e-8, "sqrt", steps=60, seed=0)
    assert made["steps"][-1] == 60
    assert all(mark**2 >= 60 for mark in made["steps"])
    assert made["regret"] == sorted(made["regret"])  # it cannot shrink by much in so few steps
    assert all(gap < 0.1 * regret for gap, regret in zip(made["gap"], made["regret"], strict=True))


def test_the_exponent_is_the_slope_of_the_last_decade():
    steps = theorems.marked(10_000)
    assert theorems.exponent(steps, [s**0.5 if s >= 1000 else s for s in steps]) == pytest.approx(0.5)
    assert math.isnan(theorems.exponent(steps, [-1.0] * len(steps)))


# The costs


def test_multiplications_are_counted_as_in_the_papers_formulas():
    ffnn = models.find("ffnn:100,100", (1, 28, 28), 10)()
    assert costs.multiplications(ffnn, torch.zeros(1, 1, 28, 28)) == 784 * 100 + 100 * 100 + 100 * 10
    lenet = models.find("lenet5", (1, 28, 28), 10)()
    convolutions = 1 * 25 * 6 * 28**2 + 6 * 25 * 16 * 10**2
    assert costs.multiplications(lenet, torch.zeros(1, 1, 28, 28)) == convolutions + 400 * 120 + 120 * 84 + 84 * 10


def test_a_cost_has_times_and_bytes_of_both_optimizers_and_threads_stay():
    before = torch.get_num_threads()
    made = costs.cost("ffnn:8", "mnist", 4, ["global", "layer", "parameter"], budget=0.01)
    assert torch.get_num_threads() == before
    assert made["parameters"] == 784 * 8 + 8 + 8 * 10 + 10
    assert made["layers"] == 2
    assert made["formula_numbers"] == 3 * made["parameters"] + 6
    assert made["adam_bytes"] >= 8 * made["parameters"]
    assert made["cam_bytes"] - made["adam_bytes"] >= 4 * made["parameters"]  # a rate for each parameter at least
    assert made["extra_share"]["n"] >= 5
