"""The study of the default: its tasks, its methods, and what it makes of records that are written by hand here."""

from __future__ import annotations

import functools
import math

import pytest
import torch

from camhd.lab import data, models, optimizers, plans
from camhd.lab.plans import robustness
from camhd.lab.plans import robustness_claims as claims
from camhd.lab.plans import robustness_details as details
from camhd.lab.plans import robustness_methods as m
from camhd.lab.plans import robustness_sections as sections
from camhd.lab.plans import robustness_tasks as t
from camhd.lab.plans.claims import FAILS, HOLDS, OPEN
from camhd.lab.plans.reading import Results
from camhd.lab.plans.robustness_scores import Scores, geometric
from camhd.lab.report.group import Method, Task
from camhd.lab.report.source import Entry

PLAN = plans.find("robustness")
CPU = PLAN.at("cpu")
DIGITS, DIABETES = t.BY_TITLE[t.DIGITS], t.BY_TITLE[t.DIABETES]


load = functools.cache(data.load)


# What is trained


def test_the_default_and_adam_come_first_on_all_tasks_and_every_task_with_one_seed_before_the_next():
    items = PLAN.items("cpu")
    few, more = 3 * 16 * 17, 9 * 4 * 17  # four of the tasks have twelve seeds
    first = items[: few + more]
    assert {item.optimizer for item in first} == {"adam-default", "adam"}
    assert [item.seed for item in first[:few]] == [100] * 272 + [101] * 272 + [102] * 272
    assert {item.data for item in first[few:]} == {"digits", "diabetes", "quadratic", "noisy-quadratic"}
    assert [item.seed for item in first[few:]] == [seed for seed in range(103, 112) for _ in range(4 * 17)]
    after = [item.optimizer for item in items[len(first) :]]
    order = list(dict.fromkeys(after))
    assert order[:5] == ["adam-hd", "prodigy", "dadapt-adam", "schedule-free-adamw", "mechanic-adam"]


def test_no_seed_is_one_by_which_the_rule_was_made_and_tuning_has_its_own():
    for scale in ("cpu", "paper"):
        for grid in PLAN.at(scale):
            for problem in grid.problems:
                seeds = grid.seeds_of(problem)
                assert not set(seeds) & set(range(50))
                assert (list(seeds) == [50]) if grid.name == "tuning" else (len(seeds) >= 3 and 50 not in seeds)


def test_the_issues_tasks_are_there_and_at_least_four_are_fresh():
    words = " ".join(f"{task.problem.model} on {task.problem.data}" for task in t.TASKS)
    for wanted in (
        *("logistic on mnist", "ffnn:100,100 on mnist", "ffnn:64 on digits", "lenet5 on mnist", "lenet5 on cifar10"),
        *("lenet5 on svhn", "resnet8 on", "lstm:64 on text", "gru:48 on text", "transformer:32,2,4 on text"),
        *("on diabetes", "on quadratic", "on noisy-quadratic"),
    ):
        assert wanted in words
    assert sum(task.fresh for task in t.TASKS) >= 4
    batches = {task.problem.batch_size for task in t.ALL.values()}
    assert min(batches) == 16
    assert max(batches) == 1024
    assert {task.problem.loss_scale for task in t.SCALED} == {1e-3, 1e3}


