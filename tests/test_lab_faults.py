"""The lab on a disk that is full or must not be written: no record is lost or torn, and a sentence says what to do."""

import errno
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import camhd
import lab_cases
from camhd.cli import app
from camhd.lab import data, records, sweep
from camhd.lab.records import files
from camhd.lab.train import train
from faulty_disk import Disk, small_disk
from untimed import untimed

CONFIG = records.RunConfig("ffnn:8", "digits", "adam", "Adam")
START = {"kind": "start", "parameters": 12, "steps_per_epoch": 2, "groups": None, "metric": "accuracy"}
RESULT = {"format": 1, "status": "finished", "final": {}, "best": {}, "time": {}}
FULL = r"cannot be written: No space left on device\. Make room, or choose another folder; what was written before"


def epoch(number):
    return {"kind": "epoch", "epoch": number, "step": number, "valid_accuracy": 0.5, "time": {}}


def begin(parent, **how):
    """A run with one checkpoint, and something after it."""
    with records.InFolder(parent, CONFIG, **how) as record:
        record.append(START)
        record.append(epoch(1))
        record.save({"epoch": 1, "weights": torch.arange(1000)})
        record.append({"kind": "rates", "step": 2, "rates": None})


def go_on(parent):
    """From the last checkpoint to the end."""
    with records.InFolder(parent, CONFIG, resume=True) as record:
        state = None if record.finished else record.restore()
        for number in range(0 if record.finished else 1 + state["epoch"], 4) if state else ():
            record.append(epoch(number))
            record.save({"epoch": number, "weights": torch.arange(1000)})
        if not record.finished:
            record.finish(RESULT)
        return record.run()


def requests(folder, work):
    """How often a disk is asked for something, when it refuses nothing."""
    with Disk().below(folder) as disk:
        work()
    return disk


def names(folder):
    return {path.name for path in folder.iterdir()}


def every_request(tmp_path, prepare, work):
    """The folder and the disk for each request that can be refused, whole and torn."""
    prepare(tmp_path / "count")
    disk = requests(tmp_path, lambda: work(tmp_path / "count"))
    assert {"write", "fsync", "rename", "open history.jsonl"} <= set(disk.log)
    for number in range(disk.asked):
        for takes in (0.0, 0.5) if disk.log[number] == "write" else (0.0,):
            folder = tmp_path / f"{number}-{takes}"
            prepare(folder)
            yield folder, Disk(number, takes=takes)


def test_a_disk_that_is_full_at_any_moment_of_a_run_costs_nothing_that_was_kept(tmp_path):
    count = 0
    for folder, disk in every_request(tmp_path, begin, go_on):
        with disk.below(tmp_path), pytest.raises(files.DiskError, match=FULL):
            go_on(folder)
        place = folder / CONFIG.id
        assert names(place) <= {"config.json", "history.jsonl", "checkpoint.pt", "result.json"}, disk.log[-1]
        left = records.read(place)
        assert not left.problems
        assert [line["epoch"] for line in left.epochs] == list(range(1, 1 + len(left.epochs)))
        assert left.epochs
        done = go_on(folder)
        assert (done.status, done.problems, [line["epoch"] for line in done.epochs]) == ("finished", (), [1, 2, 3])
        count += 1
    assert count > 20


def test_a_new_run_that_finds_no_room_leaves_nothing_or_a_record_to_go_on_with(tmp_path):
    for folder, disk in every_request(tmp_path, lambda folder: folder.mkdir(parents=True), begin):
        with disk.below(tmp_path), pytest.raises(files.DiskError, match=FULL):
            begin(folder)
        assert all(not path.name.startswith(".") and path.name != "lock" for path in folder.rglob("*")), disk.log
        assert all(not run.problems for run in records.load(folder))
        if (folder / CONFIG.id).exists():
            assert names(folder / CONFIG.id) >= {"config.json"}
        begin(folder, overwrite=True)


