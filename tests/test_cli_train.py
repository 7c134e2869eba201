"""`camhd compare`, `camhd train`, `camhd show`: output, errors, interrupts, and the way back."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import camhd
from camhd.cli import commands, progress
from camhd.lab import records
from camhd.lab.train import loop, seeds
from untimed import untimed

SOURCES = str(Path(camhd.__file__).parents[1])
SMALL = ("--model", "ffnn:8", "--epochs", "2")


def call(*arguments):
    return CliRunner().invoke(commands.app, [str(word) for word in arguments], prog_name="camhd")


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# compare


def test_compare_ends_with_a_table_and_the_path_of_the_report(elsewhere):
    done = call("compare", *SMALL, "--seeds", 2)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "ffnn:8 on digits, 2 epochs, batches of 64; mean ± S.E."
    assert lines[1].split() == ["optimizer", "test", "accuracy,", "%", "n", "p", "test", "loss", "ms/step", "ended"]
    for label, row in zip(
        ("Adam", "Adam-HD", "Adam-CAM-HD, 2 levels", "Adam-CAM-HD, 3 levels"), lines[2:], strict=False
    ):
        assert re.match(rf"  {label} +\d+\.\d\d ± \d+\.\d\d  2 ", row), row
    path = Path(re.fullmatch(r"Report: (.*)", lines[-1])[1])
    assert path == Path("runs/digits-ffnn-8.html")
    assert "<html" in path.read_text()
    assert done.stderr.count("\n") == 8
    assert "[8/8] Adam-CAM-HD, 3 levels, seed 1: loss" in done.stderr
    assert len(records.load("runs")) == 8
    assert not set(done.output) & set("\x1b━─")


def test_without_arguments_it_compares_adam_hd_and_camhd_on_digits(elsewhere, monkeypatch):
    seen = []

    def stop(context, jobs, *rest, **more):
        seen.extend(jobs)
        raise SystemExit(0)

    monkeypatch.setattr("camhd.cli.train._carry_out", stop)
    call("compare")
    names = ["adam", "adam-hd", "adam-cam-hd-2", "adam-cam-hd-3"]
    assert [(job.config.optimizer, job.config.seed) for job in seen] == [(n, s) for n in names for s in range(3)]
    assert {(job.config.data, job.config.model) for job in seen} == {("digits", "ffnn:100,100")}


def test_compare_prints_json(elsewhere):
    done = call("compare", *SMALL, "--optimizers", "adam,sgd:lr=1", "--seeds", 2, "--json", "--report", "my/page.html")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [row["label"] for row in found["rows"]] == ["Adam", "SGD, lr 1"]
    assert found["rows"][0]["p"] == "nan"
    assert 0 <= found["rows"][1]["p"] <= 1
    assert found["report"] == "my/page.html"
    assert Path("my/page.html").is_file()
    assert [Path(run).is_dir() for row in found["rows"] for run in row["runs"]] == [True] * 4


def test_the_same_comparison_again_takes_the_records(elsewhere):
    first = call("compare", *SMALL, "--optimizers", "adam", "--seeds", 2)
    again = call("compare", *SMALL, "--optimizers", "adam", "--seeds", 2)
    assert again.stdout == first.stdout
    assert again.stderr.count("from its record") == 2
    fresh = call("compare", *SMALL, "--optimizers", "adam", "--seeds", 2, "--overwrite")
    assert "from its record" not in fresh.stderr


def test_one_lr_for_all_and_options_for_one(elsewhere):
    call("compare", *SMALL, "--seeds", 1, "--lr", 0.02, "--optimizers", "adam", "--optimizers", "sgd:momentum=0.9,lr=1")
    found = {run.config.optimizer: run.config.options for run in records.load("runs")}
    assert found["adam"]["lr"] == 0.02
    assert (found["sgd"]["lr"], found["sgd"]["momentum"]) == (1, 0.9)


# train and show


def test_every_option_reaches_the_run(elsewhere):
    done = call(
        *(
            "train",
            "--model",
            "resnet18:0.03",
            "--optimizer",
            "sgdn",
            "--option",
            "lr=0.02",
            "--option",
            "nesterov=true",
        ),
        *("--seed", 4, "--epochs", 1, "--batch-size", 500, "--split", "fraction:0.4", "--augment", "crop-flip"),
        *("--schedule", "drop:1", "--patience", 7, "--loss-scale", 2, "--dtype", "bfloat16", "--rates-every", 2),
        *("--folder", "mine", "--checkpoint-minutes", 1, "--threads", 1),
    )
    assert done.exit_code == 0, done.output
    (run,) = records.load("mine").runs
    expected = {
        "model": "resnet18:0.03",
        "optimizer": "sgdn",
        "label": "SGDN, lr 0.02, nesterov True, drop:1",
        "seed": 4,
        "epochs": 1,
        "batch_size": 500,
        "split": "fraction:0.4",
        "augment": "crop-flip",
        "schedule": "drop:1",
        "patience": 7,
        "loss_scale": 2.0,
        "dtype": "bfloat16",
        "device": "cpu",
        "rates_every": 2,
    }
    found = run.config.as_dict()
    assert {name: found[name] for name in expected} == expected
    assert (found["options"]["lr"], found["options"]["nesterov"]) == (0.02, True)
    assert f"Record: mine/{run.config.id}" in done.stdout
    assert "epoch 1/1  train loss" in done.stderr


def test_the_papers_settings(elsewhere):
    call("train", "--model", "ffnn:100,100", "--paper", "--epochs", 1)
    (run,) = records.load("runs").runs
    assert (run.config.batch_size, run.config.options["lr"]) == (32, 3e-4)


def test_a_record_is_run_again_from_its_configuration(elsewhere):
    call("train", *SMALL, "--seed", 3, "--folder", "a")
    (first,) = Path("a").iterdir()
    done = call("train", "--config", first / "config.json", "--folder", "b")
    assert done.exit_code == 0, done.output
    (second,) = Path("b").iterdir()
    assert untimed(first) == untimed(second)
    refused = call("train", "--config", first, "--seed", 1)
    assert refused.exit_code == 2
    assert "so --seed cannot be given with it" in " ".join(refused.stderr.split())


def test_train_prints_json(elsewhere):
    done = call("train", *SMALL, "--json")
    found = json.loads(done.stdout)
    assert found["status"] == "finished"
    assert len(found["epochs"]) == 2
    assert found["result"]["environment"]["torch"] == torch.__version__


def test_a_run_that_is_there_needs_a_word(elsewhere):
    assert call("train", *SMALL).exit_code == 0
    refused = call("train", *SMALL)
    assert refused.exit_code == 1
    assert "There is a finished run in 'runs/digits-ffnn-8-adam-cam-hd-2" in refused.stderr
    assert "--resume goes on" in refused.stderr
    assert not refused.stdout
    assert "from its record" in call("train", *SMALL, "--resume").stderr
    assert call("train", *SMALL, "--overwrite").exit_code == 0
    assert call("train", *SMALL, "--overwrite", "--resume").exit_code == 2


def test_show_has_tables_of_all_runs(elsewhere):
    call("compare", *SMALL, "--optimizers", "adam,sgd", "--seeds", 2)
    done = call("show")
    assert done.exit_code == 0
    assert "ffnn:8 on digits, 2 epochs" in done.stdout
    assert "SGD" in done.stdout
    assert "seed1" not in done.stdout
    assert "digits-ffnn-8-sgd-seed1-" in call("show", "runs", "--every").stdout
    found = json.loads(call("show", "--json").stdout)
    assert len(found["runs"]) == 4
    assert found["tables"][0]["rows"][1]["label"] == "SGD"


def test_show_of_one_run_has_its_configuration_and_epochs(elsewhere):
    call("train", *SMALL)
    (folder,) = Path("runs").iterdir()
    text = call("show", folder).stdout
    assert re.search(r"optimizer +adam-cam-hd-2", text)
    assert re.search(r"levels global\+layer", text)
    assert len(re.findall(r"^ +[12]  ", text, re.MULTILINE)) == 2


def test_show_reports_what_is_damaged_or_not_there(elsewhere):
    call("compare", *SMALL, "--optimizers", "adam", "--seeds", 3)
    first, second, _ = (path for path in sorted(Path("runs").iterdir()) if path.is_dir())
    (first / "config.json").write_text("{")
    (second / "result.json").unlink()
    done = call("show")
    assert done.exit_code == 0
    assert "config.json' cannot be read" in done.stderr
    assert "1 unfinished" in done.stdout
    missing = call("show", "nowhere")
    assert missing.exit_code == 2
    assert "There is no folder 'nowhere'" in " ".join(missing.stderr.split())
    Path("empty").mkdir()
    assert "There are no runs; camhd compare makes some." in call("show", "empty").stderr


# One's own functions

OWN = """
import torch
from torch import nn
from camhd.lab import data

