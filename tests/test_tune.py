"""Tuning: what is searched, how trials are judged, what they leave behind, and what comes out."""

import itertools
import json
import math
from statistics import fmean

import pytest
from optuna.trial import TrialState

from camhd.lab import data, optimizers, records
from camhd.lab.records import RunConfig, RunLockedError
from camhd.lab.train import Settings, execute
from camhd.lab.tune import Choices, Nobody, Range, StudyError, limit_of, parse, storage, task, trial, tune
from camhd.lab.tune.space import paper_space, point, usual_space
from lab_cases import blobs, mlp

SHORT = Settings(epochs=3, batch_size=8, split="fraction:0.2")
LR = ("lr=0.001..0.1:log",)


def small(settings=SHORT, search=LR, optimizer="adam", **more):
    return task("logistic", blobs(), optimizer, settings, search=search, **more)


class Seen(Nobody):
    """Remembers what it was told."""

    def __init__(self):
        self.ends, self.epochs = [], []

    def ended(self, trial):
        self.ends.append(trial)

    def epoch(self, trial, config, epoch, loss):
        self.epochs.append((trial, config.split, epoch, loss))


# What is searched


def test_the_papers_grid_is_the_papers():
    made = task("ffnn:8", "digits", "adam-cam-hd-2", protocol="paper")
    batches = [2**n for n in range(3, 10)]
    rates, hyper = [10.0**-n for n in range(1, 5)], [10.0**-n for n in range(1, 11)]
    combination = [0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001]
    wanted = set(itertools.product(batches, rates, hyper, combination))
    names = ("batch_size", "lr", "hyper_lr", "combine_lr")
    points = [point(made.space, number) for number in range(made.points)]
    found = [tuple(float(f"{one[name]:.6g}") for name in names) for one in points]
    assert len(found) == len(set(found)) == 7 * 4 * 10 * 7
    assert set(found) == {tuple(float(f"{value:.6g}") for value in one) for one in wanted}
    assert made.splits == [f"fold:{k}/5" for k in (1, 2, 3, 4, 5)]
    assert made.settings.patience == 3


@pytest.mark.parametrize(("optimizer", "points"), [("adam", 28), ("adam-hd", 280), ("sgdn-cam-hd-3", 1960)])
def test_a_grid_has_only_what_the_optimizer_has(optimizer, points):
    assert limit_of(task("logistic", blobs(), optimizer, protocol="paper"), None) == points


@pytest.mark.parametrize("name", optimizers.names())
def test_the_usual_search_of_every_optimizer_has_only_what_it_has(name):
    entry = optimizers.find(name)
    for space in (usual_space(entry, {}, entry.resolve()), paper_space(entry, {})):
        assert {"batch_size", "lr"} <= {one.name for one in space} <= {"batch_size", *entry.accepts}
    assert ("hyper_lr" in {one.name for one in space}) == ("hyper_lr" in entry.accepts)


def test_the_usual_search_looks_around_an_optimizers_own_rate():
    found = {one.name: one for one in small(search=(), settings=None, optimizer="sgd").space}
    assert found["lr"] == Range("lr", 0.001, 10.0, log=True)
    assert found["batch_size"] == Choices("batch_size", (8, 16, 32, 64, 128, 256, 512))


def test_what_is_set_is_not_searched():
    found = task("logistic", blobs(), "adam", Settings(batch_size=8, split="fraction:0.2"), options={"lr": 0.1},
                 search=["eps=1e-9..1e-3:log"])  # fmt: skip
    assert [one.name for one in found.space] == ["eps"]
    assert found.job({"eps": 1e-5}, "fraction:0.2").config.options == {"lr": 0.1, "eps": 1e-5}
    usual = task("logistic", blobs(), "adam-hd", Settings(batch_size=8, split="fraction:0.2"), options={"lr": 0.1})
    assert [one.name for one in usual.space] == ["hyper_lr"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"search": ["hyper_lrr=1e-3,1e-2"], "optimizer": "adam-hd"}, "has no such option; did you mean 'hyper_lr'?"),
        ({"search": ["hyper_lr=1e-3,1e-2"]}, "optimizer 'adam' has no such option"),
        ({"search": ["lr=0.1", "lr=0.2"]}, "the search has 'lr' twice"),
        ({"search": ["lr=0.1,0.1"]}, "must not have a value twice"),
        ({"search": ["lr=0.1..0.01"]}, "from a number to a greater one"),
        ({"search": ["lr=0..1:log"]}, "above zero to be logarithmic"),
        ({"search": ["lr=1..2:cubic"]}, "a range must be low..high or low..high:log"),
        ({"search": ["lr"]}, "a search must be name=values"),
        ({"search": ["batch_size=4,8"]}, "both searched and set to 8"),
        ({"search": ["loss_scale=1,2"], "settings": Settings(loss_scale=3.0, split="fraction:0.2")}, "set to 3.0"),
        ({"search": ["lr=1..2"], "protocol": "paper"}, "a grid needs lists"),
        ({"protocol": "grid"}, "'protocol' has no choice 'grid'"),
        ({"folds": 0}, "'folds' must be 1"),
        ({"settings": Settings(split="full")}, "that would tune on the test set"),
        ({"search": ["lr=-1.0,0.1"]}, "Invalid learning rate"),
        ({"optimizer": "adamm"}, "there is no optimizer 'adamm'"),
    ],
)  # fmt: skip
def test_a_wrong_task_is_refused_before_anything_is_trained(given, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace("?", r"\?")):
        small(**given)