def test_beginning_again_removes_nothing_before_the_disk_has_taken_something_new(tmp_path):
    def finished(folder):
        begin(folder)
        go_on(folder)

    kept = 0
    for folder, disk in every_request(tmp_path, finished, lambda folder: begin(folder, overwrite=True)):
        before = untimed(folder / CONFIG.id)
        with disk.below(tmp_path), pytest.raises(files.DiskError, match=FULL):
            begin(folder, overwrite=True)
        if "rename" not in disk.log:  # it was not ready to take the place of the old one
            assert untimed(folder / CONFIG.id) == before
            kept += 1
        assert not records.read(folder / CONFIG.id).problems
    assert kept > 3


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.EDQUOT, "Make room"),
        (errno.EROFS, "Choose a folder that can be written to"),
        (errno.EACCES, "Choose a folder that you may write to"),
        (errno.EIO, "Choose another folder"),
    ],
    ids=errno.errorcode.get,
)
def test_whatever_the_disk_says_is_told_with_a_remedy(code, remedy, tmp_path):
    for number in range(3):
        with (
            Disk(number, code).below(tmp_path),
            pytest.raises(files.DiskError, match=f"cannot be written: {os.strerror(code)}. {remedy}"),
        ):
            begin(tmp_path / str(number))
        assert not list((tmp_path / str(number)).glob("*"))


def test_a_file_where_a_folder_should_be_is_told(tmp_path):
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "runs"):
        with pytest.raises(files.DiskError, match="A file is in the way: remove it, or choose another folder"):
            begin(folder)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_file_system_without_locks_is_not_another_process(tmp_path, monkeypatch):
    def no_locks(handle, shared=False):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(files, "take", no_locks)
    with pytest.raises(files.DiskError, match=r"lock' cannot be written: No locks available\. Choose another folder"):
        begin(tmp_path)


