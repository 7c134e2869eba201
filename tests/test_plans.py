"""The paper's plans: what they train, what they change at smaller scales, and how they find their records."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from camhd.lab import models, optimizers, plans
from camhd.lab.plans import ffnn, hd, lenet, pages, resnet
from camhd.lab.plans.grid import Grid, Method, Problem, key, key_of
from camhd.lab.plans.numbering import PRINTED
from camhd.lab.plans.reading import results
from camhd.lab.plans.scale import SCALES, Change, differences
from camhd.lab.sweep.preparing import job_of

NAMES = ("ffnn", "lenet", "resnet", "ratio", "complexity", "convergence", "hd", "robustness")
PAPER = Path(__file__).resolve().parents[2] / "shared" / "paper.tex"


def test_every_experiment_of_the_paper_has_a_plan():
    assert tuple(plans.PLANS) == NAMES
    with pytest.raises(ValueError, match=r"'plan' has no choice 'fnn'; did you mean 'ffnn'\?"):
        plans.find("fnn")


@pytest.mark.parametrize("name", NAMES)
def test_every_scale_of_a_plan_can_be_listed_and_no_run_comes_twice(name):
    plan = plans.find(name)
    for scale in SCALES:
        keys = [key_of(item) for item in plan.items(scale)]
        assert len(keys) == len(set(keys))
        ids = [one.id for one in plan.measurements.get(scale, ())]
        assert len(ids) == len(set(ids))
        assert keys or ids
    assert plan.reduced("paper") == []
    with pytest.raises(ValueError, match="'scale' has no choice"):
        plan.at("large")


@pytest.mark.parametrize("name", NAMES)
def test_the_record_of_a_run_is_known_without_its_data(name):
    """What a record says of a run is what the plan expects of it: two ways to the same key."""
    for item in plans.find(name).items("smoke"):
        config = job_of(item).config
        assert key(type(config).from_json(config.to_json()).as_dict()) == key_of(item)


def test_the_ffnn_plan_is_the_papers_protocol_on_two_cores_too():
    plan = ffnn.PLAN
    assert plan.at("cpu") == plan.grids == plan.at("paper")
    grid, *others = plan.grids
    assert [one.seeds for one in plan.grids] == [10, 5, 5, 10]
    assert {one.problems for one in others} == {grid.problems[:1]}
    assert [(one.model, one.data, one.epochs) for one in grid.problems] == [
        ("ffnn:100,100", "mnist", 30),
        ("ffnn:1000,100", "mnist", 30),
        ("ffnn:1000,1000", "mnist", 30),
    ]
    assert len(plan.items("cpu")) == (3 * 7 + 4) * 10 + (6 + 6) * 5
    items = {(item.model, item.label): item for item in plan.items("paper")}
    for model, batch, lr in (
        ("ffnn:100,100", 32, 3e-4),
        ("ffnn:1000,100", 64, 1e-3),
        ("ffnn:1000,1000", 128, 1e-3),
    ):
        item = items[model, ffnn.THREE]
        options = optimizers.find(item.optimizer).resolve(item.options, optimizers.task_of(model))
        assert item.settings().examples(model, "mnist") == batch
        assert (options["lr"], options["hyper_lr"], options["combine_lr"]) == (lr, 1e-7, 0.01)
        assert (options["levels"], options["weights"]) == (("global", "layer", "parameter"), (0.4, 0.3, 0.3))
        assert items[model, ffnn.HD].options["hyper_lr"] == 1e-9


def test_the_resnets_are_trained_as_the_paper_did():
    (grid,) = resnet.PLAN.grids
    assert {(one.epochs, one.augment) for one in grid.problems} == {(200, "crop-flip-cutout")}
    schedules = {method.label: method.schedule for method in grid.methods}
    assert {label for label, schedule in schedules.items() if schedule == "drop:150"} == {"SGDN", "SGDN-CAM-HD"}
    (small,) = resnet.PLAN.at("cpu")
    assert {method.schedule for method in small.methods} == {None, "drop:15"}  # in proportion to 20 epochs of 200
    assert small.problems[0].epochs == 20


def test_the_weights_of_lenet_are_looked_at_with_three_optimizers_and_two_decays():
    by_optimizer, by_decay = lenet.PLAN.grids[1:3]
    rates = {(method.optimizer, method.options.get("lr")) for method in by_optimizer.methods}
    sgd = {(f"{name}-cam-hd-2", rate) for name in ("sgd", "sgdn") for rate in (0.1, 0.01)}  # 0.1 in the text
    assert rates == {*sgd, ("adam-cam-hd-2", None)}
    assert by_optimizer.problems[0].data == "mnist:6000"  # "10% of original training dataset"
    assert [method.options["decay"] for method in by_decay.methods] == [0.002, 0.001]


def test_other_betas_are_the_papers_run_but_for_beta():
    table, other, *_ = ffnn.PLAN.at("cpu")
    cam, floor = (resolved(table, table.methods[i]) for i in (1, 6))
    assert cam["hyper_lr"] == floor["hyper_lr"] == 1e-7
    assert floor["faithful"] is False
    assert [resolved(other, method) for method in other.methods] == [
        {**one, "hyper_lr": beta} for one in (cam, floor) for beta in (3e-8, 3e-7, 1e-6)
    ]


def resolved(grid, method, problem=0):
    """The options of a method on a problem of its grid, the paper's among them."""
    item = grid.item(grid.problems[problem], method, 0)
    return optimizers.find(item.optimizer).resolve(item.options, optimizers.task_of(item.model))


