"""`camhd report`: what it writes, prints and refuses."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from camhd.cli import commands
from records_made import METHODS, compared, made_run


def call(*arguments):
    return CliRunner().invoke(commands.app, ["report", *map(str, arguments)], prog_name="camhd")


@pytest.fixture
def runs(tmp_path):
    return compared(tmp_path / "runs", methods=METHODS[:2], seeds=2)


def test_the_report_lies_beside_its_runs(runs):
    result = call(runs)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == "4 runs · 2 methods · 1 task · 2026-11-15"
    assert result.stdout.splitlines()[-1] == f"Report: {runs / 'report.html'}"
    assert "<!doctype html>" in (runs / "report.html").read_text()


def test_a_report_can_be_made_again_where_it_lies(runs):
    call(runs)
    before = (runs / "report.html").read_bytes()
    assert call(runs).exit_code == 0
    assert (runs / "report.html").read_bytes() == before


def test_several_folders_a_title_a_first_row_and_json(runs, tmp_path):
    made_run(tmp_path / "more", label="SGD", optimizer="sgd", status=None)
    result = call(
        runs, tmp_path / "more", "--out", tmp_path / "a.html", "--title", "A & B", "--first", "adam-hd", "--json"
    )
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["report"] == str(tmp_path / "a.html")
    assert (data["runs"], data["figures"]) == (5, [])
    assert [(run["status"], run["reason"]) for run in data["problems"]] == [("unfinished", "12 of 12 epochs")]
    assert [row[0] for row in data["tasks"][0]["rows"]] == ["Adam-HD", "Adam", "SGD"]
    assert "<h1>A &amp; B</h1>" in (tmp_path / "a.html").read_text()


@pytest.mark.slow
def test_figures_are_listed(runs, tmp_path):
    result = call(runs, "--figures", tmp_path / "figures", "--json")
    assert result.exit_code == 0, result.output
    listed = json.loads(result.stdout)["figures"]
    assert sorted(listed) == sorted(str(path) for path in (tmp_path / "figures").iterdir())
    assert len(listed) == 3 * 3 + 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{empty}"], "'runs' must hold at least one run, but there is no config.json in"),
        (["{empty}/none"], "There is no folder"),
        (["{runs}", "--first", "sgd"], "'first' must name a method of these runs, got 'sgd'"),
        (["{runs}", "--out", "{empty}"], "'--out' must be a file, but"),
    ],
)
def test_a_wrong_argument_is_told_without_a_traceback(runs, tmp_path, arguments, message):
    (tmp_path / "empty").mkdir()
    result = call(*(text.format(runs=runs, empty=tmp_path / "empty") for text in arguments))
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
    assert not list(tmp_path.rglob("*.html"))


def test_without_matplotlib_the_report_is_not_begun(runs, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = call(runs, "--figures", tmp_path / "figures")
    assert result.exit_code == 2
    assert "pip install 'camhd[lab]'" in " ".join(result.stderr.split())
