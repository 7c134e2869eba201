"""Records: what is written is read back, whole or not at all, and by one process at a time."""

import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import camhd
from camhd.lab import records
from camhd.lab.records import files, text
from camhd.lab.records.run import run_from_lines

CONFIG = records.RunConfig("ffnn:8", "digits", "adam", "Adam", options={"lr": 1e-3, "betas": (0.9, 0.999)})
START = {"kind": "start", "parameters": 12, "steps_per_epoch": 2, "groups": {"lr": ["lr"]}, "metric": "accuracy"}
RESULT = {"format": 1, "status": "finished", "epochs": 1, "steps": 2, "final": {}, "best": {}, "time": {"seconds": 1.0}}


def epoch(number, **metrics):
    return {"kind": "epoch", "epoch": number, "step": 2 * number, **metrics, "time": {"seconds": 0.5}}


def rates(step, *values):
    return {"kind": "rates", "step": step, "rates": {"lr": {"count": len(values), "values": values}}, "weights": None}


# JSON

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text().filter(lambda t: t not in text._WORDS),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(deadline=None)
@given(VALUES)
@example(
    {"nan": math.nan, "-inf": [math.inf, -math.inf], "words": ['"nan"', 'a "inf" b', "nan,", "\\"], "inf": {"nan": 1}}
)
def test_what_is_written_is_read_back(value):
    again = text.from_json(text.to_json(value))
    assert repr(again) == repr(value)  # nan is not equal to itself
    json.loads(text.to_json(value), parse_constant=pytest.fail)


def test_what_json_cannot_hold_is_refused():
    with pytest.raises(TypeError, match="numbers, words, lists and mappings only, got tensor"):
        text.to_json({"loss": torch.tensor(1.0)})


# The configuration


def test_a_configuration_survives_its_json():
    again = records.RunConfig.from_json(CONFIG.to_json())
    assert again == CONFIG
    assert again.id == CONFIG.id
    assert json.loads(CONFIG.to_json())["id"] == CONFIG.id
    assert again.options == {"lr": 1e-3, "betas": [0.9, 0.999]}


def test_an_infinite_option_survives():
    config = replace(CONFIG, options={"max_lr": math.inf})
    assert records.RunConfig.from_json(config.to_json()) == config


def test_the_id_is_readable_and_depends_on_all_that_decides_the_run():
    assert CONFIG.id.startswith("digits-ffnn-8-adam-seed0-")
    changes = {
        "seed": 1,
        "epochs": 11,
        "batch_size": 65,
        "split": "fold:1/5",
        "options": {"lr": 1e-2},
        "augment": "crop-flip",
        "dtype": "float64",
        "device": "cuda",
        "schedule": "cosine",
        "loss_scale": 10.0,
        "patience": 3,
        "rates_every": 7,
        "fingerprint": "abc",
        "model": "ffnn:9",
        "data": "mnist",
        "optimizer": "sgd",
        "stop_loss": 0.29,
    }
    ids = {replace(CONFIG, **{name: value}).id for name, value in changes.items()}
    assert len(ids | {CONFIG.id}) == len(changes) + 1
    assert set(changes) | {"label"} == set(replace(CONFIG, stop_loss=0.0).as_dict()) - {"format", "id"}


def test_an_entry_that_came_later_changes_no_id_and_no_file_where_it_is_not_used():
    assert CONFIG.id == "digits-ffnn-8-adam-seed0-36a43766"
    assert "stop_loss" not in CONFIG.as_dict()


def test_a_label_and_the_order_of_options_decide_nothing():
    assert replace(CONFIG, label="mine").id == CONFIG.id
    assert replace(CONFIG, options={"betas": [0.9, 0.999], "lr": 1e-3}).id == CONFIG.id
    assert not CONFIG.differences(replace(CONFIG, label="mine"))


def test_runs_that_differ_in_the_seed_alone_are_a_group():
    assert replace(CONFIG, seed=5).group == CONFIG.group
    assert replace(CONFIG, epochs=5).group != CONFIG.group


