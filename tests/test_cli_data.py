"""`camhd data`: what it prints, and with which code it exits."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import camhd
import datafiles
import loopback
from camhd.cli import commands
from camhd.cli import data as command
from camhd.lab import data
from camhd.lab.data import download

SOURCES = str(Path(camhd.__file__).parents[1])


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Every test has a data folder of its own."""
    monkeypatch.setenv("CAMHD_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(download, "WAIT", 0.0)
    return tmp_path / "data"


def call(*arguments):
    return CliRunner().invoke(commands.app, ["data", *map(str, arguments)], prog_name="camhd")


def published(monkeypatch, *urls):
    files = datafiles.svhn()
    datafiles.publish(monkeypatch, "svhn", datafiles.edition("svhn", files, urls))
    return files


def test_help_names_every_command_and_option():
    text = call("--help").output
    assert all(name in text for name in ("list", "get", "add", "verify"))
    for name, options in {"list": [], "get": ["--mirror"], "add": ["--note"], "verify": []}.items():
        text = call(name, "--help").output
        assert all(option in text for option in ("--folder", "--json", *options)), name
    assert "data" in CliRunner().invoke(commands.app, ["--help"], prog_name="camhd").output


def test_list_says_what_there_is_and_what_is_here(folder, monkeypatch):
    datafiles.write(folder / "svhn", published(monkeypatch))
    result = call("list")
    assert result.exit_code == 0, result.output
    lines = {line.split()[0]: line for line in result.stdout.splitlines()[2:]}
    assert list(lines) == list(data.NAMES)
    assert "no: camhd data get mnist (12 MB)" in lines["mnist"]
    assert "yes, inside scikit-learn" in lines["digits"]
    assert "yes, inside Python" in lines["text"]
    assert "  yes  " in lines["svhn"]
    assert lines["cifar10"].split()[-2:] == ["50,000", "10,000"]
    assert str(folder) in result.stdout.splitlines()[0]
    assert not set(result.stdout) & set("\x1b│┃━─╭")


def test_list_as_json(folder):
    result = call("list", "--json", "--folder", folder / "other")
    record = json.loads(result.stdout)
    assert record["folder"] == str(folder / "other")
    assert [one["name"] for one in record["data"]] == list(data.NAMES)
    (mnist,) = (one for one in record["data"] if one["name"] == "mnist")
    assert (mnist["state"], mnist["place"], mnist["download"]) == ("missing", None, 11_594_722)
    assert mnist["source"].startswith("http")


def test_get_downloads_and_says_where(folder, monkeypatch):
    with loopback.serving(datafiles.svhn()) as site:
        files = published(monkeypatch, site.url)
        result = call("get", "svhn")
        assert result.exit_code == 0, result.output
        assert result.stdout == f"svhn: yes, in {folder / 'svhn'}\n"
        assert not result.stderr  # no bar without a terminal
        assert datafiles.everything_in(folder / "svhn") == files
        result = call("get", "svhn", "--json")
        assert json.loads(result.stdout)["state"] == "here"
        assert len(site.asked) == 2


def test_get_with_a_mirror_and_a_folder(tmp_path, monkeypatch):
    with loopback.serving(datafiles.svhn()) as site:
        files = published(monkeypatch, loopback.closed_port())
        result = call("get", "svhn", "--mirror", site.url, "--folder", tmp_path / "here")
        assert result.exit_code == 0, result.output
    assert datafiles.everything_in(tmp_path / "here" / "svhn") == files


def test_a_failed_download_exits_with_1_and_tells_why(folder, monkeypatch):
    published(monkeypatch, loopback.closed_port())
    result = call("get", "svhn")
    assert result.exit_code == 1
    assert not result.stdout
    assert f"{folder / 'svhn' / 'train_32x32.mat'}: expected" in result.stderr
    assert "ConnectionError" in result.stderr
    assert "Traceback" not in result.stderr


def test_ctrl_c_exits_with_130_and_says_how_to_go_on(monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(data, "get", interrupt)
    result = call("get", "svhn")
    assert result.exit_code == 130
    assert "the same command goes on from there" in result.stderr


def test_add_takes_what_is_vouched_for_and_says_so(folder, tmp_path):
    source = datafiles.write(tmp_path / "my crops", datafiles.svhn())
    result = call("add", "svhn", source)
    assert result.exit_code == 1
    assert f"camhd data add svhn '{source}' --note 'what it is'" in result.stderr
    result = call("add", "svhn", source, "--note", "six crops")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"svhn: yes, vouched for by you, in {folder / 'svhn'}. six crops\n"
    result = call("add", "svhn", source, "--note", "six crops", "--json")
    assert json.loads(result.stdout)["note"] == "six crops"
    assert "yes, vouched for by you; six crops" in call("list").stdout


def test_verify_reads_everything_and_the_exit_code_tells(folder, monkeypatch):
    place = datafiles.write(folder / "svhn", published(monkeypatch, "http://127.0.0.1:9/"))
    result = call("verify")
    assert result.exit_code == 0, result.output
    assert "svhn: sound\n" in result.stdout
    assert "mnist: missing. camhd data get mnist\n" in result.stdout
    assert call("verify", "mnist").exit_code == 1
    content = bytearray((place / "test_32x32.mat").read_bytes())
    content[500] ^= 1
    (place / "test_32x32.mat").write_bytes(content)
    result = call("verify", "svhn", "digits")
    assert result.exit_code == 1
    assert f"svhn: wrong. {place / 'test_32x32.mat'}: expected" in result.stdout
    assert "digits: sound\n" in result.stdout
    verdicts = json.loads(call("verify", "digits", "--json").stdout)
    assert verdicts == [
        {"name": "digits", "state": "sound", "message": "", "fingerprint": data.load("digits").fingerprint}
    ]


WRONG = [
    (["get", "mnst"], "did you mean 'mnist'? The choices are digits, mnist"),
    (["add", "mnst", "."], "did you mean 'mnist'?"),
    (["add", "digits", "."], "'digits' needs no files; there is nothing to add."),
    (["add", "svhn", ".", "--note", " "], "'note' must say what the files are"),
    (["verify", "svnh"], "did you mean 'svhn'?"),
    (["get", "svhn", "--miror", "x"], "--mirror"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[" ".join(case[0]) for case in WRONG])
def test_a_wrong_argument_exits_with_2(arguments, message):
    result = call(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not result.stdout


def test_bars_are_shown_on_a_terminal(monkeypatch):
    from rich.console import Console

    consoles = []

    def console(**options):
        consoles.append(Console(**{**options, "force_terminal": True, "width": 100, "no_color": True, "record": True}))
        return consoles[-1]

    monkeypatch.setattr(command, "Console", console)
    with command._progress() as progress:
        progress("train.mat", 500_000, 1_000_000)
        progress("train.mat", 1_000_000, 1_000_000)
    text = consoles[0].export_text()
    assert "train.mat" in text
    assert "1.0/1.0 MB" in text


def test_the_command_runs_by_itself(folder):
    variables = {**os.environ, "PYTHONPATH": SOURCES, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "camhd", "data", "verify", "digits", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=variables)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["state"] == "sound"
