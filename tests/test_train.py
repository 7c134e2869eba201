"""Training: against a loop written by hand, on all tasks, with one's own functions; stopped, diverged, resumed."""

import functools
import importlib
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from itertools import islice
from pathlib import Path

import pytest
import torch
from sklearn.metrics import r2_score
from torch import nn
from torch.nn import functional as F

import camhd
from camhd.lab import Settings, Watcher, data, models, optimizers, records, train
from camhd.lab.train import again, execute, loop, overhead, own, prepare
from camhd.lab.train.interrupt import Interrupt
from camhd.lab.train.schedule import factor
from camhd.lab.train.tasks import TASKS
from lab_cases import Noisy, blobs, chant, line, mlp
from untimed import untimed


class Stop(Exception):
    pass


class StopAt(Watcher):
    """Stops everything after a step, as a crash would."""

    def __init__(self, step):
        self.at = step

    def stepped(self, progress):
        if progress.step == self.at:
            raise Stop


# Against a loop written by hand


def test_it_is_the_loop_that_one_would_write():
    run = train("ffnn:16", "digits", "adam", epochs=3, batch_size=100, seed=7, options={"lr": 0.01}, dtype="float64")

    torch.manual_seed(7)
    model = models.ffnn((16,), 64).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    digits = data.load("digits")
    batches = data.Batches(digits.train, 100, seed=7, dtype=torch.float64)
    for epoch in (1, 2, 3):
        losses, right = [], 0
        for inputs, targets in batches.epoch(epoch):
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = F.cross_entropy(outputs, targets)
            loss.backward()
            optimizer.step()
            losses.append(loss.item() * len(targets))
            right += (outputs.argmax(1) == targets).sum().item()
        ((inputs, targets),) = data.Batches(digits.test, 1000, shuffle=False, dtype=torch.float64).epoch(0)
        outputs = model(inputs)
        expected = {
            "train_loss": sum(losses) / len(digits.train),
            "train_accuracy": right / len(digits.train),
            "valid_loss": F.cross_entropy(outputs, targets).item(),
            "valid_accuracy": (outputs.argmax(1) == targets).double().mean().item(),
        }
        found = run.epochs[epoch - 1]
        assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-12)
    assert run.final == {name: found[name] for name in expected}
    assert run.result["steps"] == 3 * len(batches)
    assert run.start["parameters"] == sum(p.numel() for p in model.parameters())


def test_the_loss_is_scaled_for_the_gradient_and_not_in_the_record():
    scaled = train(_logistic, blobs, "sgd", options={"lr": 0.01}, loss_scale=10.0)
    faster = train(_logistic, blobs, "sgd", options={"lr": 0.1})
    for one, other in zip(scaled.epochs, faster.epochs, strict=True):
        assert one["train_loss"] == pytest.approx(other["train_loss"], rel=1e-5)


def _logistic():
    return models.logistic(4, 3)


def test_regression_has_r2_and_no_accuracy():
    run = train("logistic", line, "adam", epochs=30, batch_size=40, options={"lr": 0.1}, dtype="float64")
    assert not any("accuracy" in name for name in run.final)
    assert run.metric == "r2"
    assert run.final["valid_r2"] > 0.9

    torch.manual_seed(0)
    model = models.logistic(3, 2).double()
    ((inputs, targets),) = data.Batches(line().test, 10, shuffle=False, dtype=torch.float64).epoch(0)
    first = train("logistic", line, "sgd", epochs=1, options={"lr": 0.0}, dtype="float64")
    outputs = model(inputs).detach()
    assert first.final["valid_r2"] == pytest.approx(r2_score(targets, outputs), rel=1e-9)
    assert first.final["valid_loss"] == pytest.approx(F.mse_loss(outputs, targets).item(), rel=1e-12)


