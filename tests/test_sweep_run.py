"""Carrying out a plan: only what is not finished; failures are kept; stopped and gone on; folders and object paths."""

import dataclasses
import math
import os
import re
import signal
import threading
import time
from pathlib import Path

import fsspec
import pytest

from camhd.lab import records, sweep
from camhd.lab.records import InFolder
from camhd.lab.sweep import Item, Plan, engines, objects, overhead, preparing, running, work
from camhd.lab.sweep.claims import about_me
from camhd.lab.sweep.places import opened, place
from camhd.lab.train import execute
from untimed import untimed

CASES = str(Path(__file__).with_name("sweep_cases.py"))
POINTS, NETWORK = f"{CASES}:points", f"{CASES}:network"


def small(name="small", **choices):
    values = {"model": NETWORK, "data": POINTS, "optimizer": ["adam", "sgd"], "epochs": 2, "seeds": 2}
    return Plan.grid(name, **{**values, **choices})


def one(model, **choices):
    return Item(model=f"{CASES}:{model}", data=POINTS, epochs=2, **choices)


def run(plan, folder, **options):
    return sweep.run(plan, folder, engine="here", **options)


def all_of(folder):
    return {path.name: untimed(path) for path in Path(folder).iterdir() if path.name != ".sweep"}


@pytest.fixture
def log(tmp_path, monkeypatch):
    """How often a model of the cases was built."""
    path = tmp_path / "log"
    path.touch()
    monkeypatch.setenv("SWEEP_LOG", str(path))
    return lambda: len(path.read_text().splitlines())


def test_the_records_are_those_of_single_runs(tmp_path):
    plan = small()
    outcome = run(plan, tmp_path / "swept")
    for item in plan.items:
        execute(preparing.job_of(item), tmp_path / "single")
    assert all_of(tmp_path / "swept") == all_of(tmp_path / "single")
    assert [(r.config.optimizer, r.config.seed) for r in outcome.runs] == [(i.optimizer, i.seed) for i in plan.items]


def test_what_is_finished_is_not_run_again(tmp_path, log):
    run(small(seeds=1), tmp_path / "runs")
    before = {
        path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.json") if ".sweep" not in path.parts
    }
    assert log() == 2
    outcome = run(small(seeds=2), tmp_path / "runs")
    assert log() == 4
    assert len(outcome.runs) == 4
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_a_failed_run_is_kept_with_its_traceback_and_the_others_go_on(tmp_path, log):
    plan = Plan("mixed", (one("broken"), one("network")))
    outcome = run(plan, tmp_path / "runs", retries=2)
    assert log() == 3 + 1
    assert [run.status for run in outcome.runs] == ["finished"]
    ((item, message),) = outcome.failed
    assert item == plan.items[0]
    assert message.rstrip().endswith("RuntimeError: no such layer")
    assert "sweep_cases.py" in message
    (failed,) = [run for run in records.load(tmp_path / "runs") if run.status == "failed"]
    assert failed.failure == message
    assert "RuntimeError: no such layer" in failed.problems[0]


def test_a_restart_knows_what_failed_and_tries_it_again_only_if_asked(tmp_path, log):
    plan = Plan("mixed", (one("broken"), one("network")))
    run(plan, tmp_path / "runs", retries=0)
    again = run(plan, tmp_path / "runs", retries=0)
    assert log() == 2
    assert len(again.failed) == 1
    asked = run(plan, tmp_path / "runs", retries=0, retry_failed=True)
    assert log() == 3
    assert len(asked.failed) == 1


def test_a_run_that_fails_once_is_tried_again(tmp_path, log):
    outcome = run([one("broken_once")], tmp_path / "runs")
    assert outcome.failed == []
    (folder,) = (path for path in (tmp_path / "runs").iterdir() if path.name != ".sweep")
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "history.jsonl", "result.json"]


def test_a_failure_that_was_mended_leaves_no_trace(tmp_path, log):
    plan = Plan("mended", (one("broken_once"),))
    assert len(run(plan, tmp_path / "runs", retries=0).failed) == 1
    assert run(plan, tmp_path / "runs", retries=0, retry_failed=True).failed == []
    assert all_of(tmp_path / "runs").popitem()[1].keys() == {"config.json", "history.jsonl", "result.json"}


