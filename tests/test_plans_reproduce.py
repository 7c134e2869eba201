"""`camhd reproduce`: every plan at its smallest scale, and the way back from an interruption."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import camhd
from camhd.cli import commands
from camhd.lab import plans, records
from camhd.lab.plans.numbering import PRINTED
from reports_read import embedded, strings
from untimed import untimed

SOURCES = str(Path(camhd.__file__).parents[1])
# What of a plan is run here; its other runs are of the same kind, and take longer.
PARTS = {"lenet": "adam-cam-hd", "resnet": "cam-hd", "ratio": "ffnn", "ffnn": "ffnn:32", "robustness": "diabetes"}
# What a reader of the paper looks for.
LOOKED_FOR = {
    "ffnn": ("Adam-CAM-HD (2-level)", "98.12 ± 0.06", "Weights γ, FFNN(100, 100), Adam-CAM-HD (3-level)"),
    "lenet": ("Adam-L4", "65.55 ± 0.18", "Where the weight of the filters ends", "0.388"),
    "resnet": ("Adabound-CAM-HD", "93.35 ± 0.08", "Weights γ, ResNet-18, SGDN-CAM-HD"),
    "ratio": ("ratio of the global level", "γ fixed", "γ trained", "FFNN on MNIST"),
    "complexity": ("Time of a training step", "Memory of training", "Paper's formula, %"),
    "convergence": ("Regret of AdaBound-CAM-HD over √T", "Theorem 1", "Distance to the minimum, α∞ = 0.9/L"),
    "hd": ("SGD and SGD-HD", "β 0.001", "Adam and Adam-HD"),
    "robustness": ("initial learning rate", "Regret", "camhd Adam, one level", "Two levels (the default)"),
}


def call(*arguments):
    return CliRunner().invoke(commands.app, ["reproduce", *map(str, arguments)], prog_name="camhd")


@pytest.mark.alike(4)
@pytest.mark.slow
@pytest.mark.parametrize("name", plans.PLANS)
def test_a_plan_ends_in_a_report_that_a_reader_of_the_paper_recognises(name, tmp_path):
    part = ("--only", PARTS[name]) if name in PARTS else ()
    done = call(name, "--folder", tmp_path, *part, "--no-figures")
    assert done.exit_code == 0, done.output
    page = embedded(tmp_path / "report" / "report.html")
    words = set(strings(page))
    for looked_for in LOOKED_FOR[name]:
        assert any(looked_for in word for word in words), looked_for
    verdicts = page["sections"][0]["texts"]
    assert len(verdicts) == len(plans.find(name).claims)
    assert done.stdout.splitlines()[: len(verdicts)] == verdicts
    assert all(re.search("holds|does not hold|cannot be told from these runs", text) for text in verdicts)
    tests = page["sections"][-1]["tables"][0]
    assert [column["title"] for column in tests["columns"]][2:7] == [
        "n",
        "Effect",
        "95 % interval",
        "p",
        "p, corrected",
    ]
    assert tests["rows"]
    reduced = plans.find(name).reduced("smoke")
    assert not reduced or any(
        re.search(r"seeds instead of \d+|digits instead of mnist", word) for word in page["remarks"]
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A part of a plan that has been carried out, with figures."""
    folder = tmp_path_factory.mktemp("plan")
    done = call("ffnn", "--folder", folder, "--only", "ffnn:32,32")
    assert done.exit_code == 0, done.output
    return folder


def test_the_same_command_again_trains_nothing_and_gives_the_same_report(made):
    times = {path: path.stat().st_mtime_ns for path in made.glob("digits-*/*")}
    before = {name: (made / "report" / name).read_bytes() for name in ("report.html", "report.md")}
    done = call("ffnn", "--folder", made, "--only", "ffnn:32,32")
    assert done.exit_code == 0, done.output
    assert {path: path.stat().st_mtime_ns for path in made.glob("digits-*/*")} == times
    assert {name: (made / "report" / name).read_bytes() for name in before} == before


def test_a_report_is_rebuilt_from_records_alone(made, tmp_path, monkeypatch):
    """Without data: the record says what it is a record of."""
    monkeypatch.setattr(records.InFolder, "__enter__", pytest.fail)
    monkeypatch.setattr("camhd.lab.data.load", pytest.fail)
    page = plans.rebuild("ffnn", made, tmp_path / "out")
    assert page.read_text() == (made / "report" / "report.html").read_text()
    names = {path.name for path in (tmp_path / "out").iterdir()}
    made_of_a_task = {f"ffnn-100-100-table-{one}" for one in ("curves.png", "curves.svg", "table.tex")}
    assert {"report.md", *made_of_a_task} <= names
    assert {"summary-of-test-performances-with-ffnns.md", "claims-test-by-test.md"} <= names
    text = (tmp_path / "out" / "report.md").read_text()
    for image in re.findall(r"!\[[^]]*\]\(([^)]*)\)", text):
        assert image in names
    assert "42 runs of this plan have not been made yet" in text


