"""`camhd train --parallel`: several processes give the record of one process on the joined batch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from camhd.lab import records
from camhd.lab.records import Run
from camhd.lab.train import Settings, Watcher, check_started, execute, parallel, prepare, train
from lab_cases import Noisy, blobs, chant, line, mlp
from processes import in_processes
from sharded import assert_close

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed")

UNITS = {"levels": ["global", "layer", "unit"], "lr": 1e-2, "hyper_lr": 1e-4, "combine_lr": 1e-3}
EXACT = 1e-5  # the record has seven digits


def regressor() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


class Reader(nn.Module):
    """Predicts the next letter from this one; its blocks are in a list, and two of them share a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(5, 6)
        self.blocks = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])
        self.out = nn.Linear(6, 5, bias=False)
        self.out.weight = self.letters.weight

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        hidden = self.letters(letters)
        for block in self.blocks:
            hidden = hidden + block(hidden).tanh()
        found: torch.Tensor = self.out(hidden)
        return found


# Batches whose last one has but one example: one of two processes has none of it.
CASES: dict[str, tuple[Any, Any, str, dict[str, Any]]] = {
    "classes": (mlp, blobs, "adam-cam-hd-2", {"batch_size": 22, "schedule": "cosine", "loss_scale": 3.0}),
    "numbers": (regressor, line, "sgdn-cam-hd-2", {"batch_size": 13}),
    "letters": (Reader, chant, "adam-cam-hd-2", {"batch_size": 13}),
    "another optimizer": (mlp, blobs, "adam", {"batch_size": 22}),
}


def run_of(name: str, **more: Any) -> Run:
    model, data, optimizer, settings = CASES[name]
    options = UNITS if "cam-hd" in optimizer else {}
    return train(
        model, data, optimizer, options=options, epochs=3, dtype="float64", rates_every=2, **{**settings, **more}
    )


def told(run: Run) -> dict[str, Any]:
    """All that a record says, but for times and machine."""
    assert run.result is not None
    drop = ("time", "environment")
    return {
        "start": {**run.start, "note": None},
        "epochs": [{key: value for key, value in epoch.items() if key not in drop} for epoch in run.epochs],
        "rates": list(run.rates),
        "result": {key: value for key, value in run.result.items() if key not in drop},
    }


def assert_same(found: Run, wanted: Run) -> None:
    _compare(told(found), told(wanted), "")


def _compare(found: Any, wanted: Any, where: str) -> None:
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys(), where
        for key in wanted:
            _compare(found[key], wanted[key], f"{where}.{key}")
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), where
        for index, (one, other) in enumerate(zip(found, wanted, strict=True)):
            _compare(one, other, f"{where}[{index}]")
    elif isinstance(wanted, float):
        assert_close(found, wanted, EXACT, where)
    else:
        assert found == wanted, where


# ---------------------------------------------------------------------- two processes


def two(folder: Path, path: Path) -> list[Run]:
    parallel.AGREE_SECONDS = 0.0  # ask at every step
    runs = []
    for kind in ("ddp", "fsdp"):
        runs += [run_of(name, parallel=kind) for name in CASES]
        runs.append(interrupted_and_resumed(path / kind, kind))
        told_to_all(path / kind, kind)
        refusals(kind)
    return runs


class StopOne(Watcher):
    """The second process is asked to stop after some steps."""

    def __init__(self, at: int) -> None:
        self.at = at

    def stepped(self, progress: Any) -> None:
        if progress.step == self.at and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGINT)


def interrupted_and_resumed(path: Path, kind: str) -> Run:
    """All stop when one is to stop; what they kept goes on in as many processes, or in one."""
    with pytest.raises(KeyboardInterrupt):
        run_of("classes", parallel=kind, folder=path, watcher=StopOne(4))
    dist.barrier()
    run = run_of("classes", parallel=kind, folder=path, resume=True, watcher=StopOne(99))
    with pytest.raises(KeyboardInterrupt):
        run_of("classes", parallel=kind, folder=path / "one", watcher=StopOne(5))
    return run


def told_to_all(path: Path, kind: str) -> None:
    """What only the first process sees, all of them hear."""
    with pytest.raises(FileExistsError, match="a finished run"):
        run_of("classes", parallel=kind, folder=path)
    assert run_of("classes", parallel=kind, folder=path, resume=True).status == "finished"


def refusals(kind: str) -> None:
    with pytest.raises(ValueError, match=r"batch normalisation \('norm'\)"):
        train(Noisy, blobs, "adam", epochs=1, parallel=kind)
    with pytest.raises(ValueError, match="gradients alone"):
        train(mlp, blobs, "l4adam", epochs=1, parallel=kind)
    if kind == "fsdp":
        with pytest.raises(ValueError, match="take ddp"):
            train(mlp, blobs, lambda model: Own(model.parameters()), epochs=1, parallel=kind)


class Own(torch.optim.SGD):
    """Torch's, but nobody knows."""


@pytest.mark.thorough
@pytest.mark.slow
def test_two_processes_give_the_record_of_one(tmp_path: Path) -> None:
    wanted = {name: run_of(name) for name in CASES}
    for runs in in_processes(2, two, tmp_path):
        per_kind = len(CASES) + 1
        assert len(runs) == 2 * per_kind
        for first in (0, per_kind):
            for run, name in zip(runs[first:], CASES, strict=False):
                assert_same(run, wanted[name])
            resumed = runs[first + len(CASES)]
            assert_same(resumed, wanted["classes"])
    for kind in ("ddp", "fsdp"):
        assert_same(records.read(next((tmp_path / kind).glob("blobs-*"))), wanted["classes"])
        assert_same(run_of("classes", folder=tmp_path / kind / "one", resume=True), wanted["classes"])


# ---------------------------------------------------------------------- the command


@pytest.mark.slow
def test_torchrun_trains_and_stops_as_one_process(tmp_path: Path) -> None:
    words = "--model ffnn:8 --data digits --optimizer adam-cam-hd-2 --batch-size 479 --epochs 3000 --dtype float64"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "camhd"]
    command += ["train", *words.split(), "--parallel", "fsdp", "--folder", str(tmp_path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    try:
        deadline = time.monotonic() + 240
        while not any(epochs_of(tmp_path)) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=120)
    finally:
        process.kill()
    assert "torchrun --nproc-per-node=2 -m camhd train" in told, told
    assert "--parallel fsdp" in told
    (folder,) = tmp_path.iterdir()
    assert (folder / "checkpoint.pt").exists(), told
    found = records.read(folder)
    job = prepare("ffnn:8", "digits", "adam-cam-hd-2", Settings(epochs=2, batch_size=479, dtype="float64"))
    for one, other in zip(execute(job).epochs, found.epochs, strict=False):
        for metric in ("train_loss", "valid_loss", "train_accuracy", "valid_accuracy"):
            assert_close(other[metric], one[metric], EXACT)


def epochs_of(folder: Path) -> list[str]:
    files = folder.glob("*/history.jsonl")
    return [line for file in files for line in file.read_text().splitlines() if '"epoch"' in line[:20]]


def test_one_process_cannot_share_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(ValueError, match=r"needs several processes, but there is one; start it as torchrun"):
        run_of("classes", parallel="ddp")
    with pytest.raises(ValueError, match=r"'parallel'.*'dpp'.*ddp"):
        run_of("classes", parallel="dpp")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    with pytest.raises(ValueError, match=r"torchrun has started 2 processes"):
        check_started(None)
    check_started("ddp")