def test_an_option_that_cannot_be_written_down_is_refused():
    with pytest.raises(ValueError, match=r"'options' of 'adam' cannot be written down.*Use an optimizer function"):
        replace(CONFIG, options={"levels": lambda name: name})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"format": 2}, "'format' must be 1, got 2; another version"),
        ({"colour": "red"}, "has no entry 'colour'; another version"),
    ],
)
def test_a_configuration_of_another_format_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        records.RunConfig.from_json(json.dumps({**json.loads(CONFIG.to_json()), **wrong}))


# Writing and reading


LINES = (START, epoch(1, valid_accuracy=0.5))


def write(parent, config=CONFIG, lines=LINES, result=RESULT, **how):
    with records.InFolder(parent, config, **how) as record:
        for line in lines:
            record.append(line)
        if result is not None:
            record.finish(result)
        return record.run()


def test_a_run_is_written_and_read_back(tmp_path):
    lines = (START, rates(1, 0.1), epoch(1, valid_loss=math.nan, train_loss=math.inf))
    run = write(tmp_path, lines=lines)
    assert run.folder == tmp_path / CONFIG.id
    assert run.config == CONFIG
    assert run.status == "finished"
    assert run.start["parameters"] == 12
    assert math.isnan(run.epochs[0]["valid_loss"])
    assert run.epochs[0]["train_loss"] == math.inf
    assert run.rates[0]["rates"]["lr"]["values"] == [0.1]
    assert not run.problems
    assert {path.name for path in run.folder.iterdir()} == {"config.json", "history.jsonl", "result.json"}
    for line in (run.folder / "history.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)


def test_memory_and_folder_give_the_same_run(tmp_path):
    kept = write(tmp_path)
    record = records.InMemory(CONFIG)
    for line in LINES:
        record.append(line)
    record.finish(RESULT)
    assert record.run() == replace(kept, folder=None)
    assert record.restore() is None


def test_a_run_that_is_there_is_kept_unless_told_otherwise(tmp_path):
    before = write(tmp_path)
    with pytest.raises(FileExistsError, match=r"There is a finished run in .*'resume' goes on with it.*'overwrite'"):
        write(tmp_path)
    with records.InFolder(tmp_path, CONFIG, resume=True) as record:
        assert record.finished
        assert record.run() == before
        with pytest.raises(RuntimeError, match="is finished"):
            record.append(START)
    assert write(tmp_path, lines=[START], result=None, overwrite=True).status == "unfinished"
    with pytest.raises(FileExistsError, match="There is an unfinished run"):
        write(tmp_path)


@pytest.mark.parametrize("before", [(), ("kept",), ("kept", "kept/runs"), ("kept", "kept/runs", "kept/runs/other")])
def test_a_run_that_is_forgotten_takes_along_the_folders_that_were_made_for_it_and_no_others(tmp_path, before):
    for name in before:
        (tmp_path / name).mkdir()
    with records.InFolder(tmp_path / "kept" / "runs", CONFIG) as record:
        record.forget()
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")) == list(before)


def test_another_configuration_in_the_same_folder_is_refused(tmp_path):
    folder = write(tmp_path, result=None).folder
    (folder / "config.json").write_text(replace(CONFIG, epochs=99).to_json())
    with pytest.raises(ValueError, match="has epochs 99, but 10 was asked for; give 'overwrite'"):
        write(tmp_path, resume=True)
    (folder / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config.json' cannot be read"):
        write(tmp_path, resume=True)


def test_a_checkpoint_cuts_the_history_back(tmp_path):
    with records.InFolder(tmp_path, CONFIG) as record:
        record.append(START)
        record.save({"step": 7, "weights": torch.arange(3)})
        record.append(rates(8, 0.5))
    with records.InFolder(tmp_path, CONFIG, resume=True) as record:
        state = record.restore()
        assert state["step"] == 7
        torch.testing.assert_close(state["weights"], torch.arange(3))
        record.append(rates(9, 0.25))
        record.finish(RESULT)
        run = record.run()
    assert [line["step"] for line in run.rates] == [9]
    assert not (run.folder / "checkpoint.pt").exists()


def test_a_history_without_a_checkpoint_begins_again(tmp_path):
    write(tmp_path, result=None)
    with records.InFolder(tmp_path, CONFIG, resume=True) as record:
        assert record.restore() is None
        record.append(START)
    assert (record.path / "history.jsonl").read_text().count("\n") == 1


def test_a_history_that_lost_its_end_cannot_go_on(tmp_path):
    with records.InFolder(tmp_path, CONFIG) as record:
        record.append(START)
        record.save({})
    (record.path / "history.jsonl").write_text("")
    with (
        records.InFolder(tmp_path, CONFIG, resume=True) as record,
        pytest.raises(ValueError, match="shorter than at the last checkpoint"),
    ):
        record.restore()


# What a crash may leave behind


@pytest.mark.parametrize("keep", range(1, 60, 7))
def test_a_torn_last_line_is_left_out(tmp_path, keep):
    path = write(tmp_path, result=None).folder / "history.jsonl"
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second[:keep])
    run = records.read(path.parent)
    assert run.start
    assert not run.epochs
    assert not run.problems


def test_damage_in_the_middle_is_reported_and_what_came_before_is_kept(tmp_path):
    path = write(tmp_path, lines=(START, epoch(1), epoch(2), epoch(3))).folder / "history.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b'{"kind":\xff\n', *lines[2:]]))
    run = records.read(path.parent)
    assert [line["epoch"] for line in run.epochs] == [1]
    assert len(run.problems) == 1
    assert "history.jsonl' is damaged at line 3" in run.problems[0]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"format": 1}'])
