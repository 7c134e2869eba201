"""Running a record again with the sources of another commit, in a project made for it."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from camhd.cli import commands
from camhd.lab import records, results
from camhd.lab.plans.measuring import Measurement, calculate
from camhd.lab.plans.running import KINDS
from camhd.lab.results import page, repeating, sources
from camhd.lab.results.archive import path_of, read
from camhd.lab.results.commits import FILE, stand_ins
from camhd.lab.train import prepare
from camhd.lab.train.settings import Settings

LOSS = "factor = self.config.loss_scale"  # in the loop, where older sources did something else
pytestmark = pytest.mark.slow


def git(project: Path, *arguments: str) -> str:
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", project, *who, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A clone of camhd, as it is now; in the commit before, it took another loss."""
    place = tmp_path_factory.mktemp("project")
    package = place / sources.PACKAGE
    shutil.copytree(sources.HERE, package, ignore=shutil.ignore_patterns("__pycache__"))
    git(place, "init", "--quiet")
    loop = package / "lab" / "train" / "loop.py"
    present = loop.read_text()
    assert LOSS in present
    for text in (present.replace(LOSS, f"{LOSS} * 3"), present):
        loop.write_text(text)
        git(place, "add", ".")
        git(place, "commit", "--quiet", "--message", "-")
    return place


@pytest.fixture(scope="module")
def older(project) -> str:
    return git(project, "rev-parse", "HEAD~1")


@pytest.fixture(scope="module")
def made_then(project, older, tmp_path_factory) -> sources.Sources:
    found = sources.of_commit(older, project / sources.PACKAGE, tmp_path_factory.mktemp("cache"))
    assert found is not None
    return found


@pytest.fixture(scope="module")
def record(made_then, tmp_path_factory) -> Path:
    """The folder of a run that was made with the older sources, by itself in another."""
    job = prepare("ffnn:8", "digits", "sgd", Settings(epochs=1, batch_size=500), seed=3)
    parent = tmp_path_factory.mktemp("records")
    run = made_then.train(job.config, parent)
    assert run.folder is not None
    path = run.folder / "result.json"
    path.write_text(path.read_text().replace('"commit": null', f'"commit": "{made_then.commit}"'))
    return run.folder


def test_a_record_that_present_sources_do_not_give_is_given_by_its_own(record, made_then):
    kept = results.find(str(record))
    now = results.repeat(kept)
    assert not now.equal
    assert any(word.startswith("commit ") for word in now.elsewhere)
    then = results.repeat(kept, sources=made_then)
    assert then.equal
    assert (then.compared, then.sources) == (now.compared, made_then.commit)
    assert not any(word.startswith("commit ") for word in then.elsewhere)


@pytest.mark.thorough
@pytest.mark.parametrize("wrong", [False, True])
def test_the_command_tries_both(record, project, made_then, tmp_path, monkeypatch, wrong):
    look = partial(sources.of_commit, package=project / sources.PACKAGE, cache=made_then.folder.parents[1])
    monkeypatch.setattr(repeating, "of_commit", look)
    place = Path(shutil.copytree(record, tmp_path / record.name))
    if wrong:
        (place / "result.json").write_text((place / "result.json").read_text().replace('"steps": 3', '"steps": 7'))
    done = CliRunner().invoke(commands.app, ["rerun", str(place), "--folder", str(tmp_path / "again")])
    before, _, after = done.stdout.partition(
        f"Once more, with the sources that it was made with, those of {made_then.commit[:9]}.\n"
    )
    assert "Differs: final: train_loss: " in before
    assert ("Equal: all" in after, "Differs: steps: 7 then, 3 now" in after) == (not wrong, wrong)
    assert done.exit_code == wrong
    assert records.read(tmp_path / "again" / record.name).final == records.read(record).final


@pytest.mark.thorough
def test_a_measurement_can_be_made_with_other_sources(made_then):
    asked = Measurement("combination", {"levels": ["global", "layer"], "hyper_lr": 0.01, "steps": 3, "seed": 0})
    assert made_then.measure(asked) == calculate(asked, KINDS)


def test_what_other_sources_refuse_is_told(record, made_then, tmp_path):
    config = replace(records.read(record).config, fingerprint="another")
    with pytest.raises(ValueError, match=rf"sources of {made_then.commit[:9]} cannot repeat it: .*was 'another'"):
        made_then.train(config, tmp_path)