def test_larger_betas_are_the_papers_run_but_for_beta():
    (table, *_, larger), (problem,) = lenet.PLAN.at("cpu"), lenet.PLAN.at("cpu")[-1].problems
    assert problem == table.problems[1]
    assert table.seeds == larger.seeds
    cam, hd = (resolved(table, table.methods[i], 1) for i in (0, 1))
    assert cam["hyper_lr"] == hd["hyper_lr"] == 1e-8
    *betas, floor, first, second, third, times, alike = (resolved(larger, method) for method in larger.methods)
    alone = {**cam, "weights": [1.0, 0.0], "combine_lr": 0.0}
    assert betas == [{**one, "hyper_lr": beta} for one in (cam, alone) for beta in (1e-7, 1e-6, 1e-5)]
    assert floor == {**hd, "hyper_lr": 1e-7, "faithful": False}
    assert cam["decay"] == 0.002
    kept = [{**cam, "hyper_lr": beta, "decay": None} for beta in (1e-8, 1e-7, 1e-6)]
    assert [first, second, third] == kept
    assert times == {**cam, "hyper_scale": "size"}
    assert alike == {**cam, "hyper_scale": "mean", "hyper_lr": 6e-4, "decay": None}


def test_other_readings_of_beta_are_the_papers_run_but_for_beta_and_what_it_is_multiplied_by():
    table, _, readings, _ = ffnn.PLAN.at("cpu")
    three, two = (resolved(table, table.methods[i]) for i in (0, 1))
    alike = {"hyper_scale": "mean", "hyper_lr": 0.009}
    assert [resolved(readings, method) for method in readings.methods] == [
        {**one, **other} for one in (two, three) for other in ({"hyper_scale": "size"}, {"hyper_scale": "mean"}, alike)
    ]


def test_tuned_settings_are_the_papers_but_for_the_two_rates():
    table, *_, tuned = ffnn.PLAN.at("cpu")
    papers = {method.label: resolved(table, method) for method in table.methods}
    scaled = {**papers["Adam-CAM-HD (3-level)"], "hyper_scale": "mean"}
    bases = (papers["Adam"], papers["Adam-HD (hp-grad 1e-7), not below 0"], papers["Adam-CAM-HD (2-level)"], scaled)
    for method, base in zip(tuned.methods, bases, strict=True):
        found = resolved(tuned, method)
        assert 1e-5 < found["lr"] < 1e-2
        assert found == {**base, **{name: found[name] for name in ("lr", "hyper_lr") if name in base}}


