"""Records and checkpoints from somebody who means ill, cut in the middle, or from a machine whose clock jumps.

Nothing in a record is ever run, and nothing of it decides where a file is written. Attacks in data files are in
`test_data_attacks.py`.
"""

import datetime
import json
import lzma
import os
import pickle
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
import torch

import camhd
import lab_cases
from camhd.cli import app
from camhd.lab import records
from camhd.lab.records import RunConfig, text
from camhd.lab.results import archive, packing
from camhd.lab.sweep import claims
from camhd.lab.train import Watcher, clock, train

CONFIG = RunConfig("ffnn:8", "digits", "adam", "Adam", options={"lr": 0.1})


class Evil:
    """Makes a folder when it is unpickled."""

    def __init__(self, target):
        self.target = str(target)

    def __reduce__(self):
        return os.mkdir, (self.target,)


def half_done(folder):
    """A run with a checkpoint, as an interruption leaves it."""
    with records.InFolder(folder, CONFIG) as record:
        record.append({"kind": "start"})
        record.save({"weights": torch.arange(3.0)})
    return record.path / "checkpoint.pt"


def restored(folder):
    with records.InFolder(folder, CONFIG, resume=True) as record:
        return record.restore()


# Checkpoints

WRITERS = {
    "torch": torch.save,
    "torch, before it used zip": lambda state, file: torch.save(state, file, _use_new_zipfile_serialization=False),
    "pickle": lambda state, file: file.write(pickle.dumps(state)),
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("where", ["instead of the state", "inside the state"])
def test_code_in_a_checkpoint_is_not_run(writer, where, tmp_path):
    path, target = half_done(tmp_path / "runs"), tmp_path / "made"
    state = Evil(target) if where == "instead of the state" else {"history": 0, "weights": Evil(target)}
    with path.open("wb") as file:
        WRITERS[writer](state, file)
    before = path.read_bytes(), (path.parent / "history.jsonl").read_bytes()
    with pytest.raises(records.CheckpointError, match=r"checkpoint\.pt' cannot be read, so the run cannot go on; give"):
        restored(tmp_path / "runs")
    assert not target.exists()
    assert (path.read_bytes(), (path.parent / "history.jsonl").read_bytes()) == before
    with path.open("rb") as file:  # the attack would have worked
        pickle.load(file) if writer == "pickle" else torch.load(file, weights_only=False)
    assert target.exists()


def test_a_checkpoint_that_is_a_bomb_is_not_unpacked(tmp_path):
    """Torch packs nothing; here a file of 5 MB holds a tensor of 5 GB."""
    path, packed = half_done(tmp_path), tmp_path / "packed"
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
    packed.replace(path)
    assert torch.load(path)["weights"].tolist() == [0, 1, 2]  # it would have been
    with pytest.raises(records.CheckpointError, match=r"its entry '.*' is packed"):
        restored(tmp_path)


@pytest.mark.parametrize(
    "state", [[1], {}, {"history": "0"}, {"history": -1}, {"history": 1.5}, {"history": True}], ids=str
)
def test_a_checkpoint_that_is_none_is_refused(state, tmp_path):
    path = half_done(tmp_path)
    torch.save(state, path)
    history = (path.parent / "history.jsonl").read_bytes()
    with pytest.raises(records.CheckpointError, match=r"\(it does not say how long the history was\)"):
        restored(tmp_path)
    assert (path.parent / "history.jsonl").read_bytes() == history


def test_a_checkpoint_cut_or_damaged_anywhere_is_refused_or_the_same(tmp_path):
    path = half_done(tmp_path)
    whole = path.read_bytes()
    history = (path.parent / "history.jsonl").read_bytes()
    refused = 0
    for place in range(0, len(whole), 41):
        path.write_bytes(whole[:place])
        with pytest.raises(records.CheckpointError):
            restored(tmp_path)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        try:
            assert restored(tmp_path)["weights"].shape == (3,)  # most bytes are padding
        except records.CheckpointError:
            refused += 1
        assert (path.parent / "history.jsonl").read_bytes() == history
    assert refused > 10


def interrupted(folder):
    """A run of a few steps that was stopped after the first."""

    class Stop(Watcher):
        def stops(self):
            return True

    with pytest.raises(KeyboardInterrupt):
        run_on(folder, watcher=Stop())
    (path,) = Path(folder).glob("*/checkpoint.pt")
    return path


def run_on(folder, **how):
    return train(lab_cases.mlp, lab_cases.blobs(), "sgd", epochs=2, batch_size=23, folder=folder, **how)


@pytest.mark.parametrize("entry", ["place", "model", "driver", "tally", "random"])
def test_a_checkpoint_with_something_else_in_it_does_not_fit(entry, tmp_path):
    path = interrupted(tmp_path)
    state = torch.load(path)
    for wrong in (None, [1], {"a": torch.zeros(2)}):
        torch.save({**state, entry: wrong}, path)
        with pytest.raises(
            records.CheckpointError, match=r"does not fit the run, so it cannot go on; give 'overwrite'"
        ):
            run_on(tmp_path, resume=True)
        assert path.exists()
    torch.save(state, path)
    assert run_on(tmp_path, resume=True).status == "finished"


# Records


def test_a_record_cut_anywhere_gives_what_came_before_and_stops_nobody(tmp_path):
    run = train(lab_cases.mlp, lab_cases.blobs(), "adam-hd", epochs=2, batch_size=23, folder=tmp_path / "a")
    train(lab_cases.mlp, lab_cases.blobs(), "adam-hd", epochs=1, batch_size=23, folder=tmp_path / "b")
    for name in ("config.json", "history.jsonl", "result.json"):
        path = run.folder / name
        whole = path.read_bytes()
        for length in range(0, len(whole), 61):
            path.write_bytes(whole[:length])
            found = records.load(tmp_path)
            assert len(found) == (1 if name == "config.json" else 2)
            assert bool(found.problems) == (name != "history.jsonl")
            assert len(found.results) == len(found)
            assert len(found.epochs) >= 1
            assert not found.rates.empty
        path.write_bytes(whole)
    assert records.load(tmp_path).problems == ()


BREAKING = {
    "deep lists": "[" * 100_000,
    "deep mappings": '{"a":' * 100_000,
    "digits": "1" * 100_000,
    "zero": "\0",
    "infinity": '{"format": 1e999}',
}


@pytest.mark.parametrize("content", BREAKING.values(), ids=BREAKING)
def test_json_that_is_meant_to_break_the_reader_is_a_problem_and_no_more(content, tmp_path):
    with pytest.raises(ValueError, match=r"nested|digits|Expecting|must be 1"):
        RunConfig.from_json(content)
    for name in ("history.jsonl", "result.json"):
        with records.InFolder(tmp_path / name, CONFIG) as record:
            record.append({"kind": "start"})
            record.finish({"status": "finished", "final": {}})
        (record.path / name).write_text(content + "\n")
        assert "is damaged" in records.read(record.path).problems[0]


def test_no_entry_of_a_configuration_leads_out_of_its_folder(tmp_path):
    for wrong in ("../../evil", "/etc/evil", "..\\evil", "C:\\evil", "a/../../b", ".", "..", "\0", "~/evil", "$HOME"):
        for name in ("model", "data", "optimizer"):
            config = RunConfig(**{"model": "m", "data": "d", "optimizer": "o", name: wrong})
            assert (tmp_path / config.id).parent == tmp_path
            assert not {"/", "\\", ":", "\0"} & set(config.id)
            assert not config.id.startswith(".")


def test_the_id_that_a_file_claims_is_not_believed(tmp_path):
    told = json.loads(CONFIG.to_json()) | {"id": "../../evil"}
    assert RunConfig.from_json(json.dumps(told)).id == CONFIG.id


@pytest.mark.parametrize("entry", ["model", "data", "optimizer"])
def test_a_record_that_names_a_function_does_not_call_it(entry, tmp_path, monkeypatch, capsys):
    """Functions are named on the command line only, by the one who wants them to run."""
    target = tmp_path / "made"
    (tmp_path / "evil.py").write_text(f"import os\nos.mkdir({str(target)!r})\ndef make(*a, **k): os.mkdir('x')\n")
    monkeypatch.chdir(tmp_path)
    for name in ("evil:make", "evil.py:make", "own:evil:make", "own:make-1234"):
        named = {"model": "logistic", "data": "digits", "optimizer": "sgd", entry: name}
        (tmp_path / "config.json").write_text(text.to_json({"format": 1, **named}))
        monkeypatch.setattr(sys, "argv", ["camhd", "train", "--config", "config.json"])
        with pytest.raises(SystemExit) as ended:
            app.main()
        assert ended.value.code == 2
        assert "Traceback" not in capsys.readouterr().err
        assert not target.exists()


# Archives of results


def packed_lines(path, *lines):
    head = {"format": archive.FORMAT, "plan": "ffnn", "scale": "cpu", "records": len(lines)}
    path.write_bytes(lzma.compress("\n".join(map(text.to_json, (head, *lines))).encode()))
    return path


def test_no_record_of_an_archive_is_written_outside_its_folder(tmp_path):
    config = json.loads(RunConfig("../../evil", "/etc/evil", "..").to_json())
    run = {"config": config, "history": [{"kind": "start"}], "result": {"status": "finished", "final": {}}}
    kinds = ("../../evil", "/evil", "..", "C:\\evil")
    measured = [{"kind": kind, "arguments": {}, "values": {}, "environment": {}, "time": {}} for kind in kinds]
    path = packed_lines(tmp_path / "ffnn-cpu.jsonl.xz", {**run, packing.WHOLE: {}}, *measured)
    written = packing.unpack(archive.read(path), tmp_path / "deep" / "out")
    assert len(written) == 5
    assert {place.parent for place in written} == {tmp_path / "deep" / "out"}
    assert {path.name for path in tmp_path.iterdir()} == {"ffnn-cpu.jsonl.xz", "deep"}
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]
    assert len(list((tmp_path / "deep" / "out").iterdir())) == 5