def test_a_run_that_cannot_go_on_from_its_checkpoint_begins_again(tmp_path):
    (item,) = small(optimizer="adam", seeds=1).items
    config = preparing.job_of(item).config
    with InFolder(tmp_path / "runs", config) as record:
        record.append({"kind": "start"})
        record.save({})
        (record.path / "checkpoint.pt").write_bytes(b"damaged")
    assert run([item], tmp_path / "runs").failed == []
    run([item], tmp_path / "whole")
    assert all_of(tmp_path / "runs") == all_of(tmp_path / "whole")


# Stopping and going on


class StopAfterOne(sweep.Watcher):
    """Sends this process a signal when a run has ended; the next one waits in its midst until all know of it."""

    def __init__(self, folder, hold, number):
        self.folder, self.hold, self.number = folder, hold, number
        hold.write_text("1")

    def ended(self, ended):
        if self.hold.exists():
            os.kill(os.getpid(), self.number)

    def changed(self, standing):
        if list(self.folder.glob(".sweep/stop.*")):
            self.hold.unlink(missing_ok=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_and_the_same_call_goes_on(tmp_path, monkeypatch, log, number):
    monkeypatch.setattr("camhd.lab.sweep.places.Folder.look_every", 0.01)
    monkeypatch.setenv("SWEEP_HOLD", str(tmp_path / "hold"))
    plan = small(epochs=30)
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt):
        run(plan, tmp_path / "broken", watcher=StopAfterOne(tmp_path / "broken", tmp_path / "hold", number))
    assert signal.getsignal(number) is before
    assert 1 <= len(list((tmp_path / "broken").glob("*/result.json"))) <= 2
    outcome = run(plan, tmp_path / "broken")
    assert len(outcome.runs) == 4
    run(plan, tmp_path / "unbroken")
    assert all_of(tmp_path / "broken") == all_of(tmp_path / "unbroken")
    assert sorted(path.name for path in (tmp_path / "broken" / ".sweep").iterdir()) == ["claims", "small.json"]


def test_a_run_that_is_asked_to_stop_has_a_checkpoint(tmp_path):
    (item,) = small(optimizer="adam", seeds=1, epochs=50).items
    at, config = place(str(tmp_path / "runs")), preparing.job_of(item).config
    task = work.Task(item, config, at.where, "session")

    class Asked(work.Pulse):
        def stops(self):
            return self._progress.step == 7

    claim = at.claim(config.id, about_me())
    with Asked(task, at, claim) as pulse, pytest.raises(KeyboardInterrupt):
        at.work(preparing.job_of(item), False, 5.0, pulse)
    claim.release()
    assert (tmp_path / "runs" / config.id / "checkpoint.pt").exists()
    run([item], tmp_path / "runs")
    run([item], tmp_path / "whole")
    assert all_of(tmp_path / "runs") == all_of(tmp_path / "whole")


def test_an_owner_that_has_lost_its_run_touches_nothing(tmp_path, monkeypatch):
    """Not even to tidy up: the record is another's now."""
    (item,) = small(optimizer="adam", seeds=1, epochs=50).items
    at, config = place(str(tmp_path / "runs")), preparing.job_of(item).config
    folder = tmp_path / "runs" / config.id
    seen = {}

    def lost(self, **more):
        seen.update(untimed(folder))
        return False

    monkeypatch.setattr("camhd.lab.sweep.claims.Claim.beat", lost)
    monkeypatch.setattr(work, "LEASE", -1.0)  # every step looks
    report = work.carry_out(work.Task(item, config, at.where, "session"))
    assert report == (config.id, "busy")
    left = untimed(folder)
    assert left.keys() == seen.keys() - {"lock"} == {"config.json", "history.jsonl"}
    assert left["history.jsonl"] == seen["history.jsonl"]


def test_a_worker_without_its_sweep_does_nothing(tmp_path):
    (item,) = small(optimizer="adam", seeds=1).items
    at, config = place(str(tmp_path / "runs")), preparing.job_of(item).config
    task = work.Task(item, config, at.where, "session", parent=os.getppid() + 1)
    assert work._asked_to_stop(task, at)
    assert not work._asked_to_stop(dataclasses.replace(task, parent=os.getppid()), at)


# Several at once