def test_text_and_dimension_are_the_same():
    for text in ("lr=1e-05..0.1:log", "momentum=0..0.9", "batch_size=16,32", "levels=global,global+layer"):
        assert parse(parse(text).text) == parse(text)


# How trials are judged, and what they leave


def test_a_trial_of_folds_is_judged_by_the_mean_of_their_least_losses(tmp_path):
    settings = Settings(epochs=6, batch_size=8, patience=1)
    found = tune(small(settings, ["lr=0.03,1.0"], protocol="paper", folds=3), tmp_path)
    assert len(found.trials) == 2
    for row in found.trials:
        runs = [records.read(found.folder / name) for name in row.runs]
        assert [run.config.split for run in runs] == ["fold:1/3", "fold:2/3", "fold:3/3"]
        assert {run.config.options["lr"] for run in runs} == {row.found["lr"]}
        least = [min(epoch["valid_loss"] for epoch in run.epochs) for run in runs]
        assert row.loss == pytest.approx(fmean(least), abs=1e-12)
    best = [records.read(found.folder / name) for name in found.best.runs]
    epochs = fmean(min(run.epochs, key=lambda line: line["valid_loss"])["epoch"] for run in best)
    assert found.config.epochs == round(epochs)
    assert (found.config.split, found.config.patience) == ("full", None)


def test_every_point_of_a_grid_is_done_once(tmp_path):
    made = small(Settings(epochs=1), ["lr=0.1,0.01,0.001", "batch_size=8,16"], protocol="paper", folds=2)
    found = tune(made, tmp_path)
    points = [(row.found["lr"], row.found["batch_size"]) for row in found.trials]
    assert sorted(points) == sorted(itertools.product((0.1, 0.01, 0.001), (8, 16)))
    assert points != sorted(points)  # a part of it is a sample of it
    assert len(records.load(found.folder)) == 12
    assert len(tune(made, tmp_path, trials=100).trials) == 6


def test_a_hopeless_trial_is_stopped_and_its_record_kept(tmp_path):
    settings = Settings(epochs=5, batch_size=8, split="fraction:0.2")
    seen = Seen()
    made = small(settings, ["lr=1e-7,0.01,0.02,0.03,0.04,0.05,0.06"])
    with storage.connected(storage.default_url(tmp_path)) as kept, storage.quiet():
        study = storage.open_study(made, kept)
        for lr in (0.01, 0.02, 0.03, 0.04, 0.05, 1e-7):
            study.enqueue_trial({"lr": lr})
    found = tune(made, tmp_path, trials=6, onlooker=seen)
    assert [row.state for row in found.trials] == ["complete"] * 5 + ["pruned"]
    (name,) = found.trials[-1].runs
    run = records.read(found.folder / name)
    assert (run.status, len(run.epochs)) == ("unfinished", 1)
    assert not run.problems
    assert [one.state for one in seen.ends] == ["complete"] * 5 + ["pruned"]
    assert seen.epochs[:2] == [(0, "fraction:0.2", n, pytest.approx(found_loss(found, 0, n))) for n in (1, 2)]
    # The same settings as an ordinary run: it begins again, and is finished.
    job = made.job(found.trials[-1].found, "fraction:0.2")
    assert execute(job, found.folder, resume=True).status == "finished"


def found_loss(found, number, epoch):
    return records.read(found.folder / found.trials[number].runs[0]).epochs[epoch - 1]["valid_loss"]


def test_a_run_that_diverges_is_the_worst_and_not_the_best(tmp_path):
    found = tune(small(search=["lr=1e38,0.1"], protocol="paper", folds=2, optimizer="sgd"), tmp_path)
    losses = {row.found["lr"]: row.loss for row in found.trials}
    assert losses[1e38] == math.inf
    assert found.best.found == {"lr": 0.1}
    assert len(records.load(found.folder)) == 3  # the second fold of the diverged one would tell nothing new
    assert "1 diverged" in (found.folder / "report.html").read_text()