@pytest.mark.parametrize(
    ("plan", "shape", "label"),
    [
        (ffnn.PLAN, (1, 28, 28), "Adam-CAM-HD (2-level), β 0.009 / group size"),
        (ffnn.PLAN, (1, 28, 28), "Adam-CAM-HD (3-level), β 0.009 / group size"),
        (lenet.PLAN, (3, 32, 32), "Adam-CAM-HD without τ, β 0.0006 / group size"),
    ],
)
def test_with_a_mean_the_global_rate_has_the_papers_beta(plan, shape, label):
    (item,) = (one for one in plan.items("cpu") if (one.label, one.seed) == (label, 0))
    scalars = sum(one.numel() for one in models.find(item.model, shape, 10)().parameters())
    papers = optimizers.find(item.optimizer).resolve({}, optimizers.task_of(item.model))
    assert item.options["hyper_lr"] / scalars == pytest.approx(papers["hyper_lr"], rel=0.05)


def test_the_posters_table_has_six_rates_and_six_betas_for_three_rules():
    assert len(hd.PLAN.items("paper")) == 3 * (6 + 36)
    numbers = {(one.problem, one.method): one.mean for one in hd.PLAN.published}
    assert numbers["SGD", hd.plain("SGD", 0.1)] == 33
    assert numbers["SGD", hd.learned("SGD", 1e-6, 1e-3)] == 153
    assert numbers["Adam", hd.plain("Adam", 0.01)] == 34
    assert {numbers["Adam", hd.learned("Adam", rate, 1e-5)] for rate in hd.RATES[1:]} == {30}


def test_only_accuracies_stand_beside_accuracies_in_the_tables_of_runs(tmp_path):
    counts = {}
    for name, scale in (("ffnn", "cpu"), ("ffnn", "smoke"), ("hd", "cpu"), ("resnet", "cpu"), ("resnet", "paper")):
        counts[name, scale] = len(pages.study(results(plans.find(name), scale, tmp_path)).published)
    # On another network or on other data the paper's number is no number for these runs.
    assert counts == {
        ("ffnn", "cpu"): 12,
        ("ffnn", "smoke"): 0,
        ("hd", "cpu"): 0,
        ("resnet", "cpu"): 0,
        ("resnet", "paper"): 14,
    }


def test_every_task_of_a_report_has_a_name_of_its_own(tmp_path):
    for plan in plans.PLANS.values():
        names = [task.name for task in results(plan, "paper", tmp_path).tasks.values()]
        assert len(names) == len(set(names))


# What a scale changes

GRID = Grid(
    "table",
    (
        Problem("One", "resnet18", "cifar10", epochs=200, augment="crop-flip"),
        Problem("Two", "lenet5", "mnist", epochs=30),
    ),
    (Method("A", "adam"), Method("B", "sgdn", schedule="drop:150"), Method("C", "adam-hd")),
)


def test_a_scale_changes_what_it_names_and_nothing_else():
    change = Change(seeds=2, epochs={"One": 3, "": 4}, data={"mnist": "digits"}, schedules={"drop:150": "drop:2"})
    made = change.apply(GRID)
    assert made == replace(
        GRID,
        seeds=2,
        problems=(replace(GRID.problems[0], epochs=3), replace(GRID.problems[1], epochs=4, data="digits")),
        methods=(GRID.methods[0], replace(GRID.methods[1], schedule="drop:2"), GRID.methods[2]),
    )
    assert Change().apply(GRID) == GRID


def test_what_was_changed_is_said_in_words_from_the_difference_alone():
    change = Change(
        seeds=3,
        epochs={"One": 20},
        models={"resnet18": "resnet18:0.25"},
        batch_size={"": 64},
        methods=("A", "B"),
        problems=("One",),
        schedules={"drop:150": "drop:15"},
        augment=False,
    )
    assert differences(GRID, change.apply(GRID)) == [
        "3 seeds instead of 10",
        "without the problem Two",
        "without the method C",
        "model resnet18:0.25 instead of resnet18",
        "20 epochs instead of 200",
        "batches of 64 instead of the paper's size",
        "augmentation none instead of crop-flip",
        "schedule drop:15 instead of drop:150",
    ]
    assert differences(GRID, Change(data={"mnist": "digits"}).apply(GRID)) == ["data digits instead of mnist (Two)"]
    assert differences(GRID, Change(more_seeds={"Two": 12}).apply(GRID)) == ["12 seeds (Two)"]
    assert differences(GRID, GRID) == []