def test_a_run_in_other_hands_is_waited_for_and_not_done_twice(tmp_path, monkeypatch, log):
    monkeypatch.setattr("camhd.lab.sweep.places.Folder.look_every", 0.01)
    plan = small(seeds=1)
    at, (first, second) = place(str(tmp_path / "runs")), list(running.prepared(plan))
    theirs = at.claim(first, about_me(label="theirs", seed=0, session="another"))
    seen = []

    class Finish(sweep.Watcher):
        """When the rest is done, the other one finishes, too."""

        def changed(self, standing):
            seen.append(standing)
            if standing.done == 1 and not (tmp_path / "runs" / first / "result.json").exists():
                execute(preparing.job_of(plan.items[0]), tmp_path / "runs")
                theirs.release()

    outcome = run(plan, tmp_path / "runs", watcher=Finish())
    assert outcome.done == [first, second]
    assert log() == 2
    assert any(not one.mine and one.label == "theirs" for standing in seen for one in standing.running)
    assert (seen[0].total, seen[-1].done, seen[-1].failed, seen[-1].left) == (2, 2, 0, 0.0)


def test_threads_of_one_process_take_turns(tmp_path):
    """A seed is the process's; some engines have several threads in one."""
    plan = small(seeds=3)
    at, planned = place(str(tmp_path / "threads")), running.prepared(plan)
    tasks = [work.Task(found.item, found.config, at.where, "session") for found in planned.values()]
    threads = [threading.Thread(target=work.carry_out, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run(plan, tmp_path / "alone")
    assert all_of(tmp_path / "threads") == all_of(tmp_path / "alone")


def test_camhd_train_in_the_same_folder_is_in_nobodys_way(tmp_path):
    (item,) = small(optimizer="adam", seeds=1).items
    job = preparing.job_of(item)
    with InFolder(tmp_path / "runs", job.config):
        report = work.carry_out(work.Task(item, job.config, str(tmp_path / "runs"), "session"))
    assert report.how == "busy"
    assert place(str(tmp_path / "runs")).claims() == []


def test_a_machine_with_other_data_says_so(tmp_path, monkeypatch):
    (item,) = small(optimizer="adam", seeds=1).items
    config = dataclasses.replace(preparing.job_of(item).config, fingerprint="another")
    at = place(str(tmp_path / "runs"))
    assert work.carry_out(work.Task(item, config, at.where, "session", retries=0)).how == "failed"
    assert "its fingerprint is 'another' where the sweep was started" in at.failure(config.id)


# Object paths


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    opened.cache_clear()
    store = fsspec.filesystem("memory")
    store.store.clear()
    yield "memory://bucket/sweep"
    store.store.clear()
    opened.cache_clear()


def test_an_object_path_holds_the_same_records(tmp_path, bucket, log):
    plan = Plan("both", (*small().items, one("broken")))
    far = run(plan, bucket, retries=0)
    near = run(plan, tmp_path / "near", retries=0)
    assert far.done == near.done
    assert [failure.item for failure in far.failed] == [failure.item for failure in near.failed] == [plan.items[-1]]
    done = {name: files for name, files in all_of(tmp_path / "near").items() if name in near.done}
    assert all_of(far.copied_to(tmp_path / "copies")) == done
    assert [run.final for run in far.runs] == [run.final for run in near.runs]
    before = log()
    assert run(plan, bucket).done == far.done
    assert log() == before
    assert not [path for path in fsspec.filesystem("memory").find("/bucket") if "claims" in path]


def test_nobody_sees_half_of_a_run_and_a_broken_transfer_trains_nothing_twice(tmp_path, bucket, monkeypatch, log):
    (item,) = small(optimizer="adam", seeds=1).items
    at = place(bucket)
    plain, sent = at._system.pipe_file, []

    def breaks(path, value, **options):
        if path.endswith(("history.jsonl", "result.json", "config.json")):
            sent.append(path.rpartition("/")[2])
            readable = [name for name in fsspec.filesystem("memory").find("/bucket") if name.endswith("config.json")]
            assert readable == []
            if len(sent) == 3:
                raise OSError("connection lost")
        return plain(path, value, **options)

    monkeypatch.setattr(at._system, "pipe_file", breaks)
    outcome = run([item], bucket, retries=1)
    assert sent == ["history.jsonl", "result.json", "config.json"] * 2
    assert len(outcome.runs) == 1
    assert log() == 1
    assert not list((tmp_path / "cache" / "camhd" / "sweeps").glob("*/*/points-*"))


def test_a_file_url_is_a_folder(tmp_path):
    assert place(f"file://{tmp_path}/runs").where == str(tmp_path / "runs")
    assert isinstance(place(f"dir::file://{tmp_path}/runs"), objects.Objects)


def test_a_url_that_leads_nowhere_is_refused():
    with pytest.raises(ValueError, match="'folder' 'nowhere://bucket' cannot be opened"):
        place("nowhere://bucket")


# Engines


def test_cores_are_divided_and_numbers_do_not_depend_on_what_is_left(monkeypatch):
    monkeypatch.setattr(engines, "cores", lambda: 8)
    for given, expected in {
        (None, None, 100): (8, 1),
        (None, None, 3): (3, 2),
        (2, None, 100): (2, 4),
        (None, 4, 100): (2, 4),
        (16, None, 100): (16, 1),
        (None, 16, 100): (1, 16),
        (3, 2, 100): (3, 2),
    }.items():
        chosen = engines.choose_engine("local", None, *given)
        assert (chosen.workers, chosen.threads) == expected, given


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "slurm"}, "'engine' has no choice 'slurm'"),
        ({"engine": "ray"}, "'engine' ray needs the 'address' of a cluster, such as auto"),
        ({"engine": "dask"}, "'engine' dask needs the 'address' of a cluster"),
        ({"address": "auto"}, "'address' is for the engines ray and dask"),
        ({"workers": 0}, "'workers' must be 1 or more, got 0."),
        ({"threads": 0}, "'threads' must be 1 or more, got 0."),
        ({"retries": -1}, "'retries' must be 0 or more, got -1."),
    ],
)
def test_wrong_options_are_refused(tmp_path, options, message, monkeypatch):
    for name in ("RAY_ADDRESS", "DASK_SCHEDULER_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match=r"must|needs|has no|is for") as refused:
        sweep.run(small(), tmp_path / "runs", **options)
    assert message in str(refused.value)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("engine", "package"), [("ray", "ray"), ("dask", "distributed"), ("here", "joblib")])