def test_the_table_has_the_means_of_the_records_and_the_papers_numbers(made):
    table = embedded(made / "report" / "report.html")["sections"][1]["tables"][0]
    rows = {row[0][0]: row for row in table["rows"]}
    assert list(rows)[:4] == [
        "Adam-CAM-HD (3-level)",
        "Adam-CAM-HD (2-level)",
        "Adam-HD (hp-grad 1e-9)",
        "Adam",
    ]
    runs = [run for run in records.load(made) if run.config.label == "Adam"]
    mean = sum(run.final["valid_accuracy"] for run in runs) / len(runs)
    assert rows["Adam"][1][1] == pytest.approx(mean, rel=1e-4)
    assert rows["Adam"][1][0].endswith("(3)")
    assert rows["Adam"][2][0] == "97.93 ± 0.09"
    assert rows["AdaBound"][2][0] == "–"  # the paper's table has no such row
    assert [column["title"] for column in table["columns"]][1:3] == ["FFNN(100, 100), %", "paper"]


def test_records_of_other_plans_and_scales_are_left_alone(made, tmp_path):
    with pytest.raises(ValueError, match="no record of the plan 'lenet'"):
        plans.rebuild("lenet", made, tmp_path)
    with pytest.raises(ValueError, match="no record of the plan 'ffnn' at the scale 'cpu'"):
        plans.rebuild("ffnn", made, tmp_path, "cpu")


def test_records_of_two_copies_of_the_data_are_not_mixed(made, tmp_path):
    for number, folder in enumerate(records.find(made)[:2]):
        config = (folder / "config.json").read_text()
        place = tmp_path / folder.name
        place.mkdir()
        (place / "config.json").write_text(re.sub(r'"fingerprint": "[^"]*"', f'"fingerprint": "{number}"', config))
    with pytest.raises(ValueError, match="2 different copies of the data 'digits'"):
        plans.rebuild("ffnn", tmp_path, tmp_path / "out", "smoke")


SENDS_ITSELF_CTRL_C = """
import os, runpy, signal, sys
from camhd.lab.records.write import InFolder

paths, append = set(), InFolder.append
def noted(record, line):
    append(record, line)
    if record.path not in paths and len(paths) == 1:
        os.kill(os.getpid(), signal.SIGINT)
    paths.add(record.path)

InFolder.append = noted
sys.argv[0] = "camhd"
runpy.run_module("camhd", run_name="__main__")
"""


@pytest.mark.slow
def test_an_interrupted_plan_goes_on_and_its_records_are_those_of_an_unbroken_one(tmp_path):
    """Ctrl-C at the first line of the second run; what was done is not done again."""
    arguments = ["reproduce", "robustness", "--only", "Adam-HD", "--no-figures", "--folder", tmp_path / "broken"]
    stopped = subprocess.run(
        [sys.executable, "-c", SENDS_ITSELF_CTRL_C, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": SOURCES, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert stopped.returncode == 130, stopped.stderr
    assert "Stopped. To go on:" in stopped.stderr
    assert re.search(r"camhd reproduce --only Adam-HD --folder \S+ --no-figures robustness", stopped.stderr)
    done = len(list((tmp_path / "broken").glob("*/result.json")))
    for folder in ("broken", "whole"):
        result = call("robustness", "--only", "Adam-HD", "--no-figures", "--folder", tmp_path / folder)
        assert result.exit_code == 0, result.output
    broken, whole = (sorted(records.find(tmp_path / name)) for name in ("broken", "whole"))
    assert 0 < done < len(whole) == 12
    assert [path.name for path in broken] == [path.name for path in whole]
    for one, other in zip(broken, whole, strict=True):
        assert untimed(one) == untimed(other)


def test_the_list_has_both_numberings():
    done = call("--list")
    assert done.exit_code == 0
    for name, plan in plans.PLANS.items():
        (line,) = [line for line in done.stdout.splitlines() if line.split()[0] == name]
        for place in plan.places:
            assert place in line
            assert PRINTED[place] in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fnn",), "did you mean 'ffnn'?"),
        ((), "give the name of a plan, such as ffnn; --list shows all of them."),
        (("nothing",), "'plan' has no choice 'nothing'. The choices are ffnn, lenet, resnet"),
        (("ffnn", "--scale", "big"), "--scale has no choice 'big'"),
        (("ffnn", "--only", "vgg"), "--only must be a part of a run's model"),
        (("ffnn", "--report-only"), "There is no folder"),
    ],
)
def test_a_wrong_argument_is_told_without_a_traceback(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call(*arguments)
    assert done.exit_code == 2
    assert message in re.sub(r"\s+", " ", done.output)
    assert list(tmp_path.iterdir()) == []
