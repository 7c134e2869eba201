"""The examples of the pages on sweeps and on one's own functions: files are written, commands and Python are run."""

import re
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from camhd.cli import commands
from camhd.lab import records, sweep

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Modules that are found in this folder are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def blocks(page, *kinds):
    found = re.findall(r"^```(\w+)\n(.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    return [(kind, block) for kind, block in found if kind in kinds]


def write_and_run(page):
    """Blocks that begin with the name of a file are written; all Python is run, in one namespace."""
    namespace = {}
    for kind, block in blocks(page, "toml", "python"):
        name = re.match(r"# (\w+\.(?:toml|py))\n", block)
        if name:
            Path(name[1]).write_text(block)
        if kind == "python":
            exec(compile(block, page, "exec"), namespace)


def shell(page):
    """All commands, one after another."""
    text = "".join(block for _, block in blocks(page, "sh")).replace("\\\n", " ")
    return [shlex.split(line, comments=True) for line in text.splitlines() if line.strip()]


def call(words):
    assert words[0] == "camhd"
    return CliRunner().invoke(commands.app, words[1:], prog_name="camhd")


@pytest.mark.slow
def test_the_page_on_sweeps(capsys):
    write_and_run("sweeps.md")
    assert capsys.readouterr().out.count("Adam") == 2
    assert len(records.load("runs/from-python")) == 4
    dry, carry_out, status, report = [line for line in shell("sweeps.md") if line[0] == "camhd"][:4]
    assert "9 runs would be carried out." in call(dry).stdout
    done = call([*carry_out, "--engine", "here"])
    assert "9 runs finished, 0 failed." in done.stdout, done.output
    assert call(status).stdout == "first-look: 9 runs, 9 finished\n"
    assert "9 runs" in call(report).stdout
    assert len(sweep.Plan.from_file("plan.py")) == 4


def test_the_commands_for_clusters_exist(monkeypatch):
    """They are carried out on real clusters by test_sweep_engines."""
    called = []
    monkeypatch.setattr("camhd.cli.sweep.lab.run", lambda plan, *rest, **more: called.append(rest[:3]))
    monkeypatch.setattr("camhd.cli.sweep._print_end", lambda *rest: None)
    ((_, plan),) = blocks("sweeps.md", "toml")
    Path("plan.toml").write_text(plan)
    for line in shell("sweeps.md"):
        if line[:2] == ["camhd", "sweep"] and "--engine" in line:
            assert "No such option" not in call(line).output
    assert [(where, engine) for where, engine, _ in called] == [
        ("/shared/runs", "ray"),
        ("/shared/runs", "dask"),
        ("s3://bucket/first-look", "ray"),
    ]
    assert [address for *_, address in called] == ["10.0.0.1:6379", "/shared/scheduler.json", "auto"]


@pytest.mark.slow
def test_the_page_on_ones_own(capsys):
    write_and_run("your-own.md")
    assert "mine" in capsys.readouterr().out
    train, compare, carry_out = shell("your-own.md")
    done = call(train)
    assert done.exit_code == 0, done.output
    done = call(compare)
    assert done.exit_code == 0, done.output
    assert "own:network" in done.stdout
    done = call([*carry_out, "--engine", "here"])
    assert done.exit_code == 0, done.output
    assert "4 runs finished, 0 failed." in done.stdout
    assert {run.config.optimizer.partition("-")[0] for run in records.load("runs/mine")} == {"adam", "own:by_layer"}