def test_sources_are_unpacked_once_and_without_what_is_around_them(project, older, tmp_path):
    first = sources.of_commit(older, project / sources.PACKAGE, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [older]
    assert [path.relative_to(tmp_path / older).as_posix() for path in (tmp_path / older).glob("*/*")] == ["src/camhd"]
    (first.folder / "mark").touch()
    assert sources.of_commit(older, project / sources.PACKAGE, tmp_path) == first
    assert (first.folder / "mark").exists()


def test_there_are_none_where_they_cannot_be_had_or_are_the_present_ones(project, older, tmp_path, monkeypatch):
    package, cache = project / sources.PACKAGE, tmp_path / "cache"
    assert sources.of_commit(git(project, "rev-parse", "HEAD"), package, cache) is None
    strange = git(project, "commit-tree", f"{older}^{{tree}}", "-m", "in the repository, but not in the history")
    for nothing in (None, "", 7, f"{older}+", "0" * 40, strange, f"--output={tmp_path / 'written'}"):
        assert sources.of_commit(nothing, package, cache) is None
    assert not list(tmp_path.iterdir())
    elsewhere = Path(
        shutil.copytree(package, project / "elsewhere" / "camhd")
    )  # in a repository, but not the project's
    assert sources.of_commit(older, elsewhere, cache) is None
    monkeypatch.setenv("PATH", str(tmp_path))  # no git
    assert sources.of_commit(older, package, cache) is None
    assert not cache.exists()


def test_a_disk_that_does_not_take_them_is_told(project, older, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=rf"sources of {older[:9]} cannot be unpacked into '.*file.{older}': "):
        sources.of_commit(older, project / sources.PACKAGE, tmp_path / "file")


# Commits that are lost

LOST = "0123456789abcdef" * 2 + "01234567"


def write_stand_ins(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / FILE).write_text(text)
    return folder


@pytest.mark.parametrize("text", ["[1]", "7", '{"1234567": "' + LOST + '"}', '{"' + LOST + '": 7}', "{"])
def test_a_table_of_stand_ins_that_is_none_is_told(tmp_path, text):
    with pytest.raises(ValueError, match=r"commits.json' must be (JSON, but|an object of full names of commits)"):
        stand_ins(write_stand_ins(tmp_path, text))


def test_without_a_table_nothing_stands_in(tmp_path):
    assert stand_ins(tmp_path) == {}


def test_a_record_whose_commit_is_lost_is_given_by_what_stands_in(record, project, made_then, tmp_path, monkeypatch):
    look = partial(sources.of_commit, package=project / sources.PACKAGE, cache=made_then.folder.parents[1])
    monkeypatch.setattr(repeating, "of_commit", look)
    place = Path(shutil.copytree(record, tmp_path / record.name))
    (place / "result.json").write_text((place / "result.json").read_text().replace(made_then.commit, LOST))
    kept = results.find(str(place))
    assert results.sources_of(kept, tmp_path) is None
    folder = write_stand_ins(tmp_path / "results", f'{{"{LOST}": "{made_then.commit}"}}')
    assert results.sources_of(kept, folder) == made_then
    (folder / "an.archive").touch()
    assert results.sources_of(kept, folder / "an.archive") == made_then
    done = CliRunner().invoke(commands.app, ["rerun", str(place), "--results", str(folder)])
    assert f"with the sources that stand in for its own, those of {made_then.commit[:9]}.\n" in done.stdout
    assert "Equal: all" in done.stdout
    assert done.exit_code == 0


def test_every_record_of_the_papers_plans_names_a_commit_that_can_be_had():
    """Or one for which another stands in, on which the page has a word."""
    root = Path(__file__).resolve().parents[1]
    try:
        if git(root, "rev-parse", "--is-shallow-repository", "--show-prefix") != "false":
            pytest.skip("needs the whole history of the project")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs a clone of the project")
    history, others = set(git(root, "rev-list", "HEAD").split()), stand_ins(root / "results")
    assert not history & set(others)
    assert set(others.values()) <= history
    text = (root / "docs" / "results.md").read_text(encoding="utf-8")
    for plan in page.PLANS:
        lines = read(path_of(root / "results", plan, "cpu")).lines.values()
        named = {
            (line["result"]["environment"] if "config" in line else line["environment"])["commit"] for line in lines
        }
        assert not named - history - set(others), plan
        assert all((f"`{name[:9]}`† (" in text) == (name in others) for name in named)