def net():
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))

def points():
    inputs = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    labels = (inputs.sum(1) > 0).long()
    return data.from_tensors("points", (inputs[:40], labels[:40]), (inputs[40:], labels[40:]), note="Drawn by hand.")

def rprop(model):
    return torch.optim.Rprop(model.parameters())
"""


def test_own_functions_come_from_a_file(elsewhere):
    Path("own.py").write_text(OWN)
    done = call(
        *("compare", "--model", "own.py:net", "--data", "own.py:points", "--optimizers", "adam,own.py:rprop"),
        *("--epochs", 2, "--seeds", 2),
    )
    assert done.exit_code == 0, done.output
    assert re.match(r"own:net-[0-9a-f]{6} on points, 2 epochs", done.stdout)
    assert "  rprop " in done.stdout
    assert done.stdout.splitlines()[1] == "Drawn by hand."
    assert json.loads(call("show", "--json").stdout)["tables"][0]["notes"] == ["Drawn by hand."]


def test_an_error_in_an_own_function_shows_where_it_is(elsewhere):
    Path("own.py").write_text(OWN + "\ndef broken(dataset):\n    raise ValueError('here')\n")
    done = call("train", "--model", "own.py:broken", "--data", "own.py:points")
    assert isinstance(done.exception, ValueError)
    assert "here" in str(done.exception)
    assert not Path("runs").exists()


# What is wrong is said at once

WRONG = [
    (("train", "--model", "lenet5"), "--model 'lenet5' takes images of 28 × 28 or 32 × 32"),
    (("train", "--model", "lenet"), "did you mean 'lenet5'?"),
    (("train", "--data", "digit"), "did you mean 'digits'?"),
    (("train", "--optimizer", "adem"), "did you mean 'adam'?"),
    (("train", "--option", "lr"), "name=value"),
    (("train", "--option", "lrr=1"), "has no option 'lrr'; did you mean 'lr'?"),
    (("train", "--epochs", "0"), "--epochs must be a whole number, 1 or more, got 0."),
    (("train", "--batch-size", "0"), "--batch-size must be a whole number, 1 or more, got 0."),
    (("train", "--optimizer", "adam", "--option", "lr=-1"), "Invalid learning rate: -1"),
    (("train", "--threads", "0"), "--threads must be 1 or more, got 0."),
    (("train", "--checkpoint-minutes", "-1"), "must be 0 or more"),
    (("train", "--model", "no.py:net"), "there is no file 'no.py'"),
    (("train", "--config", "nowhere"), "holds no run"),
    (("compare", "--seeds", "0"), "--seeds must be 1 or more, got 0."),
    (("compare", "--optimizers", "adam,sdg"), "did you mean 'sgd'?"),
    (("compare", "--schedule", "linear"), "--schedule must be cosine, warmup-cosine"),
    (("compare", "--report", "."), "--report must be a file, but '.' is a folder"),
    (("compare", "--epoch", "3"), "--epochs"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[" ".join(case[0]) for case in WRONG])
def test_a_wrong_word_is_refused_before_anything_is_trained(elsewhere, arguments, message):
    done = call(*arguments)
    assert done.exit_code == 2, done.output
    assert message in " ".join(done.stderr.split())
    assert not done.stdout
    assert not list(elsewhere.iterdir())


def test_missing_data_is_told_with_a_remedy(elsewhere, monkeypatch):
    monkeypatch.setenv("CAMHD_DATA", str(elsewhere / "nothing"))
    done = call("train", "--data", "mnist")
    assert done.exit_code == 1
    assert "camhd data get mnist" in done.stderr


def test_help_is_a_tour():
    text = call("--help").output
    assert all(command in text for command in ("compare", "train", "show", "report", "data", "bench"))
    for command in ("compare", "train", "show"):
        text = call(command, "--help").output
        listed = re.findall(r"^  --[\w/ -]*<?[\w|\[\]]*>? +(\S.*)?$", text, re.MULTILINE)
        assert listed
        assert all(listed)


# A terminal


def test_a_terminal_sees_bars_with_loss_accuracy_and_rate(monkeypatch):
    written = []

    class Terminal(progress.Console):
        def __init__(self, **options):
            super().__init__(force_terminal=True, width=120, file=Collect(), **options)

    class Collect:
        def write(self, text):
            written.append(text)

        def flush(self):
            pass

        def isatty(self):
            return True

    monkeypatch.setattr(progress, "Console", Terminal)
    monkeypatch.setattr(progress, "REFRESH", 0.0)
    usual = progress._Bars.stepped
    monkeypatch.setattr(progress._Bars, "stepped", lambda self, at: (usual(self, at), self._bars.refresh()))
    with progress.watching(2) as watcher:
        for seed in (0, 1):
            camhd.lab.train("ffnn:8", "digits", "adam-cam-hd-2", epochs=1, seed=seed, watcher=watcher)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", "".join(written))
    assert re.search(r"Adam-CAM-HD, 2 levels, seed 0.*━.*loss \d\.\d{4}  accuracy \d+\.\d %  rate 1\.\d\de-03", text)
    assert re.search(r"all runs.*2/2", text)


# Interrupted


@pytest.mark.parametrize("command", ["compare", "train"])
def test_ctrl_c_says_the_exact_command_that_goes_on(elsewhere, monkeypatch, command):
    words = {
        "compare": ("compare", *SMALL, "--optimizers", "adam,adam-cam-hd-2:lr=0.01", "--seeds", "2"),
        "train": ("train", *SMALL, "--option", "lr=0.01", "--overwrite"),
    }[command]
    assert call(*words, "--folder", "whole").exit_code == 0
    usual = loop.Loop._keep
    steps = iter(range(1, 1000))

    def keep(self):
        if next(steps) == (50 if command == "compare" else 30):  # 23 steps an epoch
            os.kill(os.getpid(), signal.SIGINT)
        usual(self)

    with monkeypatch.context() as patched:
        patched.setattr(loop.Loop, "_keep", keep)
        stopped = call(*words, "--folder", "the runs")
    assert stopped.exit_code == 130
    assert "Stopped." in stopped.stderr
    line = stopped.stderr.splitlines()[-1].strip()
    assert line.startswith(f"camhd {command} ")
    if command == "compare":
        assert "1 of 4 runs are finished" in stopped.stderr
    done = call(*shlex.split(line)[1:])
    assert done.exit_code == 0, done.output
    assert "goes on after step" in done.stderr
    for run in records.find("whole"):
        assert untimed(Path("the runs") / run.name) == untimed(run)


@pytest.mark.slow
def test_kill_9_and_resume_give_the_record_of_an_unbroken_run(elsewhere):
    """The whole command, as a user runs it; killed in the middle of an epoch."""
    environment = {**os.environ, "PYTHONPATH": SOURCES, "OMP_NUM_THREADS": "1"}
    base = [sys.executable, "-m", "camhd", "train", "--model", "ffnn:32", "--epochs", "60", "--checkpoint-minutes"]
    base += ["0.0005", "--rates-every", "1", "--threads", "1", "--folder"]
    process = subprocess.Popen([*base, "killed"], env=environment, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while sum(path.read_bytes().count(b"\n") for path in Path("killed").glob("*/history.jsonl")) < 100:
        assert process.poll() is None
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGKILL)
    process.wait()
    (killed,) = Path("killed").iterdir()
    assert (killed / "checkpoint.pt").exists()
    assert not (killed / "result.json").exists()
    before = seeds.state()
    done = call(*base[3:], "killed", "--resume")
    assert "goes on after step" in done.stderr
    assert torch.equal(before["torch"], seeds.state()["torch"])
    assert call(*base[3:], "whole").exit_code == 0
    (whole,) = Path("whole").iterdir()
    assert untimed(killed) == untimed(whole)


def test_a_run_that_another_process_works_on_is_refused(elsewhere):
    call("train", *SMALL)
    (folder,) = Path("runs").iterdir()
    (folder / "result.json").unlink()
    config = records.read(folder).config
    with records.InFolder("runs", config, resume=True):
        refused = call("train", *SMALL, "--resume")
    assert refused.exit_code == 1
    assert f"Another process ({os.getpid()}) is working on the run" in refused.stderr


def test_a_diverged_run_is_told(elsewhere):
    done = call("train", *SMALL, "--optimizer", "sgd", "--option", "lr=1e30")
    assert done.exit_code == 0
    assert "diverged" in done.stdout
