"""Comparing: every optimizer with every seed, the statistics against SciPy, and nothing run twice."""

import math
from dataclasses import replace

import numpy
import pytest
import torch
from scipy import stats

import camhd
from camhd.cli.runs import comparison
from camhd.lab import Entrant, Settings, Watcher, compare, records, train
from camhd.lab.compare import OPTIMIZERS, parse_option, plan, split_entrants, tables
from lab_cases import blobs, line, mlp

SHORT = Settings(epochs=3, batch_size=9)


class Count(Watcher):
    def __init__(self, stop_at=None):
        self.begun_runs, self.ended_runs, self.steps, self.stop_at = [], [], 0, stop_at

    def begun(self, progress):
        self.begun_runs.append((progress.config.optimizer, progress.config.seed))

    def stepped(self, progress):
        self.steps += 1
        if self.steps == self.stop_at:
            raise InterruptedError

    def ended(self, run):
        self.ended_runs.append(run)


def test_the_table_has_mean_standard_error_n_and_welchs_p():
    found = compare(mlp, blobs, ["sgd:lr=0.01", "adam", "adam-cam-hd-2"], SHORT, seeds=4)
    values = [numpy.array([run.final["valid_accuracy"] for run in row.runs]) for row in found.rows]
    assert [row.label for row in found.rows] == ["SGD, lr 0.01", "Adam", "Adam-CAM-HD, 2 levels"]
    assert found.metric == "accuracy"
    for row, sample in zip(found.rows, values, strict=True):
        assert row.metric.count == 4
        assert row.metric.mean == pytest.approx(sample.mean())
        assert row.metric.error == pytest.approx(stats.sem(sample))
        assert row.step_ms == pytest.approx(numpy.mean([run.result["time"]["step_ms"] for run in row.runs]))
    assert math.isnan(found.rows[0].p)
    for row, sample in zip(found.rows[1:], values[1:], strict=True):
        assert row.p == pytest.approx(stats.ttest_ind(values[0], sample, equal_var=False).pvalue, rel=1e-9)


def test_one_run_is_that_of_train():
    found = compare(mlp, blobs, ["adam"], SHORT, seeds=[3])
    alone = train(mlp, blobs, "adam", epochs=3, batch_size=9, seed=3)
    (run,) = found.runs
    assert run.config == alone.config
    assert run.final == alone.final
    assert math.isnan(found.rows[0].metric.error)


def test_averaged_weights_are_judged_too_where_there_are_any():
    found = compare(mlp, blobs, ["adam", "adam-default"], SHORT, seeds=3)
    without, default = found.rows
    assert without.averaged.count == 0
    assert default.averaged.mean == pytest.approx(numpy.mean([run.final["averaged_accuracy"] for run in default.runs]))
    assert [row["averaged_mean"] for row in found.as_dict()["rows"]][1] == default.averaged.mean
    shown = comparison(found)
    at = shown.columns.index("averaged weights")
    first, second = (row[at] for row in shown.rows)
    assert first == ""
    assert second.startswith(f"{100 * default.averaged.mean:.2f} ± ")
    assert "averaged weights" not in comparison(compare(mlp, blobs, ["adam"], SHORT, seeds=2)).columns


def test_a_regression_is_judged_by_r2():
    found = compare("logistic", line, ["sgd", "adam:lr=0.1"], SHORT, seeds=2)
    assert found.metric == "r2"
    assert found.as_dict()["metric"] == "valid_r2"


def test_finished_runs_are_not_run_again_and_interrupted_ones_go_on(tmp_path):
    names = ["adam", "sgd"]
    unbroken = compare(mlp, blobs, names, SHORT, seeds=2, folder=tmp_path / "a")
    watch = Count(stop_at=20)  # fifteen steps a run: in the second one
    with pytest.raises(InterruptedError):
        compare(mlp, blobs, names, SHORT, seeds=2, folder=tmp_path / "b", watcher=watch, checkpoint_minutes=0)
    watch = Count()
    found = compare(mlp, blobs, names, SHORT, seeds=2, folder=tmp_path / "b", watcher=watch)
    assert watch.begun_runs == [("adam", 1), ("sgd", 0), ("sgd", 1)]
    assert watch.steps == 4 * 15 - 19
    assert len(watch.ended_runs) == 4
    assert [run.final for run in found.runs] == [run.final for run in unbroken.runs]
    watch = Count()
    assert compare(mlp, blobs, names, SHORT, seeds=2, folder=tmp_path / "b", watcher=watch).runs == found.runs
    assert watch.steps == 0
    watch = Count()
    compare(mlp, blobs, names, SHORT, seeds=2, folder=tmp_path / "b", overwrite=True, watcher=watch)
    assert watch.steps == 60