def test_training_on_a_full_disk_stops_and_goes_on_bit_by_bit(tmp_path):
    def run(folder, **how):
        settings = {"epochs": 2, "batch_size": 23, "rates_every": 1, "checkpoint_minutes": 0, "seed": 3, **how}
        options = {"backend": "foreach"}
        return train(lab_cases.Noisy, lab_cases.blobs(), "sgd-cam-hd-2", options=options, folder=folder, **settings)

    disk = requests(tmp_path, lambda: run(tmp_path / "whole"))
    (whole,) = (tmp_path / "whole").iterdir()
    for number in range(3, disk.asked, disk.asked // 8):
        folder = tmp_path / str(number)
        with Disk(number, takes=0.5).below(tmp_path), pytest.raises(files.DiskError, match=FULL):
            run(folder)
        assert not folder.exists() or all(not found.problems for found in records.load(folder))
        run(folder, resume=True)
        assert untimed(folder / whole.name) == untimed(whole), disk.log[number]


@pytest.mark.parametrize("takes", [0.0, 0.5])
def test_what_torch_makes_of_a_full_disk_is_still_a_full_disk(tmp_path, takes):
    """The writer of checkpoints hides what the disk said behind an error of its own."""
    disk = requests(tmp_path, lambda: begin(tmp_path / "count"))
    first = disk.log.index("create lock")
    writes = [number for number, what in enumerate(disk.log) if what == "write" and number > first]
    assert len(writes) > 6
    for number in writes:
        with Disk(number, takes=takes).below(tmp_path), pytest.raises(files.DiskError, match=FULL):
            begin(tmp_path / str(number))


def test_a_sweep_stops_at_once_when_the_disk_is_full_and_goes_on_when_there_is_room(tmp_path):
    plan = sweep.Plan.grid(data="digits", model="logistic", optimizer=["sgd", "adam"], epochs=1, batch_size=700)
    disk = requests(tmp_path, lambda: sweep.run(plan, tmp_path / "count", engine="here"))
    for number in range(1, disk.asked, 5):
        folder = tmp_path / str(number)
        with Disk(number).below(tmp_path), pytest.raises((files.DiskError, sweep.EngineError), match=FULL):
            sweep.run(plan, folder, engine="here")
        assert not list(folder.glob("*/failure.txt"))
        assert not list(folder.glob(".sweep/claims/*"))
        assert len(sweep.run(plan, folder, engine="here").runs) == 2


# Real disks


def test_a_real_disk_that_is_full_and_then_has_room(tmp_path):
    with small_disk(tmp_path / "disk", "48k") as folder:
        ballast = folder / "ballast"
        with pytest.raises(files.DiskError, match=FULL):  # noqa: PT012 (which of the writes fails is the disk's choice)
            begin(folder)
            ballast.write_bytes(bytes(4096 * 5))
            go_on(folder)
            raise AssertionError("there was room for everything")
        assert not records.load(folder).problems
        ballast.unlink()
        assert go_on(folder).status == "finished"
        assert names(folder / CONFIG.id) == {"config.json", "history.jsonl", "result.json"}


def test_a_folder_that_is_read_only_can_be_read_and_nothing_else(tmp_path):
    with small_disk(tmp_path / "disk", "1m") as folder:
        begin(folder)
        go_on(folder)
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        assert len(records.load(folder)) == 1
        with pytest.raises(files.DiskError, match=r"Read-only file system\. Choose a folder that can be written to"):
            begin(folder, overwrite=True)
        with pytest.raises(files.DiskError, match="Read-only file system"):
            files.write(folder / "page.html", "text")
        with pytest.raises(data.DataError, match=r"Read-only file system.*choose another folder with --folder"):
            data.add("text", __file__, "a test", folder / "data")
        assert records.read(folder / CONFIG.id).status == "finished"


# The command


def command(monkeypatch, *words):
    """What the command says when it ends."""
    monkeypatch.setattr(sys, "argv", ["camhd", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        app.main()
    return ended.value.code


@pytest.fixture
def kept(tmp_path):
    run = train("logistic", "digits", "sgd", epochs=1, batch_size=700, folder=tmp_path / "runs")
    return run.folder.parent


SMALL = ("--epochs", "1", "--batch-size", "700", "--model", "logistic")
COMMANDS = {
    "train": ["train", *SMALL, "--folder"],
    "compare": ["compare", *SMALL, "--optimizers", "sgd", "--seeds", "1", "--folder"],
    "report": ["report", "RUNS", "--out"],
    "figures": ["report", "RUNS", "--out", "REPORT", "--figures"],
    "sweep": ["sweep", "PLAN", "--engine", "here", "--folder"],
    "tune": ["tune", *SMALL, "--optimizer", "sgd", "--trials", "1", "--folder"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_tells_without_a_traceback_that_a_place_cannot_be_written(name, kept, tmp_path, monkeypatch, capsys):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"name": "p", "runs": [{"model": "logistic", "epochs": 1, "batch_size": 700}]}))
    (tmp_path / "file").write_text("mine")
    words = {"RUNS": kept, "PLAN": plan, "REPORT": tmp_path / "report.html"}
    before = untimed(next(kept.iterdir()))
    code = command(monkeypatch, *(words.get(word, word) for word in COMMANDS[name]), tmp_path / "file" / "deep" / "x")
    said = capsys.readouterr().err + (code if isinstance(code, str) else "")
    assert code not in (0, None), said
    assert "A file is in the way: remove it, or choose another folder" in said.replace("\n", " "), said
    assert "Traceback" not in said
    assert untimed(next(kept.iterdir())) == before
    assert (tmp_path / "file").read_text() == "mine"


def test_an_error_that_is_not_the_disks_keeps_its_traceback(monkeypatch):
    def fail(prog_name):
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")

    monkeypatch.setattr("camhd.cli.commands.app", fail)
    with pytest.raises(ConnectionResetError):
        app.main()


ODD = "Läufe 数据 ▲ 'one' \"two\" & $HOME; x"


def test_folders_may_be_called_anything(tmp_path, monkeypatch, capsys):
    folder = tmp_path / ODD
    assert command(monkeypatch, "train", *SMALL, "--optimizer", "sgd", "--folder", folder) == 0
    assert command(monkeypatch, "show", folder, "--json") == 0
    printed = capsys.readouterr().out
    assert str(folder) in printed
    assert command(monkeypatch, "report", folder, "--out", folder / "Übersicht 1.html") == 0
    assert "<html" in (folder / "Übersicht 1.html").read_text(encoding="utf-8")
    plan = folder / "Plan ä.json"
    plan.write_text(json.dumps({"name": "Größe 数", "runs": [{"model": "logistic", "epochs": 1, "batch_size": 700}]}))
    assert command(monkeypatch, "sweep", plan, "--engine", "here", "--folder", folder / "sweep ü") == 0
    text = folder / "Gedicht.txt"
    text.write_text("Über allen Gipfeln ist Ruh. " * 100, encoding="utf-8")
    assert command(monkeypatch, "data", "add", "text", text, "--note", "ein Gedicht", "--folder", folder / "Daten") == 0
    assert len(records.load(folder)) == 2


def test_a_terminal_that_knows_ascii_only_shows_the_rest_as_question_marks(kept):
    environment = {**os.environ, "PYTHONPATH": str(Path(camhd.__file__).parents[1]), "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "camhd", "show", str(kept), "--every"]
    relabelled = replace(records.read(next(kept.iterdir())).config, label="Größe ±1", seed=9)
    with records.InFolder(kept, relabelled) as record:
        record.append(START)
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "Gr??e ?1" in shown.stdout