def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch, engine, package):
    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr("camhd.lab.sweep.optional.importlib.import_module", missing)
    chosen = engines.Engine(engine, "127.0.0.1:1", 2, 1)
    extra = "lab" if engine == "here" else "cluster"
    message = rf"this needs {package}: pip install 'camhd\[{extra}\]'"
    with pytest.raises(ModuleNotFoundError, match=message), chosen.connected() as pool:
        pool.carry_out([])


def test_an_engine_that_only_breaks_is_an_error_and_not_an_endless_loop(tmp_path, monkeypatch):
    attempts = []

    def breaks(self, tasks, alone=False):
        attempts.append(len(tasks))
        raise OSError("no route to host")

    monkeypatch.setattr(engines.Pool, "carry_out", breaks)
    with pytest.raises(sweep.EngineError, match="no route to host"):
        run(small(), tmp_path / "runs")
    assert attempts == [4, 4, 4]


def test_what_an_earlier_break_left_behind_is_no_progress(tmp_path, monkeypatch):
    attempts = []

    def breaks(self, tasks, alone=False):
        attempts.append(len(tasks))
        if len(attempts) == 1:
            claim = place(tasks[0].where).claim(tasks[0].config.id, about_me(session=tasks[0].session))
            os.close(claim._handle)  # as when its process is killed
        raise OSError("the scheduler is gone")

    monkeypatch.setattr(engines.Pool, "carry_out", breaks)
    with pytest.raises(sweep.EngineError, match="the scheduler is gone"):
        run(small(), tmp_path / "runs")
    assert attempts == [4, 4, 4, 4]


def test_what_is_in_other_hands_is_no_reason_to_hurry(tmp_path, monkeypatch):
    """A run that `camhd train` works on has a lock and no claim: it is tried again later, not at once."""
    (item,) = small(optimizer="adam", seeds=1).items
    rests = []
    record = InFolder(tmp_path / "runs", preparing.job_of(item).config)
    record.__enter__()

    class Patient(running.Board):
        def rest(self):
            began = time.monotonic()
            super().rest()
            rests.append(time.monotonic() - began)
            record.__exit__(None, None, None)

    monkeypatch.setattr(running, "Board", Patient)
    assert len(run([item], tmp_path / "runs").done) == 1
    (seconds,) = rests
    assert seconds >= 1.0