@pytest.mark.parametrize("model", ["lstm:8", "gru:8", "transformer:8,1,2"])
def test_a_language_is_learned_and_its_loss_is_in_nats(model):
    run = train(model, chant, "adam", epochs=40, batch_size=20, options={"lr": 0.02}, seed=1)
    assert run.metric == "loss"
    assert run.final["valid_accuracy"] > 0.99
    assert run.final["valid_loss"] < 0.5

    still = train(model, chant, "sgd", epochs=1, options={"lr": 0.0})
    torch.manual_seed(0)
    network = models.find(model, (8,), 5, "language")()
    letters = chant().test
    chances = network(letters.inputs).softmax(-1).gather(-1, letters.targets[..., None])
    assert still.final["valid_loss"] == pytest.approx(-chances.log().mean().item(), rel=1e-5)


@pytest.mark.parametrize("task", TASKS)
def test_a_tally_of_parts_is_that_of_the_whole(task):
    kind = TASKS[task]
    if task == "regression":
        outputs, targets = torch.randn(12, 2, dtype=torch.float64), torch.randn(12, 2, dtype=torch.float64)
    else:
        shape = (12, 5) if task == "language" else (12,)
        outputs, targets = torch.randn(*shape, 7, dtype=torch.float64), torch.randint(7, shape)
    whole, parts = kind.tally(torch.device("cpu")), kind.tally(torch.device("cpu"))
    whole.add(kind.loss(outputs, targets), outputs, targets)
    for piece in (slice(0, 5), slice(5, 12)):
        resumed = kind.tally(torch.device("cpu"))
        resumed.load(parts.state())
        resumed.add(kind.loss(outputs[piece], targets[piece]), outputs[piece], targets[piece])
        parts = resumed
    assert parts.metrics() == pytest.approx(whole.metrics(), rel=1e-12)
    assert all(math.isnan(value) for value in kind.tally(torch.device("cpu")).metrics().values())


def test_averaged_weights_are_judged_beside_the_last_ones_where_the_optimizer_has_them():
    """Against a loop written by hand; with batch norms, which see 50 batches first and forget them again."""

    def net():
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 10))

    run = train(net, "digits", "adam-default", epochs=2, batch_size=20, seed=3)
    torch.manual_seed(3)
    model, digits = net(), data.load("digits")
    optimizer, batches = camhd.Adam(model), data.Batches(digits.train, 20, seed=3)
    ((seen, right),) = data.Batches(digits.test, len(digits.test), shuffle=False).epoch(0)
    for epoch in (1, 2):
        model.train()
        for inputs, targets in batches.epoch(epoch):
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
        line = run.epochs[epoch - 1]
        known = {name: value.clone() for name, value in model.named_buffers()}
        with torch.no_grad():
            model.eval()
            last = F.cross_entropy(model(seen), right)
            with optimizer.averaged():
                model.train()
                for inputs, _ in islice(batches.epoch(epoch), 50):
                    model(inputs)
                model.eval()
                averaged = F.cross_entropy(model(seen), right)
        assert line["valid_loss"] == pytest.approx(float(last), rel=1e-5)
        assert line["averaged_loss"] == pytest.approx(float(averaged), rel=1e-5)
        assert line["averaged_loss"] != line["valid_loss"]
        model.load_state_dict(known, strict=False)
    assert run.final["averaged_accuracy"] == run.epochs[-1]["averaged_accuracy"]
    for other in ("adam", "adam-cam-hd-2", "schedule-free-adamw"):
        if optimizers.find(other).installed:
            final = train(net, "digits", other, epochs=1, batch_size=100).final
            assert not [name for name in final if name.startswith("averaged_")]