def test_a_problem_may_have_more_seeds_than_the_others_or_fewer():
    few = replace(GRID, methods=GRID.methods[:1], seeds=2, first_seed=7)
    more = Change(more_seeds={"Two": 4}).apply(few)
    assert [(item.model, item.seed) for item in more.items()] == [
        *[("resnet18", 7), ("lenet5", 7), ("resnet18", 8), ("lenet5", 8)],
        *[("lenet5", 9), ("lenet5", 10)],
    ]
    less = Change(more_seeds={"Two": 1}).apply(few)
    assert [(item.model, item.seed) for item in less.items()] == [("resnet18", 7), ("lenet5", 7), ("resnet18", 8)]


# The paper itself

paper = pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not here")


@paper
@pytest.mark.parametrize("plan", [ffnn.PLAN, lenet.PLAN, resnet.PLAN], ids=lambda plan: plan.name)
def test_the_published_numbers_are_those_of_the_papers_tables(plan):
    label = next(place for place in plan.places if place.startswith("tab:"))
    source = PAPER.read_text(encoding="utf-8")
    end = source.index(rf"\label{{{label}}}")
    block = source[source.rfind(r"\begin{tabular}", 0, end) : end]
    plain = re.sub(r"\\textbf\{([^}]*)\}|\\cmidrule\{[^}]*\}", r"\1", block)
    rows = {}
    for line in plain.replace(r"\midrule", "").split(r"\\"):
        name, *cells = [cell.strip() for cell in line.split("&")]
        numbers = [float(number) for cell in cells for number in re.findall(r"\d+\.?\d*", cell)]
        if len(numbers) in (4, 6) and r"\toprule" not in name:
            rows[name.split("\n")[-1].strip()] = list(zip(numbers[::2], numbers[1::2], strict=True))
    ours: dict[str, list[tuple[float, float]]] = {}
    for one in plan.published:
        ours.setdefault(one.method, []).append((round(100 * one.mean, 2), round(100 * one.error, 2)))
    assert len(rows) >= 4
    assert ours == rows


@paper
def test_the_printed_numbers_are_what_latex_counts():
    source = PAPER.read_text(encoding="utf-8")
    counters = dict.fromkeys(("section", "subsection", "table", "figure", "thm", "algorithm"), 0)
    current = ""
    printed: dict[str, str] = {}
    pattern = r"\\(section|subsection)\{|\\begin\{(table|figure|thm|algorithm)\*?\}|\\label\{([^}]*)\}"
    for found in re.finditer(pattern, source):
        if found[3] is None:
            kind = found[1] or found[2]
            counters[kind] += 1
            if kind == "section":
                counters["subsection"] = 0
            number = f"{counters['section']}.{counters['subsection']}" if kind == "subsection" else f"{counters[kind]}"
            word = {"thm": "Theorem", "subsection": "Section"}.get(kind, kind.capitalize())
            current = f"{word} {number}"
        else:
            printed[found[3]] = current
    for label, text in PRINTED.items():
        assert printed[label] == text, label


def test_every_place_of_a_plan_is_a_label_of_the_source():
    for plan in plans.PLANS.values():
        for place in plan.places:
            assert place in PRINTED
        for claim in plan.claims:
            assert claim.place == "" or claim.place in PRINTED or re.search("Baydin|Theorem", claim.place)
    assert all(math.isfinite(one.mean) for plan in plans.PLANS.values() for one in plan.published)


def test_the_python_examples_of_the_page_run(monkeypatch, tmp_path, capsys):
    """All but the one that needs records, whose call is looked at instead."""
    page = (Path(__file__).resolve().parents[1] / "docs" / "reproducing.md").read_text(encoding="utf-8")
    asked = []
    monkeypatch.setattr(plans, "rebuild", lambda *arguments: asked.append(arguments))
    for block in re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        exec(compile(block, "reproducing.md", "exec"), {})
    assert asked == [("ffnn", "results/ffnn", "site/ffnn")]
    assert "310 [" in capsys.readouterr().out
    for name, plan in plans.PLANS.items():
        (row,) = re.findall(rf"^\| `{name}` \| ([^|]*) \|", page, re.MULTILINE)
        numbers = {number for place in plan.places for number in re.findall(r"[\d.]+", PRINTED[place])}
        if name not in ("convergence", "robustness"):
            assert set(re.findall(r"[\d.]+\d|\d", row)) == numbers, name