def test_entrants_may_be_functions_and_have_labels():
    def rprop(model):
        return torch.optim.Rprop(model.parameters())

    entrants = [
        rprop,
        Entrant(lambda model: camhd.Adam(model, lr=0.1), label="mine"),
        Entrant("adam", {"lr": 0.1}, "theirs"),
        "adam:lr=0.5",
    ]
    found = compare(mlp, blobs, entrants, SHORT, seeds=1)
    assert [row.label for row in found.rows] == ["rprop", "mine", "theirs", "Adam, lr 0.5"]
    assert found.rows[2].runs[0].config.options["lr"] == 0.1


def test_the_same_entrant_twice_is_one():
    assert len(plan(mlp, blobs, ["adam", "adam:lr=0.001"], SHORT, seeds=2)) == 2


def test_the_usual_comparison_is_adam_hd_and_camhd():
    jobs = plan("ffnn:100,100", "digits")
    assert [job.config.optimizer for job in jobs] == [name for name in OPTIMIZERS for _ in range(3)]
    assert [job.config.seed for job in jobs[:3]] == [0, 1, 2]
    assert len({id(job.source) for job in jobs}) == 1


WRONG = [
    (["adamm"], 2, "did you mean 'adam"),
    (["adam:lrr=1"], 2, "'lr'"),
    (["adam:lr"], 2, "name=value, such as lr=0.01, got 'lr'"),
    ([], 2, "'optimizers' must be one or more"),
    (["adam"], 0, "'seeds' must be one or more, got 0"),
    (["adam"], [], "'seeds' must be one or more"),
]


@pytest.mark.parametrize(("names", "seeds", "message"), WRONG, ids=[f"{case[0]} {case[1]}" for case in WRONG])
def test_what_is_wrong_is_said_before_anything_runs(names, seeds, message):
    with pytest.raises(ValueError, match=r"must|no option|no optimizer") as caught:
        compare(mlp, blobs, names, SHORT, seeds=seeds)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lr=1e-3", ("lr", 1e-3)),
        ("lr=1e+3", ("lr", 1e3)),
        ("max_lr=inf", ("max_lr", math.inf)),
        ("nesterov=True", ("nesterov", True)),
        ("limit=none", ("limit", None)),
        ("levels=global+layer+unit", ("levels", ("global", "layer", "unit"))),
        ("betas=0.8+0.99", ("betas", (0.8, 0.99))),
        ("betas=(0.8,0.99)", ("betas", (0.8, 0.99))),
        ("hyper_rule=multiplicative", ("hyper_rule", "multiplicative")),
        ("steps=5", ("steps", 5)),
    ],
)
def test_options_are_read_from_words(text, expected):
    assert parse_option(text) == expected


@pytest.mark.parametrize("text", ["lr", "lr=", "=1", "l r=1", ""])
def test_what_is_no_option_is_refused(text):
    with pytest.raises(ValueError, match="name=value"):
        parse_option(text)


def test_options_belong_to_the_optimizer_before_them():
    assert split_entrants(["adam,sgd:lr=1,momentum=0.9,adam-hd", " adamw , radam"]) == [
        "adam",
        "sgd:lr=1,momentum=0.9",
        "adam-hd",
        "adamw",
        "radam",
    ]


def test_runs_that_were_trained_otherwise_are_in_tables_of_their_own():
    runs = [
        train(mlp, blobs, "adam", epochs=1),
        train(mlp, blobs, "adam", epochs=1, seed=1),
        train(mlp, blobs, "adam", epochs=1, schedule="cosine"),
        train(mlp, blobs, "adam", epochs=2),
        train(mlp, blobs, "adam", epochs=1, split="fold:1/3"),
    ]
    found = tables(runs)
    assert [[(row.label, len(row.runs)) for row in table.rows] for table in found] == [
        [("Adam", 2), ("Adam, cosine", 1)],
        [("Adam", 1)],
        [("Adam", 1)],
    ]


def test_unfinished_runs_do_not_count_and_diverged_ones_do():
    done = train(mlp, blobs, "sgd", epochs=2)
    wild = train(mlp, blobs, "sgd", epochs=2, seed=1, options={"lr": 1e30})
    wild = replace(wild, config=replace(done.config, seed=1))
    half = replace(done, config=replace(done.config, seed=2), result=None)
    (found,) = tables([done, wild, half])
    (row,) = found.rows
    assert row.ends == {"finished": 1, "diverged": 1, "unfinished": 1}
    assert row.metric.count == 2
    assert math.isnan(row.loss.mean)
    assert tables([]) == []
    records.text.to_json(found.as_dict())