def test_every_initial_rate_is_the_only_thing_that_is_set_of_the_default():
    assert m.RATES == (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    for method in (*m.DEFAULT.methods, *m.SGDN_DEFAULT.methods):
        assert list(method.options) == ["lr"]
    entry = optimizers.find("adam-default")
    assert entry.resolve({"lr": 1.0}, "lenet5") == {"lr": 1.0, "hyper_rule": "long_horizon"}
    for family in (m.PRODIGY, m.D_ADAPT, m.MECHANIC, m.L4):
        (method,) = family.methods
        assert method.options == {}, "as its authors say"


@pytest.mark.parametrize("title", list(t.ALL))
def test_every_network_of_the_study_fits_its_data(title):
    shapes = {"mnist": (1, 28, 28), "fashion-mnist": (1, 28, 28), "cifar10": (3, 32, 32), "svhn": (3, 32, 32)}
    (problem,) = {one.title: one for grid in CPU for one in grid.problems if one.title == title}.values()
    plain = problem.data.partition(":")[0]
    if plain in shapes:
        build = models.find(problem.model, shapes[plain], 10)
        x = torch.zeros(2, *shapes[plain])
    else:
        dataset = load(problem.data)
        build = models.find(problem.model, dataset.shape, dataset.classes, dataset.task)
        x = torch.zeros(2, *dataset.shape, dtype=torch.long if dataset.task == "language" else torch.float32)
    model = build()
    assert model(x).isfinite().all()
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    assert len(names) == len(list(model.parameters())), "GDTUO trains no tensor of two names"


def test_what_knowing_nothing_costs_is_what_it_costs():
    for name in ("quadratic", "noisy-quadratic"):
        targets = load(name).test.targets
        assert float(targets.square().mean()) == pytest.approx(t.SPREAD, rel=0.05)
    assert math.log(load("text:32").classes) == pytest.approx(t.CHARACTERS, rel=0.05)
    assert math.log(load("docstrings:32").classes) == pytest.approx(t.CHARACTERS, rel=0.05)
    assert float(load("diabetes").train.targets.square().mean()) == pytest.approx(DIABETES.nothing, rel=0.01)


# How a run is judged


def test_a_cost_is_an_error_or_a_loss_and_never_more_than_that_of_guessing():
    assert DIGITS.cost(0.95) == pytest.approx(0.05)
    assert DIGITS.cost(0.02) == DIGITS.cost(math.nan) == 0.9
    assert DIABETES.cost(0.5) == 0.5
    assert DIABETES.cost(70.0) == DIABETES.cost(math.inf) == DIABETES.cost(math.nan) == 1.0
    quadratic = t.BY_TITLE["Quadratic"]
    assert quadratic.cost(0.0) == quadratic.floor == pytest.approx(0.0035)
    assert quadratic.cost(math.nan) == 3.5 + quadratic.floor
    assert (DIGITS.shown(0.05), DIABETES.shown(0.5), quadratic.shown(0.0035)) == ("95.00", "0.5", "0")
    assert DIGITS.allowed(0.05) == pytest.approx(0.055)
    assert DIABETES.allowed(0.5) == pytest.approx(0.51)


def run(value, seed=100, status="finished", metric="valid_accuracy"):
    final = {} if value is None else {metric: value}
    return Entry(f"run-{seed}", status, config={"seed": seed}, final=final)


def made(cells, scale="cpu"):
    """Results with these runs: {(grid, title): {label: [values]}}; all other cells of the plan are empty."""
    tasks = {}
    for grid in PLAN.at(scale):
        for problem in grid.problems:
            task = tasks[grid.name, problem.title] = Task(problem.model, problem.data, "full", title=problem.title)
            values = cells.get((grid.name, problem.title), {})
            metric = t.ALL[problem.title].metric
            for method in grid.methods:
                runs = [
                    run(None, 100 + i, "diverged") if value is None else run(value, 100 + i, metric=metric)
                    for i, value in enumerate(values.get(method.label, []))
                ]
                task.methods.append(Method(method.label, {}, runs, name=method.label))
    return Results(PLAN, scale, PLAN.at(scale), tasks)


ADAM_DIGITS = {m.ADAM.label(rate): [0.5, 0.5] for rate in m.ADAM.rates} | {m.ADAM.label(1e-2): [0.89, 0.91]}
OURS_DIGITS = {m.DEFAULT.label(rate): [0.91, 0.93] for rate in m.RATES} | {m.DEFAULT.label(1.0): [0.89, 0.90]}
ADAM_DIABETES = {m.ADAM.label(rate): [0.8, 0.8] for rate in m.ADAM.rates} | {m.ADAM.label(3e-3): [0.5, 0.5]}
OURS_DIABETES = {m.DEFAULT.label(rate): [0.49, 0.51] for rate in m.RATES} | {m.DEFAULT.label(1e-6): [0.6, 0.6]}
FOUND = {
    ("tasks", t.DIGITS): {**ADAM_DIGITS, **OURS_DIGITS},
    ("tasks", t.DIABETES): {**ADAM_DIABETES, **OURS_DIABETES},
    ("peers", t.DIGITS): {"Prodigy": [0.95, 0.95], m.HD.label(1.0): [None, None]},
    ("scheduled", t.DIGITS): {m.ADAM_COSINE.label(rate): [0.6, 0.6] for rate in m.RATES}
    | {m.ADAM_COSINE.label(1e-2): [0.96, 0.94]},
    ("tuning", t.DIGITS): {m.ADAM_COSINE.label(rate): [0.3] for rate in m.RATES} | {m.ADAM_COSINE.label(1e-2): [0.4]},
}


def test_the_reference_is_the_best_constant_rate_and_is_unknown_until_all_rates_have_run():
    scores = Scores(made(FOUND))
    assert scores.best(DIGITS) == (1e-2, pytest.approx(0.1))
    assert scores.best(DIABETES) == (3e-3, pytest.approx(0.5))
    assert scores.tasks() == [DIGITS, DIABETES]
    partly = {**ADAM_DIGITS, m.ADAM.label(3e-3): []}
    assert Scores(made({("tasks", t.DIGITS): partly})).best(DIGITS) is None


def test_regrets_are_ratios_of_costs_and_their_mean_is_geometric():
    scores = Scores(made(FOUND))
    ours = {(place.task.title, place.rate): place for place in scores.places(scores.row(m.DEFAULT))}
    assert len(ours) == 14
    assert ours[t.DIGITS, 1e-3].regret == pytest.approx(0.8)
    assert ours[t.DIGITS, 1.0].regret == pytest.approx(1.05)
    assert ours[t.DIABETES, 1e-6].regret == pytest.approx(1.2)
    assert [key for key, place in ours.items() if not place.within] == [(t.DIABETES, 1e-6)]  # 1.05 is half a point
    everything = geometric([place.regret for place in ours.values()])
    assert everything == pytest.approx((0.8**6 * 1.05 * 1.2) ** (1 / 14))


def test_a_method_without_a_setting_stands_at_every_rate_and_a_diverged_run_knows_nothing():
    scores = Scores(made(FOUND))
    prodigy = list(scores.places(scores.row(m.PRODIGY)))
    assert [place.rate for place in prodigy] == list(m.RATES)
    assert {round(place.regret, 6) for place in prodigy} == {0.5}
    (hd,) = scores.places(scores.row(m.HD))
    assert (hd.rate, hd.cost) == (1.0, 0.9)


def test_a_tuned_schedule_has_the_rate_of_the_other_seed():
    scores = Scores(made(FOUND))
    row = scores.tuned(m.ADAM_COSINE)
    assert row.costs(DIGITS, 1e-6) == pytest.approx([0.04, 0.06])
    assert row.name == "Adam, warm-up and cosine, tuned"
    without = {key: value for key, value in FOUND.items() if key[0] != "tuning"}
    assert Scores(made(without)).tuned(m.ADAM_COSINE).costs(DIGITS, 1e-6) == []


# What the report says


def test_the_summary_counts_places_and_says_where_an_opponent_is_better():
    (table, *_) = sections.summary(made(FOUND)).tables
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    expected = (0.8**6 * 1.05 * 1.2) ** (1 / 14)
    assert rows["camhd Adam"] == ["14", f"{expected:.3f}", f"{expected:.3f}", "1.000", "1.200",
                                  "FFNN on diabetes, 1e-06", "93", "–", "–"]  # fmt: skip
    assert rows["Prodigy"][0] == "7"
    assert rows["Prodigy"][-2:] == ["7 of 7", "–"]  # nobody has looked at averaged weights
    assert rows["Adam-HD"][1] == "9.000"
    assert "2 tasks, 0 of them held out" in table.note


def test_a_task_has_a_row_for_each_method_and_a_column_for_each_rate():
    section = sections.by_task(made(FOUND))
    digits = section.tables[0]
    assert [column.title for column in digits.columns] == ["Method", *(f"{rate:g}" for rate in m.RATES)]
    rows = {row[0].text: row[1:] for row in digits.rows}
    assert rows["camhd Adam"][0].text == "92.00 ± 1.00 (2)"
    assert rows["Adam"][0].text == "50.00 ± 0.00 (2) !"
    assert rows["Adam, warm-up and cosine, tuned"][0].text == "95.00 ± 1.00 (2)"
    assert rows["Prodigy"][2].mark == "best"
    assert digits.note == "The best constant rate of Adam: 0.01, 90.00."
    (chart, _) = section.charts
    assert {series.name for series in chart.series} == {"camhd Adam", "Adam", "Prodigy"}
    assert chart.series[0].ys[:2] == pytest.approx([0.92, 0.92])


def test_every_lost_place_is_listed():
    (table,) = details.lost(made(FOUND)).tables
    names = [(row[0].text, row[1].text, row[2].text) for row in table.rows]
    assert (t.DIGITS, "1", "Prodigy") in names
    assert len([name for name in names if name[2] == "Prodigy"]) == 7
    assert not [name for name in names if name[2] == "Adam-HD"]
    ratios = [row[6].value for row in table.rows]
    assert ratios == sorted(ratios, reverse=True)


def test_levels_are_compared_at_the_rates_that_all_have():
    one = {m.ONE_LEVEL.label(rate): [0.90, 0.90] for rate in m.ENDS}
    three = {m.THREE_LEVELS.label(rate): [0.80, 0.80] for rate in m.ENDS}
    found = made({**FOUND, ("levels", t.DIGITS): {**one, **three}})
    (table,) = details.levels(found).tables
    assert [cell.text for cell in table.rows[0]] == [t.DIGITS, "1.000", f"{(0.8 * 0.8 * 1.05) ** (1 / 3):.3f}", "2.000"]
    assert [cell.mark for cell in table.rows[0]] == ["", "", "best", ""]
    first, second = claims.levels(found)
    assert first.effect == pytest.approx(math.log(1 / (0.8 * 0.8 * 1.05) ** (1 / 3)))
    assert second.effect == pytest.approx(first.effect + math.log(2))
    assert details.levels(made(FOUND)) is None


def test_scales_of_the_loss_stand_beside_the_loss_itself():
    scaled = {m.DEFAULT.label(1e-3): [0.92, 0.94]}
    found = made({**FOUND, ("scales", f"{t.DIGITS}, loss × 0.001"): scaled})
    (table,) = details.sizes(found).tables
    assert [cell.text for cell in table.rows[0]] == [
        *(t.DIGITS, "camhd Adam", "0.001", "92.00 ± 1.00 (2)", "93.00 ± 1.00 (2)", "–")
    ]
    (check,) = claims.same_at_any_scale(found)
    assert (check.verdict, check.count) == (HOLDS, "2 + 2")
    assert check.effect == pytest.approx(-1.0)


def test_a_scale_that_matters_is_a_fault():
    scaled = {m.DEFAULT.label(1e-3): [0.5, 0.501, 0.502]}
    ours = {**OURS_DIGITS, m.DEFAULT.label(1e-3): [0.92, 0.921, 0.922]}
    cells = {("tasks", t.DIGITS): ours, ("scales", f"{t.DIGITS}, loss × 1000"): scaled}
    (check,) = claims.same_at_any_scale(made(cells))
    assert check.verdict == FAILS


# The promises


def test_the_first_promise_is_broken_by_one_bad_rate():
    checks = {check.what.partition(":")[0]: check for check in claims.within(t.TASKS)(made(FOUND))}
    assert checks[t.DIGITS].verdict == HOLDS
    assert checks[t.DIGITS].effect == pytest.approx(0.0, abs=1e-9)  # 89.5 against 90: half a point
    assert checks[t.DIABETES].verdict == FAILS
    assert checks[t.DIABETES].effect == pytest.approx((0.51 - 0.6) / 0.5)
    assert "(1e-06)" in checks[t.DIABETES].what


def test_eight_of_ten_tasks_are_wanted():
    found = made(FOUND)
    (check,) = claims.recommended(m.DEFAULT, 1e-3, m.ADAM, 1e-3)(found)
    assert "2 of 2" in check.what
    assert (check.verdict, check.effect) == (HOLDS, pytest.approx(20.0))
    (check,) = claims.recommended(m.DEFAULT, 1e-6, m.ADAM, 3e-3)(found)
    assert "1 of 2" in check.what
    assert check.verdict == FAILS
    assert claims.recommended(m.SGDN_DEFAULT, 0.01, m.SGDN, 0.1)(found) == []


def test_half_of_the_tasks_are_not_most_of_them():
    (check,) = claims.ahead_on_most()(
        made(FOUND)
    )  # digits: a mean error of 8.4 % against 10 %; diabetes: 0.514 against 0.5
    assert "on 1 of 2" in check.what
    assert (check.verdict, check.effect) == (FAILS, 0.0)
    better = {**FOUND[("tasks", t.DIABETES)], m.DEFAULT.label(1e-6): [0.48, 0.48]}
    (check,) = claims.ahead_on_most()(made({**FOUND, ("tasks", t.DIABETES): better}))
    assert "on 2 of 2" in check.what
    assert (check.verdict, check.effect) == (HOLDS, 50.0)
    unknown = {label: runs for label, runs in better.items() if not label.startswith(m.DEFAULT.name)}
    (check,) = claims.ahead_on_most()(made({**FOUND, ("tasks", t.DIABETES): unknown}))
    assert "on 1 of 1" in check.what
    assert check.verdict == OPEN


def test_some_tasks_say_nothing_of_eight_in_ten():
    sgd = {m.SGDN_DEFAULT.label(0.01): [0.9, 0.9], m.SGDN.label(0.1): [0.8, 0.8]}
    (check,) = claims.recommended(m.SGDN_DEFAULT, 0.01, m.SGDN, 0.1)(made({**FOUND, ("sgd", t.DIGITS): sgd}))
    assert "1 of 1" in check.what
    assert check.verdict == OPEN


def test_opponents_are_compared_over_tasks():
    checks = {check.what: check for check in claims.ahead_of_all()(made(FOUND))}
    check = checks["ln of the cost of Adam / camhd Adam, mean over initial rates"]
    digits = (5 * math.log(0.5 / 0.08) + math.log(0.1 / 0.08) + math.log(0.5 / 0.105)) / 7
    diabetes = (5 * math.log(0.8 / 0.5) + math.log(0.8 / 0.5) + math.log(0.8 / 0.6)) / 7
    assert check.effect == pytest.approx((digits + diabetes) / 2)
    assert check.count == "2 tasks"
    assert checks["ln of the cost of Prodigy / camhd Adam, mean over initial rates"].effect < 0


def test_means_alone_are_open_until_an_opponent_has_been_run_everywhere():
    everywhere = {**FOUND, ("peers", t.DIGITS): {"Prodigy": [0.95]}, ("peers", t.DIABETES): {"Prodigy": [0.9]}}
    for found, verdict in ((everywhere, HOLDS), (FOUND, FAILS)):
        checks = {check.what: check for check in claims.ahead_by_means()(made(found))}
        assert checks["ln of the cost of Prodigy / camhd Adam, mean over places"].verdict == verdict
        assert checks["ln of the cost of Adam / camhd Adam, mean over places"].verdict == HOLDS
        assert checks["ln of the cost of Adam / camhd Adam, mean over places"].count == "14 places"
    partly = {**FOUND, ("peers", t.DIGITS): {m.HD.label(1.0): [None, None]}}
    checks = {check.what: check for check in claims.ahead_by_means()(made(partly))}
    assert checks["ln of the cost of Adam-HD / camhd Adam, mean over places"].verdict == OPEN


def with_averages(found, of_seed):
    """The same results; runs of the default know averaged weights, which are better by a tenth of the cost."""
    results = made(found)
    for (_, title), task in results.tasks.items():
        for method in task.methods:
            if method.label.startswith(f"{m.DEFAULT.name}, lr"):
                for one in method.runs:
                    judged = t.ALL[title]
                    value = one.final.get(judged.metric)
                    if value is not None and of_seed(one.config["seed"]):
                        better = 1 - 0.9 * (1 - value) if judged.accuracy else 0.9 * value
                        one.final[judged.averaged_metric] = better
    return results


def test_averaged_weights_are_a_row_of_their_own_from_the_same_runs():
    scores = Scores(with_averages(FOUND, lambda seed: True))
    assert [row.name for row in scores.ours] == ["camhd Adam", "camhd Adam, averaged weights"]
    assert not {row.name for row in scores.ours} & {row.name for row in scores.opponents}
    last, averaged = scores.ours
    for task in (DIGITS, DIABETES):
        for rate in m.RATES:
            assert averaged.costs(task, rate) == pytest.approx([0.9 * cost for cost in last.costs(task, rate)])
    (check,) = claims.ahead_on_most(claims.averaged)(with_averages(FOUND, lambda seed: True))
    assert check.what.startswith("camhd Adam, averaged weights, mean over initial rates, better")
    checks = {check.what: check for check in claims.ahead_by_means(claims.averaged)(with_averages(FOUND, bool))}
    assert checks["ln of the cost of Adam / camhd Adam, averaged weights, mean over places"].verdict == HOLDS
    (table,) = details.lost(with_averages(FOUND, bool)).tables
    assert {row[5].text for row in table.rows if row[2].text == "Prodigy"} == {"92.80", "90.55"}


def test_a_run_that_does_not_know_averaged_weights_is_not_among_them():
    scores = Scores(with_averages(FOUND, lambda seed: seed == 100))
    last, averaged = scores.ours
    assert len(last.costs(DIGITS, 1e-3)) == 2
    assert averaged.costs(DIGITS, 1e-3) == pytest.approx([0.9 * last.costs(DIGITS, 1e-3)[0]])
    assert claims.within(t.TASKS, claims.averaged)(made(FOUND)) == []
    assert claims.ahead_by_means(claims.averaged)(made(FOUND)) == []
    assert claims.ahead_of_all(claims.averaged)(made(FOUND)) == []


def test_nothing_at_all_makes_no_section_and_no_test():
    nothing = made({})
    assert sections.summary(nothing) is None
    assert sections.by_task(nothing) is None
    assert details.lost(nothing) is None
    assert details.sizes(nothing) is None
    assert [list(claim.tests(nothing)) for claim in claims.CLAIMS] == [[]] * len(claims.CLAIMS)


def test_the_table_of_tasks_says_what_the_full_study_trains():
    (table,) = details.tasks(made({})).tables
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert rows["LeNet-5 on SVHN"] == ["lenet5", "svhn:10000 (svhn)", "32 (64)", "4 (10)", "test accuracy", "yes"]
    assert set(rows) == set(t.ALL)


def test_the_smallest_scale_needs_no_files():
    items = PLAN.items("smoke")
    assert {item.data for item in items} == {"digits", "diabetes"}
    assert all(optimizers.find(item.optimizer).package is None for item in items)
    assert robustness.SEED not in range(50)