def test_a_damaged_result_counts_as_unfinished(tmp_path, damage):
    folder = write(tmp_path).folder
    (folder / "result.json").write_text(damage)
    run = records.read(folder)
    assert run.status == "unfinished"
    assert "counts as unfinished" in run.problems[0]
    assert run.final == {"valid_accuracy": 0.5}


def test_a_traceback_in_place_of_a_result_is_a_failed_run(tmp_path):
    with records.InFolder(tmp_path, CONFIG) as record:
        record.append({"kind": "start"})
    (record.path / "failure.txt").write_text("Traceback\n  File …\nValueError: no such layer\n\n")
    run = records.read(record.path)
    assert run.status == "failed"
    assert run.failure.startswith("Traceback")
    assert run.problems[0].startswith("the run failed: ValueError: no such layer (")
    finished = write(tmp_path, resume=True)
    assert (finished.status, finished.failure, finished.problems) == ("finished", "", ())


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    files.write(path, "old")

    def fail(file):
        file.write(b"ne")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.write_with(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_half_written_files_of_a_killed_process_are_removed(tmp_path):
    folder = write(tmp_path, result=None).folder
    (folder / ".checkpoint.pt.123-abcd.part").write_bytes(b"half")
    write(tmp_path, lines=(), resume=True)
    assert not list(folder.glob(".*"))


# Many runs


def test_runs_are_found_in_nested_folders_and_damage_is_not_fatal(tmp_path):
    first = write(tmp_path / "a" / "deep")
    second = write(tmp_path / "b", replace(CONFIG, seed=1), result=None)
    broken = write(tmp_path / "c", replace(CONFIG, seed=2)).folder
    (broken / "config.json").write_text("nonsense")
    found = camhd.lab.load(tmp_path)
    assert found.runs == (first, second)
    assert len(found.problems) == 1
    assert "config.json' cannot be read" in found.problems[0]
    assert records.load([tmp_path / "a", tmp_path / "a" / "deep"]).runs == (first,)
    assert len(records.load(tmp_path / "a")) == 1


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no folder .*give a run's folder"):
        records.load(tmp_path / "nowhere")
    assert len(records.load(tmp_path)) == 0
    with pytest.raises(ValueError, match=r"holds no run: it has no config.json"):
        records.read(tmp_path)


def test_runs_are_read_into_pandas(tmp_path):
    quantiles = {"unit": {"count": 100, "quantiles": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]}}
    lines = (
        {**START, "groups": {"layer": ["fc", "out"], "unit": None}},
        {"kind": "rates", "step": 1, "rates": {"layer": {"count": 2, "values": [0.1, 0.2]}, **quantiles}},
        epoch(1, train_loss=0.5, valid_loss=0.25),
        epoch(2, train_loss=0.4, valid_loss=math.nan),
    )
    result = {**RESULT, "final": {"valid_loss": math.nan}, "best": {"valid_loss": 0.25, "epoch": 1}}
    for seed in (0, 1):
        write(tmp_path, replace(CONFIG, seed=seed), lines, result)
    found = records.load(tmp_path)
    assert list(found.epochs.groupby("id").train_loss.mean()) == [pytest.approx(0.45)] * 2
    assert found.epochs.valid_loss.isna().sum() == 2
    assert list(found.results.seed) == [0, 1]
    assert list(found.results.best_valid_loss) == [0.25, 0.25]
    assert list(found.results.status) == ["finished"] * 2
    assert next(iter(found.results.options))["lr"] == 1e-3
    assert list(found.rates[found.rates.level == "layer"].group) == ["fc", "out"] * 2
    assert list(found.rates.query("level == 'unit' and group == 'median'").rate) == [4.0, 4.0]