def test_a_trial_that_fails_is_told_and_the_study_goes_on(tmp_path):
    def moody(model, lr=0.1):
        if lr == 0.2:
            raise ValueError("not today <b>")
        return optimizers.find("sgd").build(model, {"lr": lr})

    seen = Seen()
    found = tune(small(search=["lr=0.1,0.2"], protocol="paper", folds=2, optimizer=moody), tmp_path, onlooker=seen)
    assert sorted(row.state for row in found.trials) == ["complete", "failed"]
    (failed,) = [one for one in seen.ends if one.state == "fail"]
    assert failed.error == "ValueError: not today <b>"
    assert "not today &lt;b&gt;" in (found.folder / "report.html").read_text()
    assert not found.task.named


def test_options_of_several_values_are_searched(tmp_path):
    search = ["levels=global+layer,global+unit", "hyper_lr=1e-8..1e-4:log"]
    made = task(mlp, blobs(), "sgd-cam-hd-2", SHORT, search=search)
    found = tune(made, tmp_path, trials=4)
    levels = [tuple(records.read(found.folder / row.runs[0]).config.options["levels"]) for row in found.trials]
    assert levels == [row.found["levels"] for row in found.trials]
    assert set(levels) == {("global", "layer"), ("global", "unit")}


# Studies


def test_one_process_gives_the_same_study_again_and_resuming_does_not_repeat_it(tmp_path):
    whole = tune(small(), tmp_path / "a", trials=4)
    tune(small(), tmp_path / "b", trials=2)
    again = tune(small(), tmp_path / "b", trials=4)
    assert [row.found for row in whole.trials] == [row.found for row in again.trials]
    assert [row.loss for row in whole.trials] == [row.loss for row in again.trials]
    assert len({row.found["lr"] for row in whole.trials}) == 4


def test_a_study_of_another_task_is_not_mixed_with_this_one(tmp_path):
    tune(small(), tmp_path, trials=1, study="mine")
    with pytest.raises(ValueError, match=r"has another search: .*; choose another name with 'study'"):
        tune(small(search=["lr=0.01..0.5:log"]), tmp_path, trials=1, study="mine")
    assert small().name() != small(search=["lr=0.01..0.5:log"]).name()
    with pytest.raises(ValueError, match="'study' must be a name of letters"):
        tune(small(), tmp_path, study="../mine")


def test_no_more_trials_than_asked_for_if_two_begin_the_last_one_at_once(tmp_path):
    made = small()
    with storage.connected(storage.default_url(tmp_path)) as kept, storage.quiet():
        study = storage.open_study(made, kept)
        for _ in range(3):
            study.enqueue_trial({})
        objective = trial.Objective(made, tmp_path, 2, Nobody())
        study.optimize(objective, n_trials=3, catch=(trial.SurplusError,))
        assert [one.state for one in study.trials] == [TrialState.COMPLETE] * 2 + [TrialState.FAIL]
        assert len(storage.settled(study.trials)) == 2
    assert len(tune(made, tmp_path, trials=2).trials) == 2


def test_a_process_that_was_taken_for_dead_loses_its_trial_but_not_its_work(tmp_path):
    made = small()

    class Elsewhere(Seen):
        def epoch(self, number, config, epoch, loss):
            super().epoch(number, config, epoch, loss)
            if number == 0 and epoch == 1:
                with storage.connected(storage.default_url(tmp_path)) as kept:
                    study = storage.open_study(made, kept)
                    study.tell(0, state=TrialState.FAIL)
                    storage.try_again(study, study.trials[0])

    seen = Elsewhere()
    found = tune(made, tmp_path, trials=2, onlooker=seen)
    assert [row.number for row in found.trials] == [1, 2]
    assert [one[0] for one in seen.epochs] == [
        0,
        0,
        0,
        2,
        2,
        2,
    ]  # the second try is answered by the record of the first
    assert len(records.load(found.folder)) == 2


@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
def test_a_trial_that_is_interrupted_is_the_first_when_the_study_goes_on(tmp_path, signal):
    class Impatient(Nobody):
        def epoch(self, number, config, epoch, loss):
            if number == 1:
                raise signal

    with pytest.raises(signal):
        tune(small(), tmp_path, trials=3, onlooker=Impatient())
    seen = Seen()
    found = tune(small(), tmp_path, trials=3, onlooker=seen)
    assert [one.number for one in seen.ends] == [2, 3]
    assert [row.number for row in found.trials] == [0, 2, 3]
    assert [row.found for row in found.trials[:2]] == [
        row.found for row in tune(small(), tmp_path / "b", trials=2).trials
    ]