def test_bfloat16_is_autocast_over_float32_weights():
    seen = set()

    class Watched(nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            seen.add((self.weight.dtype, y.dtype))
            return y

    run = train(lambda: Watched(4, 3), blobs, "adam", epochs=2, dtype="bfloat16")
    assert seen == {(torch.float32, torch.bfloat16)}
    assert run.status == "finished"


# One's own functions


def fitting(dataset):
    return nn.Linear(dataset.shape[0], dataset.classes)


def rprop(model, lr=0.01):
    return torch.optim.Rprop(model.parameters(), lr=lr)


def test_model_data_and_optimizer_may_be_functions():
    run = train(mlp, blobs, rprop, epochs=30)
    assert run.status == "finished"
    assert run.config.model.startswith("own:mlp-")
    assert run.config.data == "blobs"
    assert run.config.optimizer.startswith("own:rprop-")
    assert run.config.label == "rprop"
    assert run.final["valid_accuracy"] > 0.5
    assert run.rates[0]["rates"] == {"lr": {"count": 1, "values": [0.01]}}


def test_options_reach_an_own_optimizer():
    run = train(mlp, blobs, rprop, epochs=1, options={"lr": 0.5})
    assert run.config.options == {"lr": 0.5}
    assert run.rates[0]["rates"]["lr"]["values"] == [0.5]
    assert run.config.label == "rprop, lr 0.5"


@pytest.mark.parametrize(
    "model", [mlp, fitting, Noisy, functools.partial(Noisy, classes=3), lambda dataset: fitting(dataset)]
)
def test_a_model_may_be_any_callable(model):
    assert train(model, blobs(), "adam", epochs=1).status == "finished"


def test_functions_that_differ_have_names_that_differ():
    def adam(lr):
        return lambda model: torch.optim.Adam(model.parameters(), lr=lr)

    functions = [
        mlp,
        fitting,
        Noisy,
        functools.partial(Noisy, classes=3),
        functools.partial(Noisy, classes=4),
        lambda: nn.Linear(4, 3),
        lambda: nn.Linear(4, 2),
        adam(0.1),
        adam(0.2),
    ]
    names = [own.name_of(function) for function in functions]
    assert len(set(names)) == len(names)
    assert names == [own.name_of(function) for function in functions]
    assert own.name_of(adam(0.1)) == own.name_of(adam(0.1))
    assert names[2].startswith("own:Noisy-")
    assert names[5].startswith("own:lambda-")


def test_the_name_of_a_function_is_the_same_in_every_process(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "def f(model, levels={'a', 'b'}, g=lambda x: x in {'c', 'd'}):\n    return g(1)\n"
    )
    program = "import mine; from camhd.lab.train import own; print(own.name_of(mine.f))"
    environment = {**ENVIRONMENT, "PYTHONHASHSEED": "1"}
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    monkeypatch.syspath_prepend(tmp_path)
    assert found.strip() == own.name_of(importlib.import_module("mine").f)
    assert found.startswith("own:f-")


WRONG_FUNCTIONS = [
    (lambda: train(mlp(), blobs, "adam"), TypeError, "got a model; write `lambda: Net"),
    (lambda: train(lambda: 5, blobs, "adam"), TypeError, "must return a torch.nn.Module, got int"),
    (lambda: train(mlp, lambda: 5, "adam"), TypeError, "but gave int; make one with camhd.lab.data.from_tensors"),
    (lambda: train(mlp, blobs, lambda model: 5), TypeError, "must return a torch.optim.Optimizer"),
    (lambda: train(lambda: nn.Linear(4, 2), blobs, "adam"), ValueError, r"shape \(45, 3\).*but gave \(45, 2\)"),
    (
        lambda: train("logistic", line, "gdtuo-adam", schedule="cosine"),
        (ValueError, ImportError),
        "gdtuo|an lr of its own",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), WRONG_FUNCTIONS, ids=range(len(WRONG_FUNCTIONS)))
def test_a_function_that_gives_something_else_is_told(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


WRONG = [
    ({"epochs": 0}, "'epochs' must be a whole number, 1 or more, got 0"),
    ({"batch_size": -1}, "'batch_size' must be a whole number, 1 or more, got -1"),
    ({"patience": 1.5}, "'patience' must be a whole number"),
    ({"loss_scale": 0}, "'loss_scale' must be above zero and finite, got 0"),
    ({"dtype": "float16"}, "'dtype' has no choice 'float16'; did you mean 'bfloat16'?"),
    ({"device": "gpu"}, "'device' 'gpu' cannot be used here"),
    ({"schedule": "linear"}, "'schedule' must be cosine, warmup-cosine"),
    ({"schedule": "drop"}, "'schedule' must be cosine, warmup-cosine"),
    ({"schedule": "drop:x"}, "must have whole epochs"),
    ({"schedule": "warmup-cosine:2"}, "between 0 and 1"),
    ({"split": "half"}, "'split' must be full, fold"),
    ({"augment": "blur"}, "blur"),
    ({"seed": -1}, "'seed' must be a whole number, 0 or more, got -1"),
    ({"options": {"lrr": 1}}, "'lr'"),
    ({"resume": True, "overwrite": True}, "contradict each other"),
    ({"checkpoint_minutes": -1}, "'checkpoint_minutes' must be 0 or more"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=[str(case[0]) for case in WRONG])
def test_a_wrong_setting_is_refused_before_anything_is_written(tmp_path, wrong, message):
    with pytest.raises(ValueError, match=r"must|cannot|choice|contradict|option|no aug|did you") as caught:
        train("ffnn:8", "digits", "adam", folder=tmp_path, **wrong)
    assert message in str(caught.value)
    assert not list(tmp_path.iterdir())


# Seeds


def test_the_same_call_twice_gives_the_same_record(tmp_path):
    for place in ("a", "b"):
        train(Noisy, blobs, "adam-cam-hd-3", epochs=3, batch_size=16, seed=5, folder=tmp_path / place)
    (first,), (second,) = (list((tmp_path / place).iterdir()) for place in ("a", "b"))
    assert first.name == second.name
    assert untimed(first) == untimed(second)
    assert set(untimed(first)) == {"config.json", "history.jsonl", "result.json"}


def test_another_seed_gives_another_run():
    losses = {train(mlp, blobs, "adam", epochs=1, seed=seed).final["train_loss"] for seed in range(3)}
    assert len(losses) == 3


def test_the_callers_random_numbers_stay():
    torch.manual_seed(3)
    random.seed(3)
    expected = torch.rand(3), random.random()
    torch.manual_seed(3)
    random.seed(3)
    train(Noisy, blobs, "adam", epochs=1)
    torch.testing.assert_close((torch.rand(3), random.random()), expected, rtol=0, atol=0)


def test_the_model_sees_the_split_that_was_asked_for():
    run = train(mlp, blobs, "adam", epochs=1, split="fraction:0.2")
    assert run.start["examples"] == {"train": 36, "valid": 9}


# Stopping early, diverging


def test_it_stops_early_when_the_validation_loss_gets_no_better():
    run = train(mlp, blobs, "sgd", epochs=50, patience=3, options={"lr": 0.0})
    assert run.status == "stopped"
    assert run.result["epochs"] == len(run.epochs) == 4
    assert run.result["best"]["epoch"] == 1


def test_best_is_the_best_epoch():
    run = train(mlp, blobs, "sgd", epochs=12, batch_size=9, options={"lr": 1.0})
    accuracies = [line["valid_accuracy"] for line in run.epochs]
    assert run.result["best"]["valid_accuracy"] == max(accuracies)
    assert run.result["best"]["epoch"] == 1 + accuracies.index(max(accuracies))
    assert run.result["final"]["valid_accuracy"] == accuracies[-1]


@pytest.mark.parametrize("optimizer", ["sgd", "sgd-cam-hd-2", "sgd-hd"])
def test_a_run_that_diverges_is_recorded_and_ends(tmp_path, optimizer):
    run = train(mlp, blobs, optimizer, epochs=50, batch_size=9, options={"lr": 1e30}, folder=tmp_path, rates_every=1)
    assert run.status == "diverged"
    assert len(run.epochs) == 1
    assert run.result["steps"] < 45
    assert not math.isfinite(run.final["train_loss"])
    assert 0 <= run.final["valid_accuracy"] <= 1
    text = (run.folder / "history.jsonl").read_text()
    assert '"train_loss":"nan"' in text or '"train_loss":"inf"' in text
    for written in text.splitlines():
        json.loads(written, parse_constant=pytest.fail)


def test_a_divergence_in_the_last_step_is_one():
    run = train(mlp, blobs, "sgd", epochs=1, batch_size=45, options={"lr": 1e30})
    assert math.isfinite(run.final["train_loss"])
    assert not math.isfinite(run.final["valid_loss"])
    assert run.status == "diverged"


def test_an_optimizer_that_refuses_a_loss_that_is_not_finite_has_diverged():
    def explosive(model):
        with torch.no_grad():
            model[0].weight.fill_(math.inf)
        return camhd.baselines.L4Adam(model.parameters())

    run = train(mlp, blobs, explosive, epochs=3)
    assert run.status == "diverged"
    assert run.result["epochs"] == 1


def test_other_errors_of_an_optimizer_are_not_swallowed():
    class Broken(torch.optim.SGD):
        def step(self, closure=None):
            raise RuntimeError("no such luck")

    with pytest.raises(RuntimeError, match="no such luck"):
        train(mlp, blobs, lambda model: Broken(model.parameters(), lr=0.1))


# Schedules


def rates_of(run):
    return [line["rates"]["lr"]["values"][0] for line in run.rates]


def test_schedules_are_torchs():
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.5)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
    expected = [0.5]
    for _ in range(20):
        optimizer.step()
        scheduler.step()
        expected.append(optimizer.param_groups[0]["lr"])
    run = train(mlp, blobs, "sgd", epochs=4, batch_size=9, schedule="cosine", options={"lr": 0.5}, rates_every=1)
    assert rates_of(run) == pytest.approx(expected, rel=1e-6, abs=1e-9)

    run = train(mlp, blobs, "sgd", epochs=4, batch_size=9, schedule="drop:1,3", options={"lr": 0.5}, rates_every=1)
    assert rates_of(run) == pytest.approx([0.5] * 5 + [0.05] * 10 + [0.005] * 6)


def test_a_warm_up_rises_to_one_and_falls_to_zero():
    at = factor("warmup-cosine:0.25", epochs=4, steps_per_epoch=5)
    assert [at(step) for step in range(5)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert at(12) == pytest.approx(0.5 * (1 + math.cos(math.pi * 7 / 15)))
    assert at(20) == pytest.approx(0.0)
    run = train(mlp, blobs, "adam-cam-hd-2", epochs=4, batch_size=9, schedule="warmup-cosine")
    assert run.status == "finished"


# What is written down


def test_rates_are_written_about_a_hundred_times():
    run = train(mlp, blobs, "adam-cam-hd-3", epochs=50, batch_size=9)
    assert run.config.rates_every == 2 or run.config.rates_every == 3
    steps = [line["step"] for line in run.rates]
    assert steps == [*range(0, 250, run.config.rates_every), *([250] if steps[-1] == 250 else [])]
    assert steps[-1] == 250
    assert set(run.rates[0]["rates"]) == {"global", "layer", "unit"}
    assert run.start["groups"]["layer"] == ["0", "2"]
    assert set(run.rates[-1]["weights"]) == {"global", "layer", "unit"}
    assert len(run.rates[-1]["rates"]["layer"]["values"]) == 2


def test_lines_of_rates_have_the_mean_loss_since_the_line_before():
    run = train(mlp, blobs, "adam", epochs=2, batch_size=9, rates_every=5)
    assert "train_loss" not in run.rates[0]
    assert [line["train_loss"] for line in run.rates[1:]] == pytest.approx(
        [line["train_loss"] for line in run.epochs], rel=1e-6
    )


def test_the_rates_of_an_optimizer_that_learns_them_are_those_it_ends_with():
    kept = []

    def make(model):
        kept.append(camhd.Adam(model, lr=1e-2, hyper_lr=1e-5))
        return kept[-1]

    run = train(mlp, blobs, make, epochs=3)
    found = kept[0].rates()
    assert run.rates[-1]["rates"]["global"]["values"][0] == pytest.approx(found["global"], rel=1e-6)
    assert run.rates[-1]["rates"]["layer"]["values"] == pytest.approx(list(found["layer"].values()), rel=1e-6)
    assert run.rates[-1]["rates"]["global"]["values"] != run.rates[0]["rates"]["global"]["values"]


def test_times_are_inside_time_objects(tmp_path):
    run = train(mlp, blobs, "adam", epochs=2, folder=tmp_path)
    assert set(run.epochs[0]["time"]) == {"seconds", "train_seconds", "valid_seconds", "optimizer_seconds"}
    assert run.result["time"]["step_ms"] > 0
    assert run.result["time"]["seconds"] >= run.result["time"]["optimizer_seconds"] > 0
    assert run.result["environment"]["torch"] == torch.__version__


def test_the_papers_settings_are_an_option():
    usual = prepare("ffnn:100,100", "digits", "adam-cam-hd-2").config
    paper = prepare("ffnn:100,100", "digits", "adam-cam-hd-2", Settings(paper=True)).config
    assert (usual.batch_size, usual.options["lr"]) == (64, 1e-3)
    assert (paper.batch_size, paper.options["lr"], paper.options["combine_lr"]) == (32, 3e-4, 0.01)
    assert prepare(mlp, blobs, "adam", Settings(paper=True)).config.batch_size == 64


def test_a_record_can_be_run_again(tmp_path):
    first = train("ffnn:8", "digits", "sgdn", epochs=2, folder=tmp_path / "a", options={"lr": 0.02}, label="mine")
    job = again(records.read(first.folder).config)
    second = execute(job, tmp_path / "b")
    assert untimed(first.folder) == untimed(second.folder)
    with pytest.raises(ValueError, match=r"used the function 'own:mlp-.*run it again with that function"):
        again(train(mlp, blobs, "adam", epochs=1).config)
    changed = records.RunConfig.from_json(first.config.to_json().replace(first.config.fingerprint, "other"))
    with pytest.raises(ValueError, match="its fingerprint was 'other'"):
        again(changed)


def test_a_watcher_sees_everything_in_order():
    seen = []

    class See(Watcher):
        def begun(self, progress):
            seen.append(("begun", progress.step, progress.steps, progress.config.seed))

        def stepped(self, progress):
            seen.append(("step", progress.step, progress.epoch, set(progress.metrics()), progress.rate()))

        def epoch_ended(self, progress, epoch):
            seen.append(("epoch", epoch["epoch"], epoch["step"]))

        def ended(self, run):
            seen.append(("ended", run.status))

    train(mlp, blobs, "adam", epochs=2, batch_size=23, watcher=See())
    metrics = {"loss", "accuracy"}
    assert seen == [
        ("begun", 0, 4, 0),
        ("step", 1, 1, metrics, 1e-3),
        ("step", 2, 1, metrics, 1e-3),
        ("epoch", 1, 2),
        ("step", 3, 2, metrics, 1e-3),
        ("step", 4, 2, metrics, 1e-3),
        ("epoch", 2, 4),
        ("ended", "finished"),
    ]


# Resuming

SETTINGS = {"epochs": 3, "batch_size": 9, "seed": 2, "rates_every": 2, "patience": 2}  # five steps an epoch
PEERS = ["prodigy", "dadapt-adam", "schedule-free-adamw", "mechanic-adam"]


def interrupted(tmp_path, step, *arguments, **settings):
    """The files of an unbroken run, and those of one that crashed after a step and went on."""
    whole = train(*arguments, **settings, folder=tmp_path / "whole")
    with pytest.raises(Stop):
        train(*arguments, **settings, folder=tmp_path / "broken", checkpoint_minutes=0, watcher=StopAt(step))
    resumed = train(*arguments, **settings, folder=tmp_path / "broken", resume=True)
    assert resumed.result["time"]["resumed"] == (1 if step > 1 else 0)
    return untimed(whole.folder), untimed(resumed.folder)


@pytest.mark.parametrize("step", [1, 2, 4, 5, 6, 10, 14, 15])
def test_a_run_that_crashed_anywhere_goes_on_as_if_nothing_had_happened(tmp_path, step):
    whole, resumed = interrupted(tmp_path, step, Noisy, blobs, "adam-cam-hd-3", schedule="cosine", **SETTINGS)
    assert resumed == whole


@pytest.mark.parametrize("step", [1, 2])
def test_a_run_that_diverges_does_so_after_a_crash_too(tmp_path, monkeypatch, step):
    """Killed right after a checkpoint: before and at the step at which it is noticed."""
    arguments = {**SETTINGS, "options": {"lr": 1e30}}
    whole = train(mlp, blobs, "sgd", **arguments, folder=tmp_path / "whole")
    assert (whole.status, whole.result["steps"]) == ("diverged", 2)
    save = records.InFolder.save

    def save_and_crash(self, state):
        save(self, state)
        if state["place"][2] == step:
            raise Stop

    with monkeypatch.context() as patched:
        patched.setattr(records.InFolder, "save", save_and_crash)
        with pytest.raises(Stop):
            train(mlp, blobs, "sgd", **arguments, folder=tmp_path / "broken", checkpoint_minutes=0)
    resumed = train(mlp, blobs, "sgd", **arguments, folder=tmp_path / "broken", resume=True)
    assert untimed(resumed.folder) == untimed(whole.folder)


def resumable(name):
    missing = not optimizers.find(name).installed
    return pytest.param(name, marks=pytest.mark.skipif(missing, reason=f"the package of {name} is not installed"))


@pytest.mark.alike(2)
@pytest.mark.parametrize("optimizer", [resumable(name) for name in optimizers.names() if name != "gdtuo-adam"])
def test_every_optimizer_resumes_exactly(tmp_path, optimizer):
    whole, resumed = interrupted(tmp_path, 7, Noisy, blobs, optimizer, **SETTINGS)
    assert resumed == whole


@pytest.mark.parametrize(("model", "dataset"), [("ffnn:4", line), ("lstm:4", chant), ("transformer:8,1,2", chant)])
def test_every_task_resumes_exactly(tmp_path, model, dataset):
    whole, resumed = interrupted(tmp_path, 4, model, dataset, "adam-cam-hd-2", **{**SETTINGS, "batch_size": 12})
    assert resumed == whole


def test_a_finished_run_is_given_as_it_is(tmp_path):
    first = train(mlp, blobs, "adam", epochs=2, folder=tmp_path)
    seen = []

    class See(Watcher):
        def stepped(self, progress):
            pytest.fail("it trained")

        def ended(self, run):
            seen.append(run)

    again = train(mlp, blobs, "adam", epochs=2, folder=tmp_path, resume=True, watcher=See())
    assert again == first == seen[0]
    with pytest.raises(FileExistsError, match="There is a finished run"):
        train(mlp, blobs, "adam", epochs=2, folder=tmp_path)
    assert train(mlp, blobs, "adam", epochs=2, folder=tmp_path, overwrite=True).final == first.final


def test_an_error_before_the_first_checkpoint_leaves_nothing_behind(tmp_path):
    with pytest.raises(Stop):
        train(mlp, blobs, "adam", epochs=2, folder=tmp_path, watcher=StopAt(1))
    assert not list(tmp_path.iterdir())
    with pytest.raises(Stop):
        train(mlp, blobs, "adam", epochs=9, folder=tmp_path, watcher=StopAt(4), checkpoint_minutes=0)
    (left,) = tmp_path.iterdir()
    assert (left / "checkpoint.pt").exists()


def test_checkpoints_are_written_every_so_many_minutes(tmp_path, monkeypatch):
    saved, now = [], [0.0]
    monkeypatch.setattr(loop, "perf_counter", lambda: now[0])
    monkeypatch.setattr(records.InFolder, "save", lambda self, state: saved.append(state["place"][2]))

    class Tick(Watcher):
        def stepped(self, progress):
            now[0] += 60.0

    train(mlp, blobs, "adam", epochs=4, batch_size=9, folder=tmp_path, watcher=Tick())
    assert saved == [5, 10, 15, 20]


# What it costs


def test_the_cost_of_the_lab_is_printed(monkeypatch, capsys):
    images, labels = torch.randint(256, (300, 1, 28, 28), dtype=torch.uint8), torch.arange(300) % 10
    few = data.from_tensors("mnist", (images, labels), (images[:20], labels[:20]))
    monkeypatch.setattr(overhead.datasets, "load", lambda name: few)
    overhead.main(["--rounds", "1", "--repeats", "1", "--batch", "2"])
    text = capsys.readouterr().out
    assert re.search(r"300 images of MNIST.*\n  bare loop [\d,]+ images/s, lab [\d,]+ images/s: \d+\.\d %", text)
    assert len(re.findall(r"ResNet-18.*\n.* ms: \d+\.\d\d % if written at every step", text)) == 2


# Interrupts


class Signal(Watcher):
    def __init__(self, number, step=3):
        self.number, self.at = number, step

    def stepped(self, progress):
        if progress.step == self.at:
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)], ids=["Ctrl-C", "SIGTERM"]
)
def test_an_interrupt_ends_a_run_between_two_steps_with_a_checkpoint(tmp_path, number, error):
    usual = signal.getsignal(number)
    whole = train(Noisy, blobs, "adam-cam-hd-2", **SETTINGS, folder=tmp_path / "whole")
    with pytest.raises(error):
        train(Noisy, blobs, "adam-cam-hd-2", **SETTINGS, folder=tmp_path / "broken", watcher=Signal(number))
    assert signal.getsignal(number) == usual
    (folder,) = (tmp_path / "broken").iterdir()
    assert torch.load(folder / "checkpoint.pt", weights_only=True)["place"][2] == 3
    train(Noisy, blobs, "adam-cam-hd-2", **SETTINGS, folder=tmp_path / "broken", resume=True)
    assert untimed(folder) == untimed(whole.folder)


