"""Several processes share a study, on SQLite and on PostgreSQL; what is killed or interrupted is taken up again."""

import importlib.util
import signal

import pytest

import studies
from camhd.lab import records
from camhd.lab.records import RunConfig
from camhd.lab.train import Settings
from camhd.lab.tune import task, tune

pytestmark = pytest.mark.slow


def here(folder):
    """The same task as that of `studies.start`, in this process."""
    spec = importlib.util.spec_from_file_location("held", folder / "held.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return task(
        module.network, module.blobs, "adam", Settings(epochs=2, split="fraction:0.2"), search=["lr=1e-4..1:log"]
    )


def check(url, folder, count):
    """So many trials have had their turn, each with a whole record of its own."""
    trials = studies.trials(url)
    done = [trial for trial in trials if trial.state.name in ("COMPLETE", "PRUNED")]
    assert len(done) == count
    assert {trial.state.name for trial in trials} <= {"COMPLETE", "PRUNED", "FAIL"}
    runs = [run for trial in done for run in trial.user_attrs["runs"]]
    assert len(set(runs)) == count
    found = records.load(folder / "tuning")
    assert not found.problems
    finished = [run for run in found if run.status in ("finished", "diverged")]
    assert {run.config.id for run in finished} >= {
        run for trial in done if trial.state.name == "COMPLETE" for run in trial.user_attrs["runs"]
    }
    return trials


@pytest.mark.thorough
@pytest.mark.skipif(
    studies.postgres_programs() is None, reason="needs PostgreSQL's programs: apt-get install postgresql"
)
def test_two_processes_on_one_postgresql_database_share_a_study_and_one_goes_on_without_the_other(tmp_path):
    pytest.importorskip("psycopg", reason="needs a driver: pip install 'psycopg[binary]'")
    studies.held(tmp_path)
    with studies.postgres() as url:
        arguments = ("--storage", url, "--trials", 6, "--grace", 4)
        processes = [studies.start(tmp_path, *arguments) for _ in range(2)]
        numbers = studies.waiting(tmp_path, 2, processes)
        assert sorted(numbers) == sorted(process.pid for process in processes)
        assert studies.states(url) == ["RUNNING", "RUNNING"]
        first, second = processes
        studies.kill(first.pid)
        first.communicate()
        assert first.returncode == -signal.SIGKILL
        studies.release(tmp_path)
        out, err = second.communicate()
        assert second.returncode == 0, err
        trials = check(url, tmp_path, 6)
        retried = [trial for trial in trials if "retry_history" in trial.system_attrs]
        assert [trial.state.name for trial in trials].count("FAIL") == len(retried) == 1
        assert "6 trials" in out
        assert "[6/6]" in err


def test_workers_share_an_sqlite_study_that_survives_a_kill_and_ctrl_c_and_goes_on(tmp_path, monkeypatch):
    studies.held(tmp_path)
    url = f"sqlite:///{tmp_path}/tuning/studies.sqlite"
    parent = studies.start(tmp_path, "--workers", 2, "--trials", 5, "--grace", 4)
    numbers = studies.waiting(tmp_path, 2, [parent])
    assert parent.pid not in numbers
    studies.kill(numbers[0])
    parent.send_signal(signal.SIGINT)
    out, err = parent.communicate()
    studies.release(tmp_path)
    assert parent.returncode == 130, (out, err)
    assert "Stopped. To go on:\n  python -m camhd tune --model held.py:network" in err
    assert "Traceback" not in err
    assert sorted(studies.states(url)) == ["FAIL", "RUNNING", "WAITING"]

    monkeypatch.chdir(tmp_path)
    found = tune(here(tmp_path), "tuning", trials=5, grace=4)
    assert len(found.trials) == 5
    check(url, tmp_path, 5)
    resumed = [run for run in records.load(found.folder) if run.result and run.result["time"]["resumed"]]
    assert len(resumed) == 1


@pytest.mark.thorough
def test_a_study_whose_only_process_was_killed_goes_on(tmp_path, monkeypatch):
    studies.held(tmp_path)
    url = f"sqlite:///{tmp_path}/tuning/studies.sqlite"
    process = studies.start(tmp_path, "--trials", 3)
    studies.waiting(tmp_path, 1, [process])
    studies.kill(process.pid)
    process.communicate()
    studies.release(tmp_path)
    assert studies.states(url) == ["RUNNING"]

    monkeypatch.chdir(tmp_path)
    found = tune(here(tmp_path), "tuning", trials=3, grace=2)
    assert [row.state for row in found.trials].count("complete") >= 1
    check(url, tmp_path, 3)
    assert RunConfig.from_json((found.folder / "best.json").read_text()) == found.config
