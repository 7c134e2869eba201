"""The `camhd` command: help, output, errors, exits."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import camhd
from camhd.cli import app as entry
from camhd.cli import commands, show
from camhd.lab import bench as lab
from camhd.lab.bench import measure

SOURCES = str(Path(camhd.__file__).parents[1])
FAST = ["--quick", "--models", "lenet5", "--levels", "global,layer", "--backends", "foreach", "--threads", "1"]


def call(*arguments):
    return CliRunner().invoke(commands.app, [*arguments], prog_name="camhd")


def test_help_names_the_command_and_every_option():
    assert "bench" in call("--help").output
    text = call("bench", "--help").output
    options = ("models", "classes", "levels", "backends", "threads", "budget", "peers", "json", "plot", "quick")
    assert all(f"--{option}" in text for option in options)
    assert all(what in text for what in ("steps", "growth", "share", "memory", "first-step"))


def test_tables_are_plain_text_where_there_is_no_terminal():
    result = call("bench", "steps", "memory", *FAST)
    assert result.exit_code == 0, result.output
    assert "Step time: LeNet-5, 61,706 parameters" in result.stdout
    assert "camhd global,layer foreach" in result.stdout
    assert "Optimizer state" in result.stdout
    assert not set(result.stdout) & set("\x1b│┃━─╭")
    assert "[1/2] steps: LeNet-5, adam" in result.stderr


def test_json_is_one_document():
    result = call("bench", "memory", "--json", *FAST)
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["complete"] is True
    assert [r["library"] for r in data["results"]["memory"]] == ["torch"] * 3 + ["camhd"]


def test_rich_tables_hold_the_same_text():
    table = show.Table("Times", ("who", "ms"), [("torch", "1.0 [0.9, 1.1]")], left=1)
    console = show.Console(force_terminal=True, width=80, no_color=True)
    with console.capture() as captured:
        console.print(show._rich(table))
    assert "1.0 [0.9, 1.1]" in captured.get()


def test_a_plot_is_written(tmp_path):
    path = tmp_path / "plot.png"
    result = call("bench", "steps", "--plot", str(path), *FAST)
    assert result.exit_code == 0, result.output
    assert path.read_bytes().startswith(b"\x89PNG")


def test_nothing_to_plot_is_said_and_the_rest_is_printed(tmp_path):
    result = call("bench", "memory", "--plot", str(tmp_path / "plot.png"), *FAST)
    assert result.exit_code == 0
    assert "No plot" in result.stderr
    assert "Optimizer state" in result.stdout


WRONG = [
    (["stepz"], "did you mean 'steps'? The choices are steps, growth"),
    (["--models", "resnet50"], "did you mean 'resnet"),
    (["--classes", "adam,adamm"], "did you mean 'adam"),
    (["--levels", "global,filtre"], "did you mean 'filter'?"),
    (["--backends", "gpu"], "The choices are foreach, fused."),
    (["--threads", "0"], "'threads' must be 1 or more, got 0."),
    (["--budget", "-1"], "'budget' must be above zero and finite, got -1.0."),
    (["--plot", "plot.jpg"], "'plot' must be a PNG file, got 'plot.jpg'; name it 'plot.png'."),
    (["--plot", "no/such/folder/plot.png"], "make it first"),
    (["--budgt", "1"], "--budget"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[" ".join(case[0]) for case in WRONG])
def test_a_wrong_value_is_refused_before_anything_is_measured(arguments, message):
    result = call("bench", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not result.stdout


def test_a_plot_without_matplotlib_is_refused(monkeypatch):
    monkeypatch.setattr(show.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'camhd\[bench\]'"):
        show.picture(Path("plot.png"))


def test_an_interrupt_prints_what_there_is_and_exits_with_130(monkeypatch):
    def interrupt(number, total, task):
        if number == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(show, "progress", interrupt)
    result = call("bench", "memory", "--classes", "sgd,adam", *FAST)
    assert result.exit_code == 130
    assert "Interrupted" in result.stdout
    assert "SGD" in result.stdout
    assert "Adam" not in result.stdout


def test_a_failure_that_is_not_a_peers_makes_the_exit_code_1(monkeypatch):
    def no_memory(case, contestants):
        raise MemoryError("64 GiB")

    monkeypatch.setattr(measure, "memory", no_memory)
    result = call("bench", "memory", *FAST)
    assert result.exit_code == 1
    assert "Not measured" in result.stdout
    assert "MemoryError: 64 GiB" in result.stdout


def test_names_may_be_given_with_commas_or_one_by_one(monkeypatch):
    seen = []

    def stop(settings, progress):
        seen.append(settings)
        raise SystemExit(0)

    monkeypatch.setattr(lab, "run", stop)
    call(
        "bench", "--classes", "adam,SGD", "--classes", "adamw", "--levels", "global,layer", "--levels", "global,filter"
    )
    assert seen[0].classes == ("adam", "sgd", "adamw")
    assert seen[0].levels == (("global", "layer"), ("global", "filter"))
    assert seen[0].what == ("steps", "growth", "share", "memory", "first-step")


def python(*arguments, **environment):
    path = os.pathsep.join([SOURCES, os.environ.get("PYTHONPATH", "")])
    variables = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=variables)


def test_python_m_camhd_runs_the_command():
    done = python("-m", "camhd", "bench", "memory", "--json", *FAST)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["environment"]["threads"] == 1


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_its_packages_the_command_says_how_to_get_them(package, monkeypatch):
    monkeypatch.delitem(sys.modules, "camhd.cli.commands")
    monkeypatch.delitem(sys.modules, "camhd.cli.show")
    monkeypatch.delattr(camhd.cli, "show")
    monkeypatch.delattr(camhd.cli, "commands")
    monkeypatch.setattr(sys, "argv", ["camhd"])
    monkeypatch.setitem(sys.modules, package, None)
    for name in [name for name in sys.modules if name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(SystemExit) as stopped:
        entry.main()
    assert stopped.value.code == f"The camhd command needs {package}: pip install 'camhd[cli]'"
