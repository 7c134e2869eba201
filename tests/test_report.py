"""The report: what it says is what the records say, and nothing in a record can break the page."""

from __future__ import annotations

import json
import math
import re
import statistics
from pathlib import Path

import pytest
from scipy import stats

from camhd.lab import records, report, train
from camhd.lab.report import Published
from camhd.lab.report.page import Views
from camhd.lab.report.source import thinned
from camhd.lab.report.summary import table
from records_made import METHODS, RESNET, compared, made_run
from reports_read import NASTY, Elements, embedded, strings, unpacked


def lines(run: Path, kind: str) -> list[dict]:
    every = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    return [line for line in every if line["kind"] == kind]


def finals(folder: Path, optimizer: str, metric: str) -> list[float]:
    """Straight from the files."""
    runs = [
        run
        for run in sorted(folder.iterdir())
        if json.loads((run / "config.json").read_text())["optimizer"] == optimizer
    ]
    return [float(json.loads((run / "result.json").read_text())["final"][metric]) for run in runs]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return compared(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):
    return report.write(runs, tmp_path_factory.mktemp("page") / "deep" / "report.html", title="Digits")


# The page


def test_the_page_is_one_file_that_asks_for_nothing(page):
    text = page.read_text()
    assert [path.name for path in page.parent.iterdir()] == ["report.html"]
    elements = Elements(text).found
    linked = {value for _, attributes in elements for key, value in attributes.items() if key in ("src", "href")}
    assert linked <= {"#main", "data:,"}
    addresses = set(re.findall(r"https?://[^\"'\s)]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of SVG, which nobody fetches
    assert not re.search(r"@import|url\(\s*['\"]?http|\bfetch\(|XMLHttpRequest|\bimport\(|WebSocket|sendBeacon", text)


def test_the_policy_lets_nothing_run_but_the_pages_own_program(page):
    (policy,) = [a["content"] for tag, a in Elements(page.read_text()).found if a.get("http-equiv")]
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert "unsafe" not in policy


def test_the_same_records_give_the_same_page(runs, page, tmp_path):
    assert report.write(runs, tmp_path / "again.html", title="Digits").read_bytes() == page.read_bytes()


def test_without_javascript_the_tables_are_there(page):
    text = Elements(page.read_text()).texts["pre"]
    assert "| Adam-CAM-HD, 2 levels |" in text


@pytest.mark.parametrize("where", ["label", "model", "group", "note", "machine", "title", "folder"])
def test_text_from_records_cannot_become_markup(tmp_path, where):
    run = made_run(tmp_path / "runs", label=NASTY if where == "label" else "Adam", levels={"layer": 3})
    config, history, result = (run / name for name in ("config.json", "history.jsonl", "result.json"))
    written = json.dumps(NASTY)
    if where == "model":
        config.write_text(config.read_text().replace('"ffnn:100,100"', written))
    elif where == "group":
        history.write_text(history.read_text().replace('"layer1"', written))
    elif where == "note":
        history.write_text(history.read_text().replace('"note": ""', f'"note": {written}'))
    elif where == "machine":
        result.write_text(result.read_text().replace('"a machine of 2 cores"', written))
    elif where == "folder":
        run.rename(run.parent / NASTY.replace("/", "∕"))
    path = report.write(tmp_path / "runs", tmp_path / "report.html", title=NASTY if where == "title" else None)

    elements = Elements(path.read_text()).found
    tags = [tag for tag, _ in elements]
    assert tags.count("script") == 2
    assert "img" not in tags
    assert not [a for _, a in elements for key in a if key.startswith("on")]
    if where != "folder":  # a folder is named only if something is wrong with its run
        assert any(NASTY in text for text in strings(embedded(path)))


# The table


def test_means_errors_and_p_values_are_those_of_the_records(runs, page):
    data = embedded(page)["tasks"][0]
    keys = [column["key"] for column in data["table"]["columns"]]
    adam = finals(runs, "adam", "valid_accuracy")
    for row, (label, optimizer, *_) in zip(data["table"]["rows"], METHODS, strict=True):
        cells = dict(zip(keys, row, strict=True))
        own = finals(runs, optimizer, "valid_accuracy")
        mean, error = 100 * statistics.fmean(own), 100 * statistics.stdev(own) / math.sqrt(3)
        assert cells["method"][0] == label
        assert cells["n"][:2] == ["3", 3.0]
        assert cells["final:valid_accuracy"][0] == f"{mean:.2f} ± {error:.2f}"
        if label == "Adam":
            assert cells["p"][:2] == ["–", None]
        else:
            p = stats.ttest_ind(own, adam, equal_var=False).pvalue
            assert cells["p"][1] == pytest.approx(p, rel=1e-4)
            marked = "" if p >= 0.05 else "better" if mean > 100 * statistics.fmean(adam) else "worse"
            assert cells["p"][2] == marked


def test_the_best_mean_of_a_column_is_marked(runs):
    (task,) = report.study(runs).tasks
    made = table(task)
    for key, better in (("final:valid_accuracy", max), ("final:valid_loss", min)):
        (place,) = [i for i, column in enumerate(made.columns) if column.key == key]
        values = [row[place].value for row in made.rows]
        assert [row[place].mark == "best" for row in made.rows] == [value == better(values) for value in values]


def test_the_headline_says_who_was_best_and_corrects_its_p(runs):
    (task,) = report.study(runs).tasks
    own, adam = finals(runs, "adam-cam-hd-2", "valid_accuracy"), finals(runs, "adam", "valid_accuracy")
    p = stats.ttest_ind(own, adam, equal_var=False).pvalue
    said = report.headline(task)
    assert said.startswith("Highest test accuracy at the end: Adam-CAM-HD, 2 levels, ")
    assert f"p = {p:.3f}; {3 * p:.2f} corrected for 3 comparisons" in said
    assert ("which may be chance" in said) == (3 * p >= 0.05)


def test_numbers_of_others_stand_beside_ours(runs):
    (task,) = report.study(runs).tasks
    theirs = [Published("ffnn:100,100", "digits", "adam-cam-hd-2", 0.9812, 0.0006), Published("x", "y", "Adam", 0.5)]
    made = table(task, theirs)
    keys = [column.key for column in made.columns]
    rows = {row[0].text: dict(zip(keys, row, strict=True)) for row in made.rows}
    own = finals(Path(runs), "adam-cam-hd-2", "valid_accuracy")
    away = (statistics.fmean(own) - 0.9812) / math.hypot(0.0006, statistics.stdev(own) / math.sqrt(3))
    assert rows["Adam-CAM-HD, 2 levels"]["published:paper"].text == "98.12 ± 0.06"
    assert rows["Adam-CAM-HD, 2 levels"]["distance:paper"].value == pytest.approx(away)
    assert rows["Adam"]["published:paper"].text == "–"


def test_the_first_row_can_be_chosen(runs):
    (task,) = report.study(runs, first="adam-hd").tasks
    assert [method.label for method in task.methods][:2] == ["Adam-HD", "Adam"]
    with pytest.raises(ValueError, match=r"'first' must name a method of these runs, got 'sgd'; there are 'Adam'"):
        report.study(runs, first="sgd")


# Tasks and methods


def test_a_method_is_named_by_what_differs(tmp_path):
    for lr in (0.01, 0.001):
        for seed in range(2):
            made_run(tmp_path, options={"lr": lr}, seed=seed)
    made_run(tmp_path, label="SGD", optimizer="sgd")
    (task,) = report.study(tmp_path).tasks
    assert {method.name: len(method.runs) for method in task.methods} == {
        "Adam (lr 0.01)": 2,
        "Adam (lr 0.001)": 2,
        "SGD": 1,
    }


def test_folds_are_runs_of_one_method_and_other_tasks_have_their_own_table(tmp_path):
    for fold in range(1, 6):
        made_run(tmp_path / str(fold), split=f"fold:{fold}/5")
    made_run(tmp_path / "other", model="lenet5", data="mnist")
    found = report.study(tmp_path).tasks
    assert {task.name: [len(method.runs) for method in task.methods] for task in found} == {
        "ffnn:100,100 on digits, 5 folds": [5],
        "lenet5 on mnist": [1],
    }
    assert [task.metrics[0].title for task in found if task.split == "5 folds"] == ["Validation accuracy"]


def test_a_regression_is_judged_by_r2_and_a_language_by_its_loss(tmp_path):
    made_run(tmp_path / "r", task="regression", data="diabetes")
    made_run(tmp_path / "l", task="language", data="text")
    titles = {task.data: [metric.title for metric in task.metrics][:2] for task in report.study(tmp_path).tasks}
    assert titles == {"diabetes": ["Test R²", "Test loss"], "text": ["Test loss", "Test accuracy"]}


# Curves and rates


def test_curves_are_means_over_runs_with_their_standard_errors(runs, page):
    method = embedded(page)["tasks"][0]["methods"][2]
    epochs = [lines(run, "epoch") for run in sorted(runs.glob("*adam-cam-hd-2*"))]
    assert method["epochs"] == list(range(1, 13))
    for i in (0, 5, 11):
        values = [run[i]["valid_loss"] for run in epochs]
        seconds = [sum(row["time"]["seconds"] for row in run[: i + 1]) for run in epochs]
        assert method["curves"]["valid_loss"]["mean"][i] == pytest.approx(statistics.fmean(values), rel=1e-4)
        assert method["curves"]["valid_loss"]["error"][i] == pytest.approx(
            statistics.stdev(values) / math.sqrt(3), rel=1e-2
        )
        assert method["curves"]["valid_loss"]["count"][i] == 3
        assert method["seconds"][i] == pytest.approx(statistics.fmean(seconds), rel=1e-3)


def test_rates_in_the_page_are_those_of_the_records(runs, page):
    method = embedded(page)["tasks"][0]["methods"][2]
    run = min(runs.glob("*adam-cam-hd-2*"))
    recorded = lines(run, "rates")
    together, *single = method["rates"]
    assert [view["name"] for view in method["rates"]] == ["mean of 3 runs", "seed 0", "seed 1", "seed 2"]
    view = single[0]
    assert view["steps"] == [line["step"] for line in recorded]
    names = {level["name"]: level for level in view["levels"]}
    assert names["layer"]["groups"] == ["layer1", "layer2", "layer3"]
    for row, values in enumerate(unpacked(names["layer"]["values"])):
        assert values == pytest.approx([line["rates"]["layer"]["values"][row] for line in recorded], rel=1e-3)
    for row, values in enumerate(unpacked(view["weights"]["values"])):
        assert values == pytest.approx([list(line["weights"].values())[row] for line in recorded], rel=1e-3)
    every = [lines(run, "rates") for run in runs.glob("*adam-cam-hd-2*")]
    last = [run[-1]["rates"]["global"]["values"][0] for run in every]
    (line,) = unpacked(together["levels"][0]["values"])
    assert line[-1] == pytest.approx(statistics.fmean(last), rel=1e-3)


def test_the_mean_of_many_groups_is_over_runs_too(tmp_path):
    compared(tmp_path, methods=METHODS[2:3], layers=RESNET, seeds=2)
    (method,) = embedded(report.write(tmp_path, tmp_path / "report.html"))["tasks"][0]["methods"]
    every = [lines(run, "rates") for run in tmp_path.iterdir() if run.is_dir()]
    for row, values in enumerate(unpacked(method["rates"][0]["levels"][1]["values"])):
        last = [run[-1]["rates"]["layer"]["values"][row] for run in every]
        assert values[-1] == pytest.approx(statistics.fmean(last), rel=1e-3)


def test_the_histogram_of_many_rates_has_their_shares(tmp_path):
    made_run(tmp_path, levels={"global": 1, "parameter": 100_000}, optimizer="adam-cam-hd-2")
    page = report.write(tmp_path, tmp_path / "report.html")
    level = embedded(page)["tasks"][0]["methods"][0]["rates"][0]["levels"][1]
    assert (level["groups"], level["count"]) == (None, 100_000)
    shares = unpacked(level["histogram"])
    for column in zip(*shares, strict=True):
        assert sum(column) == pytest.approx(1, abs=1e-2)
    # The middle of the distribution is the median, which is a quantile of its own.
    last = [row[-1] for row in shares]
    middle = next(i for i in range(len(last)) if sum(last[: i + 1]) >= 0.5)
    width = (level["high"] - level["low"]) / len(last)
    median = math.log10(unpacked(level["values"])[3][-1])
    assert level["low"] + middle * width - width <= median <= level["low"] + (middle + 1) * width + width


def test_rows_are_thinned_so_that_runs_of_different_length_keep_rows_in_common():
    rows = [{"step": i} for i in range(1001)]
    long, short = thinned(rows, 160), thinned(rows[:400], 160)
    assert len(long) <= 161
    assert (long[0]["step"], long[-1]["step"]) == (0, 1000)
    common = [row["step"] for row in long if row["step"] < 400]
    assert set(common) <= {row["step"] for row in short}
    assert thinned([], 160) == []


def test_a_full_page_leaves_single_runs_out_and_says_so(runs):
    found = report.study(runs).tasks
    everything = Views(found)
    assert everything.left_out == {"methods": 0, "runs": 0}
    means_only = Views(found, room=sum(everything.of(m)[0].size for m in found[0].methods))
    assert means_only.left_out == {"methods": 0, "runs": 12}
    assert [len(means_only.of(method)) for method in found[0].methods] == [1, 1, 1, 1]
    assert Views(found, room=1).left_out == {"methods": 3, "runs": 12}


# Runs that did not end well


def test_runs_that_failed_are_listed_and_do_not_count(tmp_path):
    good = [made_run(tmp_path, seed=seed) for seed in range(3)]
    made_run(tmp_path, seed=3, status="diverged")
    made_run(tmp_path, seed=4, status=None)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    torn = made_run(tmp_path, seed=5)
    history = (torn / "history.jsonl").read_text().splitlines(keepends=True)
    (torn / "history.jsonl").write_text("".join([*history[:4], "not json\n", *history[4:]]))

    study = report.study(tmp_path)
    statuses = sorted((run.status, bool(run.reason)) for run in study.problems)
    assert statuses == [("damaged", True), ("diverged", False), ("finished", True), ("unfinished", True)]
    assert study.runs == 7
    (task,) = study.tasks
    made = table(task)
    cells = dict(zip([column.key for column in made.columns], made.rows[0], strict=True))
    assert cells["n"].text == "5 of 6 (1 diverged)"
    # A loss that is not finite has no place in a mean; the cell says how many have.
    losses = [json.loads((run / "result.json").read_text())["final"]["valid_loss"] for run in (*good, torn)]
    assert cells["final:valid_loss"].value == pytest.approx(statistics.fmean(losses))
    assert cells["final:valid_loss"].text.endswith("(4 of 5)")


def test_unfinished_runs_are_drawn_as_long_as_there_is_nothing_else(tmp_path):
    made_run(tmp_path, status=None)
    page = report.write(tmp_path, tmp_path / "report.html")
    (task,) = embedded(page)["tasks"]
    assert task["methods"][0]["unfinished"]
    assert len(task["methods"][0]["curves"]["valid_loss"]["mean"]) == 12
    assert task["headline"] == "No run has finished yet."


def test_a_run_that_has_just_begun_is_no_problem(tmp_path):
    run = made_run(tmp_path, status=None)
    (run / "history.jsonl").unlink()
    made_run(tmp_path, seed=1)
    (task,) = embedded(report.write(tmp_path, tmp_path / "report.html"))["tasks"]
    assert task["table"]["rows"][0][1][0] == "1 of 2"


def test_no_runs_is_an_error_that_says_what_to_give(tmp_path):
    with pytest.raises(ValueError, match=r"there is no config.json in '.*'; give a folder that 'camhd train'"):
        report.write(tmp_path, tmp_path / "report.html")
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        report.write(tmp_path / "none", tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


# Real runs, many runs


@pytest.mark.slow
def test_real_runs_in_memory_and_in_folders_give_the_same_numbers(tmp_path):
    made = [train("ffnn:8", "digits", name, epochs=2, folder=tmp_path) for name in ("adam", "adam-cam-hd-3")]
    from_memory = embedded(report.write(made, tmp_path / "memory.html"))
    from_folder = embedded(report.write(tmp_path, tmp_path / "folder.html"))
    assert from_memory == from_folder
    (task,) = from_folder["tasks"]
    last = records.read(made[1].folder).epochs[-1]
    assert task["methods"][1]["finals"] == [pytest.approx(last["valid_accuracy"], rel=1e-4)]
    levels = [level["name"] for level in task["methods"][1]["rates"][0]["levels"]]
    assert levels == ["global", "layer", "unit"]
    assert not from_folder["problems"]


@pytest.mark.slow
def test_a_thousand_runs_make_a_small_page(tmp_path):
    for number in range(250):
        for seed in range(4):
            made_run(tmp_path / "runs", options={"lr": 1e-5 * (number + 1)}, seed=seed, epochs=3, steps_per_epoch=5)
    page = report.write(tmp_path / "runs", tmp_path / "report.html")
    (task,) = embedded(page)["tasks"]
    assert len(task["table"]["rows"]) == 250
    assert sum(len(method["runs"]) for method in task["methods"]) == 1000
    assert page.stat().st_size < 3e6
