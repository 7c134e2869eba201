"""Sweeps in real processes and on real clusters: killed, stopped, several at once; always the same records."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import camhd
from camhd.lab import records, sweep
from camhd.lab.sweep.places import place
from untimed import untimed

HERE = Path(__file__).parent
SOURCES = str(Path(camhd.__file__).parents[1])


def write_plan(path, **values):
    """Twenty short runs, unless told otherwise."""
    common = {"model": f"{HERE}/sweep_cases.py:network", "data": f"{HERE}/sweep_cases.py:points"}
    grid = {"optimizer": ["adam", "sgd"], "options": {"lr": [0.01, 0.1]}, "seeds": 5, "epochs": 12}
    path.write_text(json.dumps({**common, "grid": {**grid, **values}}))
    return path


def start(plan, folder, *options, **environment):
    """`camhd sweep`, in a session of its own as in a terminal."""
    command = [sys.executable, "-m", "camhd", "sweep", str(plan), "--folder", str(folder), "--threads", "1", *options]
    path = os.pathsep.join([SOURCES, os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def end(process, code=0):
    out, err = process.communicate(timeout=600)
    assert process.returncode == code, (process.returncode, out, err)
    return out, err


def wait_for(condition, process):
    """Until something is so; a process that ends before is an error."""
    while not (found := condition()):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    return found


def workers(folder, among=lambda about: True):
    """The processes that work on a run now."""
    return [seen.about["pid"] for seen in place(str(folder)).claims() if seen.alive and among(seen.about)]


def finished(folder):
    return len(list(Path(folder).glob("*/result.json")))


def all_of(folder):
    return {path.name: untimed(path) for path in Path(folder).iterdir() if path.name != ".sweep"}


def unbroken(plan, folder):
    sweep.run(sweep.Plan.from_file(plan), folder, engine="here")
    return all_of(folder)


def two(found):
    return found if len(found) == 2 else None


class Gate:
    """Holds up runs in their midst; see `sweep_cases.Gate`."""

    def __init__(self, folder):
        self.log, self.hold = folder / "log", folder / "hold"
        self.variables = {"SWEEP_LOG": str(self.log), "SWEEP_HOLD": str(self.hold)}

    def let_pass(self, number):
        part = self.hold.with_suffix(".part")
        part.write_text(str(number))
        part.replace(self.hold)

    def open(self):
        self.hold.unlink()


def wait_until_gone(pid):
    """Until a process has ended; one that nobody has asked about is a zombie."""
    with contextlib.suppress(FileNotFoundError):
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.05)


@pytest.mark.slow
def test_workers_and_the_sweep_are_killed_and_it_is_started_again(tmp_path):
    plan, folder, gate = write_plan(tmp_path / "twenty.json"), tmp_path / "runs", Gate(tmp_path)
    gate.let_pass(3)
    first = start(plan, folder, "--workers", "2", **gate.variables)
    one, _ = wait_for(lambda: finished(folder) == 3 and two(workers(folder)), first)
    os.kill(one, signal.SIGKILL)
    gate.let_pass(12)  # it goes on by itself
    second, third = wait_for(lambda: finished(folder) >= 8 and two(workers(folder)), first)
    os.kill(second, signal.SIGKILL)
    first.kill()
    gate.open()
    _, told = first.communicate()
    assert "A worker was lost" in told
    wait_until_gone(third)  # no worker outlives its sweep
    assert finished(folder) < 20

    out, _ = end(start(plan, folder, "--engine", "here"))
    assert "20 runs finished, 0 failed." in out
    assert f"camhd report {folder}" in out
    found = records.load(folder)
    assert len(found) == 20
    assert found.problems == ()
    assert all_of(folder) == unbroken(plan, tmp_path / "unbroken")
    assert place(str(folder)).claims() == []


@pytest.mark.thorough
@pytest.mark.slow
def test_two_sweeps_on_one_folder_do_no_run_twice(tmp_path):
    """On an object path that several processes share."""
    plan = write_plan(tmp_path / "twenty.json", epochs=4)
    url, gate = f"dir::file://{tmp_path}/bucket", Gate(tmp_path)
    (tmp_path / "bucket").mkdir()
    gate.let_pass(3)
    variables = {**gate.variables, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    options = ("--engine", "here", "--copies")
    both = [start(plan, url, *options, str(tmp_path / f"copies{number}"), **variables) for number in (1, 2)]
    wait_for(lambda: len({seen.about.get("session") for seen in place(url).claims()} - {None}) == 2, both[0])
    gate.open()
    told = [end(process)[1] for process in both]
    assert len(gate.log.read_text().splitlines()) == 20
    assert all("[20/20]" in text for text in told)
    expected = unbroken(plan, tmp_path / "unbroken")
    assert all_of(tmp_path / "copies1") == all_of(tmp_path / "copies2") == expected


@pytest.mark.thorough
@pytest.mark.slow
def test_ctrl_c_stops_all_workers_with_checkpoints(tmp_path):
    plan, folder, gate = write_plan(tmp_path / "long.json", epochs=5000, seeds=1), tmp_path / "runs", Gate(tmp_path)
    gate.let_pass(0)
    process = start(plan, folder, "--workers", "2", **gate.variables)
    found = wait_for(lambda: two(workers(folder)), process)
    wait_for(lambda: gate.log.exists() and len(gate.log.read_text().split()) == 2, process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to everybody
    wait_for(lambda: list(folder.glob(".sweep/stop.*")), process)
    gate.open()
    _, told = end(process, code=130)
    assert "Stopped." in told
    assert f"camhd sweep {plan} --folder {folder} --workers 2 --threads 1" in told
    assert "Traceback" not in told
    assert len(list(folder.glob("*/checkpoint.pt"))) == 2
    assert workers(folder) == []
    for pid in found:
        wait_until_gone(pid)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_a_cluster_gives_the_same_records(tmp_path, engine):
    pytest.importorskip({"ray": "ray", "dask": "distributed"}[engine], reason=f"{engine} is not installed")
    plan = write_plan(tmp_path / "plan.json", seeds=2, epochs=3)
    path = os.pathsep.join([SOURCES, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(HERE / "sweep_cluster.py"), engine, str(plan), str(tmp_path / "runs")],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (len(found["done"]), found["failed"]) == (8, 0)
    assert {host.removeprefix("::ffff:") for host in found["listening"]} <= {"127.0.0.1", "::1"}
    assert found["listening"]
    assert all_of(tmp_path / "runs") == unbroken(plan, tmp_path / "unbroken")