def test_a_run_that_has_not_begun_is_a_row_too():
    run = run_from_lines(CONFIG, (), None)
    assert run.status == "unfinished"
    assert run.final == {}
    table = records.Runs((run,))
    assert list(table.results.status) == ["unfinished"]
    assert table.epochs.empty


def test_tables_without_pandas_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'camhd\[lab\]'"):
        _ = records.Runs(()).epochs


def test_reading_records_needs_no_optional_package():
    program = "import sys; from camhd.lab import records; print([n for n in sys.modules if n.split('.')[0] in %r])"
    command = [sys.executable, "-c", program % (["pandas", "sklearn", "scipy", "matplotlib", "rich", "typer"],)]
    assert subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT).stdout == "[]\n"


# One process at a time

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(camhd.__file__).parents[1])}
HOLD = """
import sys
from camhd.lab import records
config = records.RunConfig.from_json(sys.stdin.readline().replace("\\\\n", ""))
with records.InFolder(sys.argv[1], config, resume=True) as record:
    print("held", flush=True)
    sys.stdin.read()  # until it is killed: no clock ends it, however long the other one is kept waiting
"""


def test_a_second_process_is_refused_and_a_killed_one_leaves_no_lock(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    other.stdin.write(json.dumps(json.loads(CONFIG.to_json())) + "\n")
    other.stdin.flush()
    assert other.stdout.readline() == "held\n"
    with pytest.raises(records.RunLockedError, match=rf"Another process \({other.pid}\) is working on the run"):
        write(tmp_path, resume=True)
    other.send_signal(signal.SIGKILL)
    other.communicate()
    assert write(tmp_path, resume=True).status == "finished"
    assert not (tmp_path / CONFIG.id / "lock").exists()


def test_one_process_cannot_hold_a_run_twice(tmp_path):
    with (
        records.InFolder(tmp_path, CONFIG),
        pytest.raises(records.RunLockedError),
        records.InFolder(tmp_path, CONFIG, resume=True),
    ):
        pass
    with records.InFolder(tmp_path, CONFIG, resume=True) as record:
        assert record.path == tmp_path / CONFIG.id


def test_the_environment_says_on_what_it_ran():
    found = records.environment()
    assert found["torch"] == torch.__version__
    assert found["camhd"] == camhd.__version__
    assert found["threads"] == torch.get_num_threads()