def test_a_trial_waits_for_the_run_of_another_that_asks_the_same(tmp_path, monkeypatch):
    calls = []

    def busy(job, *arguments, **more):
        calls.append(job.config.id)
        if len(calls) == 1:
            raise RunLockedError("another process")
        return execute(job, *arguments, **more)

    monkeypatch.setattr(trial, "execute", busy)
    monkeypatch.setattr(trial, "PAUSE", 0.0)
    assert tune(small(), tmp_path, trials=1).trials[0].state == "complete"
    assert len(calls) == 2
    assert len(set(calls)) == 1


def test_a_trial_whose_process_dies_again_and_again_is_given_up(tmp_path):
    made = small()
    with storage.connected(storage.default_url(tmp_path)) as kept, storage.quiet():
        study = storage.open_study(made, kept)
        study.enqueue_trial({"lr": 0.01})
        for number in range(1 + storage.RETRIES):
            with storage.unwarned(), pytest.warns(UserWarning, match="Heartbeat"):
                study.ask()
            study.tell(number, state=TrialState.FAIL)
            storage.try_again(study, study.trials[number])
        assert [one.state for one in study.trials] == [TrialState.FAIL] * (1 + storage.RETRIES)
        assert [one.number for one in storage.settled(study.trials)] == [storage.RETRIES]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"trials": 0}, "'trials' must be 1 or more"),
        ({"workers": 0}, "'workers' must be 1 or more"),
        ({"timeout": 0}, "'timeout' must be above zero"),
        ({"grace": 1}, "'grace' must be 2 seconds or more"),
        ({"storage": "nonsense"}, "'storage' 'nonsense' cannot be opened"),
        ({"storage": "sqlite:////no/such/folder/x.sqlite"}, "cannot be opened: .*unable to open database file"),
    ],
)
def test_a_wrong_call_is_refused(tmp_path, given, message, monkeypatch):
    monkeypatch.setattr(storage, "_ATTEMPTS", 1)
    with pytest.raises(ValueError, match=message):
        tune(small(), tmp_path, **given)


def test_a_password_is_not_shown(monkeypatch):
    monkeypatch.setattr(storage, "_ATTEMPTS", 1)
    with pytest.raises(ValueError, match="cannot be opened") as caught, storage.connected("nosuch://me:secret@host/x"):
        pass
    assert "secret" not in str(caught.value)


def test_a_storage_that_is_lost_is_told(tmp_path):
    from sqlalchemy.exc import OperationalError

    with (
        pytest.raises(StudyError, match=r"The storage cannot be reached any more .*the same call goes on"),
        storage.connected(storage.default_url(tmp_path)),
    ):
        raise OperationalError("SELECT 1", {}, OSError("server closed the connection"))


def test_after_the_timeout_no_trial_is_begun(tmp_path):
    from camhd.lab.tune.worker import work

    times = iter((0.0, 1.0, 2.0, 3.0, 99.0))
    made = small()
    with storage.connected(storage.default_url(tmp_path)) as kept, storage.quiet():
        study = storage.open_study(made, kept)
        work(made, study, tmp_path, 50, Nobody(), until=2.5, clock=lambda: next(times))
        assert len(study.trials) == 3


# What comes out


def test_the_best_configuration_is_a_file_that_says_everything(tmp_path):
    found = tune(small(search=[*LR, "loss_scale=1.0,2.0"]), tmp_path, trials=4)
    config = RunConfig.from_json((found.folder / "best.json").read_text())
    assert config == found.config
    assert (config.split, config.epochs, config.batch_size) == ("full", 3, 8)
    assert config.options["lr"] == found.best.found["lr"]
    assert config.loss_scale == found.best.found["loss_scale"]
    assert found.best.loss == min(row.loss for row in found.trials)


def test_importances_are_shares_and_find_what_matters(tmp_path):
    made = small(search=["lr=1e-6..0.5:log", "eps=1e-9,1e-8"])
    found = tune(made, tmp_path, trials=8)
    assert sum(found.importances.values()) == pytest.approx(1)
    assert max(found.importances, key=found.importances.get) == "lr"


def test_a_note_on_the_data_is_shown(tmp_path):
    import dataclasses

    noted = dataclasses.replace(blobs(), note="a stand-in <i>")
    found = tune(task("logistic", noted, "adam", SHORT, search=LR), tmp_path, trials=1)
    assert found.notes == ["a stand-in <i>"]
    assert "a stand-in &lt;i&gt;" in (found.folder / "report.html").read_text()


def test_data_of_ones_own_are_taken_from_a_function(tmp_path):
    found = task(mlp, lambda: blobs(), "adam", SHORT, search=LR)
    assert isinstance(found.data, data.Dataset)
    assert not found.named
    assert json.loads(json.dumps(found.spec()))["data"] == "blobs"
