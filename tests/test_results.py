"""Packing finished records, reading them back, and running one of them again."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import types
from pathlib import Path

import pytest
from typer.testing import CliRunner

from camhd.cli import commands
from camhd.lab import plans, records, results
from camhd.lab.plans import running
from camhd.lab.results import archive, page, repeating

KEPT = ("Adam", "Adam-CAM-HD (3-level)")


def call(*arguments):
    return CliRunner().invoke(commands.app, list(map(str, arguments)), prog_name="camhd")


@pytest.fixture(scope="module")
def plan_folder(tmp_path_factory) -> Path:
    """Four runs of a plan at its smallest scale, and one that has only begun."""
    folder = tmp_path_factory.mktemp("plan")
    plan = plans.find("ffnn")
    items = [item for item in plan.items("smoke") if item.model == "ffnn:32,32" and item.seed < 2]
    assert not running.carry_out(plan, [item for item in items if item.label in KEPT], folder, "here")
    done = records.find(folder)[0]
    begun = records.RunConfig.from_json((done / "config.json").read_text())
    place = folder / "begun"
    place.mkdir()
    (place / "config.json").write_text(records.RunConfig(**{**vars_of(begun), "seed": 2}).to_json())
    return folder


def vars_of(config: records.RunConfig) -> dict[str, object]:
    return {name: value for name, value in config.as_dict().items() if name not in ("format", "id")}


@pytest.fixture
def folder(plan_folder, tmp_path) -> Path:
    return Path(shutil.copytree(plan_folder, tmp_path / "records"))


def pack(folder: Path, into: Path) -> results.Outcome:
    return results.pack("ffnn", folder, into, "smoke")


def finished(folder: Path) -> list[Path]:
    return [place for place in records.find(folder) if (place / "result.json").exists()]


# Packing


def test_finished_records_are_packed_and_others_wait(folder, tmp_path):
    made = pack(folder, tmp_path / "results")
    assert sorted(made.added) == sorted(place.name for place in finished(folder))
    assert (made.total, made.wanted) == (4, 111)
    assert [word for word in made.unfinished if "unfinished" in word]
    assert sorted(archive.read(made.path).lines) == sorted(made.added)


def test_packing_bit_by_bit_gives_the_same_bytes(folder, tmp_path):
    whole = pack(folder, tmp_path / "whole").path.read_bytes()
    some = tmp_path / "some"
    for place in reversed(finished(folder)):
        shutil.rmtree(some, ignore_errors=True)  # what was packed before may be gone
        shutil.copytree(place, some / place.name)
        made = pack(some, tmp_path / "bit by bit")
        assert made.added == [place.name]
    assert made.path.read_bytes() == whole
    again = pack(folder, tmp_path / "bit by bit")
    assert (again.added, len(again.known)) == ([], 4)
    assert made.path.read_bytes() == whole


def test_every_number_that_is_kept_is_the_recorded_one(folder, tmp_path):
    runs = {run.config.id: run for run in archive.read(pack(folder, tmp_path / "results").path).runs}
    for place in finished(folder):
        before, after = records.read(place), runs[place.name]
        assert after.config == before.config
        assert after.result == before.result
        assert after.start == before.start
        assert [records.metrics_of(line) for line in after.epochs] == [records.metrics_of(x) for x in before.epochs]
        steps = {line["step"]: line for line in before.rates}
        assert len(after.rates) <= 27 < len(before.rates)
        assert (after.rates[0]["step"], after.rates[-1]["step"]) == (0, before.rates[-1]["step"])
        for line in after.rates:
            assert line["weights"] == steps[line["step"]]["weights"]
            for level, found in line["rates"].items():
                recorded = steps[line["step"]]["rates"][level]
                assert found == {name: value for name, value in recorded.items() if name != "histogram"}


def test_unpacked_records_are_read_like_any_others(folder, tmp_path):
    pack(folder, tmp_path / "results")
    done = call("results", "unpack", "ffnn", tmp_path / "out", "--results", tmp_path / "results", "--scale", "smoke")
    assert done.exit_code == 0, done.output
    assert "4 of 4 records written" in done.stdout
    found = records.load(tmp_path / "out")
    assert (len(found), found.problems) == (4, ())
    assert {run.config.id: dict(run.final) for run in found} == {
        place.name: dict(records.read(place).final) for place in finished(folder)
    }
    assert call("show", tmp_path / "out").exit_code == 0
    again = call("results", "unpack", "ffnn", tmp_path / "out", "--results", tmp_path / "results", "--scale", "smoke")
    assert "0 of 4 records written" in again.stdout
    assert pack(tmp_path / "out", tmp_path / "results").added == []
    before = (tmp_path / "results" / "ffnn-smoke.jsonl.xz").read_bytes()
    assert pack(tmp_path / "out", tmp_path / "anew").path.read_bytes() == before


def test_measurements_are_packed_too(tmp_path):
    plan = plans.find("convergence")
    some = plan.measurements["smoke"][:2]
    running.measure(some, tmp_path / "records", lambda made: None)
    made = results.pack("convergence", tmp_path / "records", tmp_path / "results", "smoke")
    assert sorted(made.added) == sorted(one.id for one in some)
    found = archive.read(made.path)
    assert [one.values for one in found.measured] == [
        json.loads((tmp_path / "records" / one.measurement.id / "measurement.json").read_text())["values"]
        for one in found.measured
    ]
    results.unpack(found, tmp_path / "out")
    for one in some:
        name = f"{one.id}/measurement.json"
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "records" / name).read_bytes()
    done = call("rerun", some[0].id, "--results", tmp_path / "results")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("Equal: all 3 values")


def test_the_command_says_what_it_packed_and_what_not(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "more" / "deep")
    options = "--results", tmp_path / "results", "--scale", "smoke"
    done = call("results", "pack", "ffnn", tmp_path / "more", *options)
    assert done.exit_code == 0, done.output
    assert re.search(r"Not packed: digits-ffnn-32-32-adam\S*-seed2-\w+: unfinished", done.stdout)
    assert "4 records added, 0 were there; 4 of 111 in all." in done.stdout
    found = json.loads(call("results", "pack", "ffnn", folder, *options, "--json").stdout)
    assert (found["added"], len(found["known"]), found["total"]) == ([], 4, 4)
    other = call("results", "pack", "lenet", folder, *options)
    assert "5 records are of no run of this plan at the scale smoke" in other.stdout
    options = "--results", tmp_path / "others", "--scale", "smoke"
    assert call("results", "pack", "ffnn", tmp_path / "nowhere", *options).exit_code == 2
    assert not (tmp_path / "others").exists()


# What is refused


def refused(folder: Path, into: Path, words: str) -> None:
    before = {path: path.read_bytes() for path in into.glob("*")}
    with pytest.raises(ValueError, match=words):
        pack(folder, into)
    assert {path: path.read_bytes() for path in into.glob("*")} == before


def test_a_changed_configuration_is_refused(folder, tmp_path):
    path = finished(folder)[0] / "config.json"
    path.write_text(re.sub(r'"epochs": \d+', '"epochs": 9', path.read_text()))
    refused(folder, tmp_path / "results", "was changed after the run")


def test_other_numbers_for_a_packed_run_are_refused(folder, tmp_path):
    pack(folder, tmp_path / "results")
    place = finished(folder)[0]
    last = records.read(place).final["valid_accuracy"]
    for name in ("result.json", "history.jsonl"):
        text = (place / name).read_text()
        (place / name).write_text(text.replace(str(last), str(last + 0.001)))
    refused(folder, tmp_path / "results", "was packed before with other numbers")


def test_another_time_of_a_packed_run_is_no_other_number(folder, tmp_path):
    pack(folder, tmp_path / "results")
    path = finished(folder)[0] / "result.json"
    path.write_text(re.sub(r'"seconds": [\d.]+', '"seconds": 999.5', path.read_text()))
    assert pack(folder, tmp_path / "results").added == []


def test_two_copies_of_the_data_are_refused(folder, tmp_path):
    place = finished(folder)[-1]
    config = records.read(place).config
    other = records.RunConfig(**{**vars_of(config), "fingerprint": "another"})
    (place / "config.json").write_text(other.to_json())
    refused(folder, tmp_path / "results", "the data 'digits' of .* are not the same")


def test_two_records_of_one_run_are_refused(folder, tmp_path):
    place = finished(folder)[0]
    config = records.read(place).config
    other = records.RunConfig(**{**vars_of(config), "rates_every": config.rates_every + 1})
    shutil.copytree(place, folder / other.id)
    (folder / other.id / "config.json").write_text(other.to_json())
    refused(folder, tmp_path / "results", "records of the same run")


def test_a_history_that_is_cut_off_is_refused(folder, tmp_path):
    path = finished(folder)[0] / "history.jsonl"
    lines = [line for line in path.read_text().splitlines() if '"kind":"epoch"' not in line]
    path.write_text("\n".join(lines) + "\n")
    refused(folder, tmp_path / "results", "not that of its result")


def test_records_of_other_plans_are_left_alone(folder, tmp_path):
    made = results.pack("lenet", folder, tmp_path / "results", "smoke")
    assert (made.added, len(made.others), made.path.exists()) == ([], 5, False)


@pytest.mark.parametrize("harm", ["cut", "flip", "empty", "text"])
def test_a_damaged_archive_is_said_to_be_one(folder, tmp_path, harm):
    path = pack(folder, tmp_path / "results").path
    data = path.read_bytes()
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 255
    path.write_bytes({"cut": data[:-40], "flip": bytes(flipped), "empty": b"", "text": b"no archive"}[harm])
    with pytest.raises(ValueError, match=r"is no archive of results .*; get it back"):
        archive.read(path)
    harmed = path.read_bytes()
    with pytest.raises(ValueError, match="is no archive of results"):
        pack(folder, tmp_path / "results")
    assert path.read_bytes() == harmed


def test_a_configuration_that_was_changed_inside_an_archive_is_noticed(folder, tmp_path):
    path = pack(folder, tmp_path / "results").path
    found = archive.read(path)
    lines = {name: json.loads(json.dumps(line)) for name, line in found.lines.items()}
    next(iter(lines.values()))["config"]["options"]["lr"] = 0.5
    archive.write(path, archive.Archive(found.plan, found.scale, lines))
    with pytest.raises(ValueError, match="was changed: it would be"):
        archive.read(path)


def test_a_failure_while_writing_leaves_the_old_archive(folder, tmp_path, monkeypatch):
    first = finished(folder)[0]
    shutil.copytree(first, tmp_path / "one" / first.name)
    path = pack(tmp_path / "one", tmp_path / "results").path
    before = path.read_bytes()

    def fail(*arguments):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space left"):
        pack(folder, tmp_path / "results")
    assert [file.name for file in (tmp_path / "results").iterdir()] == [path.name]
    assert path.read_bytes() == before


# Running one again


def test_a_packed_record_that_is_run_again_is_equal(folder, tmp_path):
    pack(folder, tmp_path / "results")
    name = finished(folder)[-1].name
    done = call("rerun", name[-8:], "--results", tmp_path / "results", "--folder", tmp_path / "again")
    assert done.exit_code == 0, done.output
    assert re.search(rf"Equal: all [\d,]+ values of {name} but its times", done.stdout)
    assert records.read(tmp_path / "again" / name).status == "finished"
    assert call("rerun", tmp_path / "again" / name).exit_code == 0


def test_the_command_ends_with_1_where_a_number_differs(folder, tmp_path):
    pack(folder, tmp_path / "results")
    place = finished(folder)[-1]
    path = place / "result.json"
    path.write_text(re.sub(r'"steps": \d+', '"steps": 7', path.read_text()))
    done = call("rerun", place)
    assert done.exit_code == 1
    assert re.search(r"Differs: steps: 7 then, \d+ now", done.stdout)
    found = json.loads(call("rerun", place, "--json").stdout)
    assert (found["equal"], len(found["differences"])) == (False, 1)
    assert call("rerun", place, "--threads", 0).exit_code == 2


@pytest.fixture
def kept(folder, tmp_path) -> repeating.Kept:
    pack(folder, tmp_path / "results")
    return results.find(finished(folder)[0].name, tmp_path / "results")


def changed(kept: repeating.Kept, **what) -> repeating.Kept:
    run = records.Run(**{**vars(kept.run), **what})
    return repeating.Kept(kept.id, kept.where, run, kept.whole)


def test_a_number_that_differs_is_named(kept):
    final = {**kept.run.final, "valid_accuracy": 0.5}
    made = results.repeat(changed(kept, result={**kept.run.result, "final": final}))
    assert not made.equal
    assert len(made.differences) == 1
    assert re.fullmatch(r"final: valid_accuracy: 0\.5 then, 0\.\d+ now", made.differences[0])


def test_a_line_that_was_left_out_is_compared_by_its_digest(kept):
    made = results.repeat(repeating.Kept(kept.id, kept.where, kept.run, "0" * 64))
    assert made.differences == ["a line of the history that was left out when it was packed"]


def test_what_differs_about_the_machine_is_said(kept):
    result = {**kept.run.result, "environment": {**kept.run.result["environment"], "torch": "1.0"}}
    made = results.repeat(changed(kept, result=result))
    assert made.equal
    assert any(word.startswith("torch 1.0 then") for word in made.elsewhere)


@pytest.mark.parametrize("hits", [0, 1])
def test_kernels_that_were_compiled_just_now_are_noticed(monkeypatch, hits):
    entries = pytest.importorskip("camhd.backends.fused.entries", reason="needs camhd[fused]")
    made = entries.Entry(print, 0, types.SimpleNamespace(cache_hits=hits))
    monkeypatch.setattr(entries, "_made", {"float32": made})
    assert repeating.compiled_here() == (not hits)
    monkeypatch.delitem(sys.modules, entries.__name__)
    assert not repeating.compiled_here()


def test_other_data_cannot_be_taken_for_the_recorded_ones(kept):
    config = records.RunConfig(**{**vars_of(kept.run.config), "fingerprint": "another"})
    with pytest.raises(ValueError, match="its fingerprint was 'another'"):
        results.repeat(changed(kept, config=config))


def test_a_record_is_found_by_a_part_of_its_id_that_no_other_has(folder, tmp_path):
    pack(folder, tmp_path / "results")
    name = finished(folder)[0].name
    assert results.find(name[-8:], tmp_path / "results").id == name
    assert results.find(str(folder / name)).id == name
    with pytest.raises(ValueError, match=r"4 records in .* have 'digits' in their id"):
        results.find("digits", tmp_path / "results")
    with pytest.raises(ValueError, match="there is no record 'nowhere'"):
        results.find("nowhere", tmp_path / "results")
    with pytest.raises(ValueError, match="only a finished one can be compared with"):
        results.find(str(folder / "begun"))


# The page


def test_the_page_is_made_twice_the_same_and_keeps_remarks(folder, tmp_path):
    pack(folder, tmp_path / "results")
    (tmp_path / "results" / page.REMARKS).write_text("## ffnn\n\nWritten by hand.\n\n## hd-or-adam\n\nThis, too.\n")
    done = [
        call("results", "page", "--results", tmp_path / "results", "--docs", tmp_path / out, "--scale", "smoke")
        for out in ("one", "two")
    ]
    assert [one.exit_code for one in done] == [0, 0], done[0].output
    files = [
        {p.relative_to(tmp_path / out): p.read_bytes() for p in (tmp_path / out).rglob("*.*")} for out in ("one", "two")
    ]
    assert files[0] == files[1]
    text = (tmp_path / "one" / "results.md").read_text()
    assert text.index("Written by hand.") > text.index("## Feed-forward networks on MNIST")
    assert "This, too." in text
    images = re.findall(r"\((images/[^)]*)\)", text)
    assert len(images) == 2
    assert {Path(image) for image in images} | {Path("results.md")} == set(files[0])


def test_a_remark_without_a_place_is_an_error(folder, tmp_path):
    pack(folder, tmp_path / "results")
    (tmp_path / "results" / page.REMARKS).write_text("## fnn\n\nLost.\n")
    with pytest.raises(ValueError, match=r"'heading of remarks\.md' has no choice 'fnn'"):
        results.build(tmp_path / "results", tmp_path / "docs", "smoke", figures=False)


def test_an_old_figure_is_removed(folder, tmp_path):
    pack(folder, tmp_path / "results")
    old = tmp_path / "docs" / page.IMAGES / "old.svg"
    old.parent.mkdir(parents=True)
    old.write_text("<svg/>")
    results.build(tmp_path / "results", tmp_path / "docs", "smoke")
    assert not old.exists()


def test_no_archive_at_all_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="there is no archive of the scale 'cpu'"):
        results.build(tmp_path, tmp_path / "docs")


def test_where_records_were_looked_for_is_told(tmp_path, monkeypatch):
    """In full: the folder has the name of the option, and would be taken for it."""
    monkeypatch.chdir(tmp_path)
    for words in (("rerun", "nowhere"), ("results", "page")):
        done = call(*words)
        assert done.exit_code == 2
        assert str(tmp_path / "results") in re.sub(r"\s*[│|]\s*|\n", "", done.output)


def test_the_list_says_how_much_is_packed(folder, tmp_path):
    pack(folder, tmp_path / "results")
    done = call("results", "list", "--results", tmp_path / "results")
    assert re.search(r"ffnn +smoke +4 +111", done.stdout)
    one = call("results", "list", "ffnn", "--results", tmp_path / "results")
    assert one.stdout.split() == sorted(place.name for place in finished(folder))