def test_an_archive_of_results_that_is_a_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "LARGEST", 10**6)
    path = tmp_path / "bomb.jsonl.xz"
    path.write_bytes(lzma.compress(bytes(10**8), preset=0))
    assert path.stat().st_size < 20_000
    with pytest.raises(
        ValueError, match=r"bomb.jsonl.xz' is no archive of results \(it is larger than 1,000,000 bytes\)"
    ):
        archive.read(path)


# Clocks


class Jumping(datetime.datetime):
    """Every look at the clock finds another century, before or after."""

    looks = 0

    @classmethod
    def now(cls, tz=None):
        cls.looks += 1
        return datetime.datetime(1970 if cls.looks % 2 else 2100, 1, 1, tzinfo=tz)


def test_a_clock_that_jumps_changes_no_result_and_no_duration(tmp_path, monkeypatch):
    plain = run_on(tmp_path / "plain")
    monkeypatch.setattr(clock, "datetime", Jumping)
    jumps = iter(range(0, 10**9, 86_400))
    monkeypatch.setattr(time, "time", lambda: 1e9 - next(jumps))
    path = interrupted(tmp_path / "jumping")
    run = run_on(tmp_path / "jumping", resume=True)
    assert not path.exists()
    assert run.final == plain.final
    for found in (run.result["time"], *(line["time"] for line in run.epochs)):
        assert all(0 <= value < 1000 for value in found.values() if isinstance(value, float)), found


