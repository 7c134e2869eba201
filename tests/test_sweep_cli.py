"""`camhd sweep`: what it prints, what it returns, how it is watched."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn
from typer.testing import CliRunner

from camhd.cli import commands, sweeping
from camhd.lab import records
from camhd.lab.sweep import Ended, Item, Running, Standing, engines, running

CASES = str(Path(__file__).with_name("sweep_cases.py"))


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """Two runs that go well and one that fails."""
    monkeypatch.chdir(tmp_path)
    values = {"name": "few", "model": f"{CASES}:network", "data": f"{CASES}:points", "epochs": 2}
    runs = [{"seed": 0}, {"seed": 1}, {"model": f"{CASES}:broken"}]
    Path("plan.json").write_text(json.dumps({**values, "runs": runs}))
    Path("good.json").write_text(json.dumps({**values, "runs": runs[:2]}))
    return "plan.json"


def call(*arguments):
    return CliRunner().invoke(commands.app, ["sweep", *arguments], prog_name="camhd")


def test_it_ends_with_what_came_of_it_and_the_next_command(plan):
    done = call("good.json", "--engine", "here")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0] == "2 runs finished, 0 failed. The report of them:"
    command = done.stdout.splitlines()[1].split()
    assert command[:2] == ["camhd", "report"]
    assert len(records.load(command[2])) == 2
    assert command[2] == "runs/few"
    report = CliRunner().invoke(commands.app, command[1:])
    assert report.exit_code == 0
    assert "2 runs" in report.stdout
    assert "[1/2] Adam, seed 0: accuracy" in done.stderr


def test_a_failed_run_makes_the_exit_code_1_and_is_named(plan):
    done = call(plan, "--engine", "here", "--retries", "0")
    assert done.exit_code == 1
    assert "2 runs finished, 1 failed." in done.stdout
    assert "RuntimeError: no such layer" in done.stderr
    assert "failure.txt; --retry-failed tries again." in done.stderr
    again = call(plan, "--engine", "here")
    assert again.exit_code == 1
    assert "3 of 3 runs have ended before." in again.stderr
    shown = CliRunner().invoke(commands.app, ["show", "runs/few"])
    assert "1 failed" in shown.stdout


def test_json_is_one_document(plan):
    found = json.loads(call(plan, "--engine", "here", "--json").stdout)
    assert found["name"] == "few"
    assert len(found["finished"]) == 2
    assert found["failed"][0]["run"]["model"] == f"{CASES}:broken"
    assert found["failed"][0]["failure"].startswith("Traceback")


def test_a_dry_run_says_what_would_run_and_does_nothing(plan):
    done = call(plan, "--dry-run")
    assert done.exit_code == 0, done.output
    assert "few: 3 runs, 3 new; 3 runs would be carried out." in done.stdout
    assert not Path("runs").exists()
    call(plan, "--engine", "here", "--retries", "0")
    after = call(plan, "--dry-run")
    assert "few: 3 runs, 2 finished, 1 failed; 0 runs would be carried out." in after.stdout
    again = call(plan, "--dry-run", "--retry-failed")
    assert "; 1 run would be carried out." in again.stdout
    states = [one["state"] for one in json.loads(call(plan, "--dry-run", "--json").stdout)]
    assert states == ["finished", "finished", "failed"]


def test_the_status_of_a_folder_needs_no_plan(plan):
    call(plan, "--engine", "here", "--retries", "0")
    done = call("--status", "runs/few")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0] == "few: 3 runs, 2 finished, 1 failed"
    assert "RuntimeError: no such layer" in done.stdout
    assert json.loads(call("--status", "runs/few", "--json").stdout) == {"few": {"finished": 2, "failed": 1}}
    assert "There is no sweep in 'elsewhere'." in call("--status", "elsewhere").stderr


def test_an_interrupt_says_how_to_go_on(plan, monkeypatch):
    def interrupted(self, tasks, alone=False):
        raise KeyboardInterrupt

    monkeypatch.setattr(engines.Pool, "carry_out", interrupted)
    done = call(plan, "--engine", "here", "--retry-failed", "--workers", "3")
    assert done.exit_code == 130
    assert "camhd sweep plan.json --engine here --workers 3\n" in done.stderr


def test_an_engine_that_is_gone_is_told_without_a_traceback(plan, monkeypatch):
    def gone(self):
        raise running.EngineError("the engine breaks again and again, and no run gets on: gone")

    monkeypatch.setattr(running._Rounds, "carry_out", gone)
    done = call(plan, "--engine", "here")
    assert done.exit_code == 1
    assert "no run gets on: gone" in done.stderr
    assert "camhd sweep plan.json" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a plan, such as plan.toml; or --status FOLDER."),
        (("no.toml",), "there is no plan 'no.toml'."),
        (("plan.json", "--engine", "slurm"), "--engine has no choice 'slurm'"),
        (("plan.json", "--engine", "ray"), "--engine ray needs the --address of a cluster"),
        (("plan.json", "--workers", "0"), "--workers must be 1 or more, got 0."),
        (("plan.json", "--retries", "-1"), "--retries must be 0 or more, got -1."),
        (("plan.json", "--folder", "nowhere://x"), "--folder 'nowhere://x' cannot be opened"),
    ],
)
def test_wrong_arguments_are_refused(plan, monkeypatch, arguments, message):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    done = call(*arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.replace("│", " ").split())


# The display


ENDED = Ended("run", Item(seed=3), "Adam", "finished", "accuracy", 0.915, 1.25)
RUNNING = [Running("run", "Adam", seed, "far", 5, 20, mine=bool(seed)) for seed in range(5)]
STANDING = Standing(40, 20, 1, 2, RUNNING, ENDED, 100.0, 3700.0)


def test_one_line_says_everything():
    assert sweeping.summary(STANDING) == (
        "5 running (Adam, seed 0 25% on far; Adam, seed 1 25%; Adam, seed 2 25%; Adam, seed 3 25%; 1 more) · "
        "1 failed · best accuracy 91.5 % (Adam, seed 3) · 1 h 2 min left"
    )
    begun = Standing(40, 0, 0, 0, [], None, 0.0, None)
    assert sweeping.summary(begun) == "0 running"


def test_a_terminal_has_one_bar_and_names_failures():
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=300, no_color=True, highlight=False)
    with Progress(MofNCompleteColumn(), TextColumn("{task.fields[told]}"), console=console) as bars:
        bar = sweeping._Bar(bars)
        bar.changed(STANDING)
        bar.ended(ENDED)
        bar.ended(Ended("run", Item(seed=4), "Adam [x]", "failed", "accuracy", 0.0, message="ValueError: no [y]"))
        bar.broken(OSError("gone\nfar away"))
    assert "21/40" in text.getvalue()
    assert "best accuracy 91.5 % (Adam, seed 3)" in text.getvalue()
    assert "Adam [x], seed 4: FAILED  ValueError: no [y]" in text.getvalue()
    assert "A worker was lost (OSError: gone); going on with new ones." in text.getvalue()
    assert "Adam, seed 3: accuracy" not in text.getvalue()


def test_a_run_that_ended_early_is_told_so():
    assert (
        sweeping.line(Ended("r", Item(), "SGD", "diverged", "loss", 2.5, 3.0))
        == "SGD, seed 0: loss 2.5000  3.0 s  diverged"
    )