def test_a_run_that_kills_its_worker_fails_alone_and_takes_no_other_with_it(tmp_path, monkeypatch):
    """The engine kills the workers beside it, too, so that nobody knows at first which run it was."""
    sent = []

    def carry_out(self, tasks, alone=False):
        sent.append(([task.item.seed for task in tasks], alone))
        reports = []
        for number, task in enumerate(tasks):
            if task.item.seed == 1:
                for victim in tasks[number : number + 2]:
                    claim = place(victim.where).claim(victim.config.id, about_me(session=victim.session), victim.after)
                    os.close(claim._handle)
                raise OSError("a worker was killed: SIGKILL")
            reports.append(work.carry_out(task))
        return reports

    monkeypatch.setattr(engines.Pool, "carry_out", carry_out)
    outcome = run(small(optimizer="adam", seeds=4), tmp_path / "runs", retries=1)
    assert sent == [([0, 1, 2, 3], False), ([1, 2, 3], False), ([3], False), ([1], True), ([2], True)]
    assert [one.config.seed for one in outcome.runs] == [0, 2, 3]
    ((item, message),) = outcome.failed
    assert item.seed == 1
    assert "ended without a word 3 times, the last time with no other run beside it" in message
    assert message.endswith("OSError: a worker was killed: SIGKILL\n")


def test_a_run_that_ends_its_process_is_not_tried_for_ever(tmp_path, log):
    outcome = run([one("leaves"), one("network")], tmp_path / "runs")
    assert len(outcome.done) == 1
    assert "sys.exit()" in outcome.failed[0].message
    assert log() == 3 + 1


def test_what_a_worker_left_that_was_killed_at_the_end_of_a_run_is_tidied_away(tmp_path):
    (item,) = small(optimizer="adam", seeds=1).items
    (key,) = run([item], tmp_path / "runs").done
    whole = all_of(tmp_path / "runs")
    at = place(str(tmp_path / "runs"))
    os.close(at.claim(key, about_me())._handle)
    for name in ("lock", "checkpoint.pt", ".result.json.1-a.part"):
        (tmp_path / "runs" / key / name).touch()
    run([item], tmp_path / "runs")
    assert at.claims() == []
    assert all_of(tmp_path / "runs") == whole


# What is told


def test_a_watcher_is_told_what_ended_and_what_is_best(tmp_path):
    ended, standings = [], []

    class Told(sweep.Watcher):
        def ended(self, one):
            ended.append(one)

        def changed(self, standing):
            standings.append(standing)

    plan = Plan("mixed", (*small().items, one("broken")))
    outcome = run(plan, tmp_path / "runs", watcher=Told())
    assert sorted(one.run for one in ended) == sorted(
        [*outcome.done, *(r.config.id for r in _failed(tmp_path / "runs"))]
    )
    best = max(run.final["valid_accuracy"] for run in outcome.runs)
    assert standings[-1].best.value == best
    assert (standings[-1].done, standings[-1].failed, standings[-1].total) == (4, 1, 5)
    assert [one.message for one in ended if one.status == "failed"] == ["RuntimeError: no such layer"]


def _failed(folder):
    return [run for run in records.load(folder) if run.status == "failed"]


def test_better_means_better():
    def end(value, higher=True, status="finished"):
        return sweep.Ended("r", Item(), "Adam", status, "m", value, higher=higher)

    assert end(0.9).better(None)
    assert end(0.9).better(end(0.8))
    assert not end(0.8).better(end(0.9))
    assert end(0.1, higher=False).better(end(0.2, higher=False))
    assert not end(math.nan).better(None)
    assert not end(0.9, status="failed").better(None)


def test_a_survey_says_where_every_run_stands(tmp_path):
    plan = Plan("mixed", (*small(seeds=3).items, one("broken")))
    ids = list(running.prepared(plan))
    run([*plan.items[:2], plan.items[-1]], tmp_path / "runs", retries=0)
    at = place(str(tmp_path / "runs"))
    claim = at.claim(ids[2], about_me())
    with InFolder(tmp_path / "runs", preparing.job_of(plan.items[3]).config) as record:
        record.append({"kind": "start"})
    states = [state.state for state in sweep.survey(plan, tmp_path / "runs")]
    assert states == ["finished", "finished", "running", "begun", "new", "new", "failed"]
    claim.release()
    assert {name: len(states) for name, states in sweep.surveys(tmp_path / "runs").items()} == {"sweep": 3}


def test_the_figures_of_its_own_cost_are_printed(monkeypatch, capsys):
    monkeypatch.setattr(overhead, "run", lambda plan, folder, workers: sweep.run(plan, folder, engine="here"))
    overhead.main(["--runs", "3", "--workers", "1"])
    assert re.fullmatch(
        r"3 runs: the sweep adds \d+\.\d ms of a worker to each; the report takes \d+\.\d s\n", capsys.readouterr().out
    )