def test_a_claim_lives_and_dies_by_beats_and_locks_and_not_by_the_time_of_day(tmp_path, monkeypatch):
    mine = claims.Claims(tmp_path)
    held = mine.take("run", {"machine": "another"})
    observer = claims.Observer()
    unheard = claims.Seen("run", 1, None, "beat 1")
    assert not observer.dead(unheard)
    monkeypatch.setattr(time, "time", lambda: 4e9)
    assert not observer.dead(unheard)
    assert mine.look("run").alive
    assert mine.take("run", {}) is None
    held.release()


def test_files_from_the_future_and_from_1970_are_read(tmp_path):
    path = half_done(tmp_path)
    for when in (0, 4_102_444_800):
        for file in path.parent.iterdir():
            os.utime(file, (when, when))
        assert restored(tmp_path)["weights"].tolist() == [0, 1, 2]


# The network

OFFLINE = """
import sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "urllib.Request"):
        if event not in ("socket.connect", "socket.bind") or isinstance(arguments[1], tuple):  # not a file's socket
            print("NETWORK", event, arguments[1:], flush=True)
            raise RuntimeError("the network was used")

sys.addaudithook(refuse)
from camhd.cli.commands import app

small = ["--model", "logistic", "--epochs", "1", "--batch-size", "700"]
for words in (
    ["data", "list"],
    ["train", *small, "--optimizer", "adam-cam-hd-2", "--option", "backend=foreach"],
    ["compare", *small, "--optimizers", "sgd", "--seeds", "1", "--folder", "runs"],
    ["show", "runs"],
    ["report", "runs", "--out", "report.html"],
    ["tune", *small, "--optimizer", "sgd", "--trials", "1", "--folder", "tuned"],
    ["reproduce", "convergence", "--scale", "smoke", "--only", "combination", "--no-figures"],
):
    assert not app(words, standalone_mode=False), words
print("done")
"""


@pytest.mark.thorough
@pytest.mark.slow
def test_no_command_uses_the_network_or_listens_unless_it_is_asked_to(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(camhd.__file__).parents[1]), "CAMHD_DATA": str(tmp_path / "d")}
    command = [sys.executable, "-c", OFFLINE]
    ran = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "NETWORK" not in ran.stdout
    assert ran.stdout.endswith("done\n"), ran.stderr