def test_an_interrupt_at_the_very_end_leaves_a_finished_run(tmp_path):
    class Late(Watcher):
        def epoch_ended(self, progress, epoch):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(mlp, blobs, "adam", epochs=1, folder=tmp_path, watcher=Late())
    assert records.load(tmp_path).runs[0].status == "finished"


def test_the_second_interrupt_acts_at_once():
    with Interrupt() as interrupt:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_signals_are_left_alone_in_a_thread_and_where_they_have_a_handler():
    found = []
    thread = threading.Thread(target=lambda: found.append(train(mlp, blobs(), "adam", epochs=1).status))
    thread.start()
    thread.join()
    assert found == ["finished"]
    caught = []
    before = signal.signal(signal.SIGINT, lambda number, frame: caught.append(number))
    try:
        assert train(mlp, blobs, "adam", epochs=1, watcher=Signal(signal.SIGINT, 1)).status == "finished"
    finally:
        signal.signal(signal.SIGINT, before)
    assert caught == [signal.SIGINT]


# Killed

ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(Path(camhd.__file__).parents[1]), str(Path(__file__).parent)]),
    "OMP_NUM_THREADS": "1",
}
PROGRAM = """
import sys, time, torch
torch.set_num_threads(1)
from camhd.lab import Watcher, train
import lab_cases

class Slow(Watcher):
    def stepped(self, progress):
        time.sleep(float(sys.argv[2]))

train(lab_cases.Noisy, lab_cases.blobs, "adam-cam-hd-3", epochs=6, batch_size=5, seed=1, rates_every=1,
      folder=sys.argv[1], resume=True, checkpoint_minutes=1e-3, watcher=Slow())
"""


@pytest.mark.thorough
@pytest.mark.slow
def test_a_killed_run_goes_on_as_if_nothing_had_happened(tmp_path):
    """Six epochs of nine steps; killed in the middle of an epoch, twice, and then left alone."""
    folder = tmp_path / "killed"
    for lines in (15, 33):
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder), "0.03"], env=ENVIRONMENT)
        deadline = time.monotonic() + 120
        while sum(path.read_bytes().count(b"\n") for path in folder.glob("*/history.jsonl")) < lines:
            assert process.poll() is None, "it ended before it was killed"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    (run,) = folder.iterdir()
    assert (run / "checkpoint.pt").exists()
    assert not (run / "result.json").exists()
    subprocess.run([sys.executable, "-c", PROGRAM, str(folder), "0"], env=ENVIRONMENT, check=True)
    whole = train(
        Noisy, blobs, "adam-cam-hd-3", epochs=6, batch_size=5, seed=1, rates_every=1, folder=tmp_path / "whole"
    )
    assert untimed(run) == untimed(whole.folder)
    assert json.loads((run / "result.json").read_text())["time"]["resumed"] == 2
