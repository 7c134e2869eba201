"""The page of results: its numbers are those of the packed records, looked up without the library."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
from scipy import stats

from camhd.lab import plans
from camhd.lab.plans import ffnn
from camhd.lab.plans.claims import FAILS, HOLDS, OPEN, Check
from camhd.lab.results import answers, page, questions
from camhd.lab.results.commits import stand_ins
from results_made import made_up
from results_read import Line, accuracies, fits, holm, losses, number, packed, same_probability, section, shown, tables

ROOT = Path(__file__).resolve().parents[1]
COMMITTED = ROOT / "results"

# Problems and rows as the page calls them, and as the records do.
MODELS = {
    "FFNN(100, 100)": {"model": "ffnn:100,100", "options__lr": 3e-4},
    "FFNN(1000, 100)": {"model": "ffnn:1000,100", "options__lr": 1e-3},
    "FFNN(1000, 1000)": {"model": "ffnn:1000,1000", "options__lr": 1e-3},
    "MNIST": {"data": "mnist"},
    "CIFAR10": {"data": "cifar10"},
    "SVHN": {"data": "svhn:20000"},
    "ResNet-18": {"model": "resnet18:0.25"},
    "ResNet-34": {"model": "resnet34:0.125"},
}
METHODS = {
    "ffnn": {
        "Adam-CAM-HD (3-level)": {
            "optimizer": "adam-cam-hd-3",
            "options__hyper_lr": 1e-7,
            "options__hyper_scale": None,
        },
        "Adam-CAM-HD (2-level)": {
            "optimizer": "adam-cam-hd-2",
            "options__hyper_lr": 1e-7,
            "options__hyper_scale": None,
        },
        "Adam-HD (hp-grad 1e-9)": {"optimizer": "adam-hd", "options__hyper_lr": 1e-9},
        "Adam": {"optimizer": "adam"},
        "AdaBound": {"optimizer": "adabound", "options__lr": 1e-3},
        "Adam-HD (hp-grad 1e-7)": {"optimizer": "adam-hd", "options__hyper_lr": 1e-7, "options__faithful": True},
        "Adam-HD (hp-grad 1e-7), not below 0": {
            "optimizer": "adam-hd",
            "options__hyper_lr": 1e-7,
            "options__faithful": False,
        },
    },
    "lenet": {
        "Adam-CAM-HD": {
            "optimizer": "adam-cam-hd-2",
            "options__decay": 0.002,
            "options__hyper_lr": 1e-8,
            "options__hyper_scale": None,
        },
        "Adam-HD": {"optimizer": "adam-hd", "options__hyper_lr": 1e-8},
        "Adam-L4": {"optimizer": "l4adam"},
        "Adabound": {"optimizer": "adabound"},
        "RAdam": {"optimizer": "radam"},
        "Adam": {"optimizer": "adam"},
    },
    "resnet": {
        "Adam": {"optimizer": "adam"},
        "Adam-HD": {"optimizer": "adam-hd"},
        "Adam-CAM-HD": {"optimizer": "adam-cam-hd-2"},
        "Adabound": {"optimizer": "adabound"},
        "Adabound-CAM-HD": {"optimizer": "adabound-cam-hd-2"},
        "SGDN": {"optimizer": "sgdn"},
        "SGDN-CAM-HD": {"optimizer": "sgdn-cam-hd-2"},
    },
}
PANELS = {
    "FFNN on MNIST": {"model": "ffnn:100,100,100", "data": "mnist"},
    "LeNet-5 on MNIST": {"model": "lenet5", "data": "mnist"},
    "LeNet-5 on CIFAR10": {"model": "lenet5", "data": "cifar10"},
    "ResNet-18 on CIFAR10, Adam": {"model": "resnet18:0.125", "optimizer": "adam-cam-hd-2"},
    "ResNet-18 on CIFAR10, SGDN": {"model": "resnet18:0.125", "optimizer": "sgdn-cam-hd-2"},
}
READINGS = {
    f"Adam-CAM-HD ({levels}-level), {reading}": {
        "optimizer": f"adam-cam-hd-{levels}",
        "options__hyper_scale": scale,
        "options__hyper_lr": beta,
        "options__lr": 3e-4,
    }
    for levels in (2, 3)
    for reading, scale, beta in (
        ("β × group size", "size", 1e-7),
        ("β / group size", "mean", 1e-7),
        ("β 0.009 / group size", "mean", 0.009),
    )
}
TUNED = {
    f"{name}, tuned": {"optimizer": optimizer, **{f"options__{option}": value for option, value in options.items()}}
    for name, (optimizer, options) in ffnn.BEST.items()
}
VARIED = {  # with other settings than the paper's, on one problem
    "ffnn": {
        **{
            f"{name}, β {beta:g}": {"optimizer": optimizer, "options__hyper_lr": beta}
            for name, optimizer in (("Adam-CAM-HD (2-level)", "adam-cam-hd-2"), ("Adam-HD, not below 0", "adam-hd"))
            for beta in (3e-8, 3e-7, 1e-6)
        },
        **READINGS,
        **TUNED,
    },
    "lenet": {
        **{
            f"{name}, β {beta:g}": {
                "optimizer": "adam-cam-hd-2",
                "options__hyper_lr": beta,
                "options__combine_lr": combine,
                "options__decay": decay,
            }
            for name, combine, decay, betas in (
                ("Adam-CAM-HD", 0.03, 0.002, (1e-7, 1e-6, 1e-5)),
                ("Global level alone", 0.0, 0.002, (1e-7, 1e-6, 1e-5)),
                ("Adam-CAM-HD without τ", 0.03, None, (1e-8, 1e-7, 1e-6)),
            )
            for beta in betas
        },
        "Adam-HD, β 1e-07, not below 0": {"optimizer": "adam-hd", "options__hyper_lr": 1e-7},
        "Adam-CAM-HD, β × group size": {
            "optimizer": "adam-cam-hd-2",
            "options__hyper_lr": 1e-8,
            "options__hyper_scale": "size",
        },
        "Adam-CAM-HD without τ, β 0.0006 / group size": {
            "optimizer": "adam-cam-hd-2",
            "options__hyper_scale": "mean",
            "options__hyper_lr": 6e-4,
            "options__decay": None,
        },
    },
    "resnet": {},
}
SECTIONS = {
    "ffnn": "Feed-forward networks on MNIST",
    "lenet": "LeNet-5 on MNIST, CIFAR-10 and SVHN",
    "resnet": "ResNet-18 and ResNet-34 on CIFAR-10",
}


@pytest.fixture(scope="module", params=["made up", "committed"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A page and the folder of its records: the project's own, and one of every run of every plan."""
    if request.param == "committed":
        return (ROOT / "docs" / "results.md").read_text(encoding="utf-8"), COMMITTED
    folder = made_up(tmp_path_factory.mktemp("results"))
    return page.page(page.load(folder), {})[0], folder


def configuration(plan: str, problem: str, method: str) -> dict[str, Any]:
    return {**MODELS[problem], **{**METHODS[plan], **VARIED[plan]}[method]}


def values(lines: list[Line], plan: str, problem: str, method: str) -> list[float]:
    return accuracies(lines, **configuration(plan, problem, method))


@pytest.mark.parametrize("plan", SECTIONS)
def test_a_table_has_the_means_of_the_records(made, plan):
    text, folder = made
    lines = packed(folder, plan)
    if not lines:
        assert "nothing has been run yet" in section(text, SECTIONS[plan])
        return
    titles, *rows = tables(section(section(text, SECTIONS[plan]), "Summary of test performances"))[0]
    assert {row[0] for row in rows} == set(METHODS[plan])
    for row in rows:
        for title, cell in zip(titles, row, strict=True):
            if not title.endswith(", %"):
                continue
            own = values(lines, plan, title.removesuffix(", %"), row[0])
            if not own:
                assert cell == "–"
                continue
            mean, error, count = shown(cell)
            assert count == len(own)
            assert mean == pytest.approx(numpy.mean(own), abs=0.0051)
            assert len(own) < 2 or error == pytest.approx(stats.sem(own), abs=0.0051)


SETTINGS = {"Initial rate": "options__lr", "β": "options__hyper_lr"}
LESS = " (less is better)"
SCALES = {None: "", "size": " × group size", "mean": " / group size"}


def welch(first: list[float], second: list[float]) -> float:
    """From means and deviations, because SciPy warns of samples that are all the same."""
    known = [(numpy.mean(one), numpy.std(one, ddof=1), len(one)) for one in (first, second)]
    return float(stats.ttest_ind_from_stats(*known[0], *known[1], equal_var=False).pvalue)


def same_digits(cell: str, value: float) -> bool:
    return abs(float(cell) - value) <= 0.51 * 10 ** -len(cell.partition(".")[2])


@pytest.mark.parametrize(
    ("plan", "problem", "heading", "others", "count"),
    [
        ("lenet", "CIFAR10", "What a larger β changes", ("Adam", "Adam-HD", "Adam-CAM-HD"), 11),
        (
            "ffnn",
            "FFNN(100, 100)",
            "What another β changes",
            ("Adam", "Adam-CAM-HD (2-level)", "Adam-HD (hp-grad 1e-7), not below 0"),
            3,
        ),
        (
            "ffnn",
            "FFNN(100, 100)",
            "What another reading of β changes",
            ("Adam", "Adam-HD (hp-grad 1e-7), not below 0", "Adam-CAM-HD (2-level)", "Adam-CAM-HD (3-level)"),
            8,
        ),
        ("ffnn", "FFNN(100, 100)", "What is left when each is tuned", (), 6),
    ],
)
def test_other_settings_have_the_means_of_the_records_and_welchs_test(made, plan, problem, heading, others, count):
    text, folder = made
    lines = packed(folder, plan)
    below = section(text, SECTIONS[plan])
    titles, *rows = tables(section(below, heading))[0]
    wanted = {**METHODS[plan], **VARIED[plan]}
    picked = {row[0]: {**MODELS[problem], **wanted[row[0]]} for row in rows}
    own = {name: accuracies(lines, **config) for name, config in picked.items()}
    lost = {name: losses(lines, **config) for name, config in picked.items()}
    assert set(others) == set(own) & set(METHODS[plan])
    assert len(own) > len(others)
    for row in rows:
        name, (*settings, runs, accuracy, loss) = row[0], row[1:]
        for title, cell in zip(titles[1:], settings, strict=False):
            value = wanted[name].get(SETTINGS[title])
            what, _, scale = cell.partition(" ")
            assert cell == "–" if value is None else float(what) == pytest.approx(value, rel=0.005)
            if title == "β" and value is not None and heading != "What is left when each is tuned":
                assert f" {scale}".rstrip() == SCALES[wanted[name].get("options__hyper_scale")]
        assert int(runs) == len(own[name])
        if own[name]:
            mean, error, _ = shown(f"{accuracy} ({runs})")
            assert mean == pytest.approx(numpy.mean(own[name]), abs=0.0051)
            assert len(own[name]) < 2 or error == pytest.approx(stats.sem(own[name]), abs=0.0051)
            mean, _, error = loss.partition(" ± ")
            assert same_digits(mean, numpy.mean(lost[name])) if lost[name] else loss == "–"
            assert len(lost[name]) < 2 or same_digits(error, stats.sem(lost[name]))
    compared = 0
    for row in tables(below[below.index("<details") :])[0][1:]:
        names = row[1].removeprefix(f"{problem}: ").removesuffix(LESS)
        first, _, second = names.partition(" − ")
        if first in set(own) - set(others):
            pair = (lost[second], lost[first]) if row[1].endswith(LESS) else (own[first], own[second])
            enough = min(map(len, pair)) > 1 and max(map(numpy.std, pair)) > 0
            assert not enough or same_probability(row[5], welch(*pair))
            assert same_effect(row[3], numpy.mean(pair[0]) - numpy.mean(pair[1]) if all(pair) else numpy.nan)
            compared += 1
    assert compared == count


@pytest.mark.parametrize("plan", SECTIONS)
def test_how_far_rates_moved_is_what_the_records_say(made, plan):
    text, folder = made
    lines = packed(folder, plan)
    if not lines:
        return
    rows = tables(section(section(text, SECTIONS[plan]), "How far the learning rates move"))[0][1:]
    compared, left, sums = set(), {}, {}
    for what, count, level, rates, median, least, most, weight, tau, together in rows:
        problem, label = next((one, what.removeprefix(f"{one}, ")) for one in MODELS if what.startswith(f"{one}, "))
        wanted = {**MODELS[problem], **{**METHODS[plan], **VARIED[plan]}[label]}
        fitting = [line for line in lines if fits(line, wanted)]
        found = [learned(line, level) for line in fitting if line["result"]["status"] != "diverged"]
        assert int(count) == len(found)
        assert {f"{number:,}" for number, *_ in found} == {rates}
        means = numpy.mean([shares for *_, shares in found], axis=0)
        for cell, mean in zip([median] if rates == "1" else [median, least, most], means, strict=False):
            assert number(cell) == pytest.approx(mean, abs=5.1e-5, rel=0.0051), what
        assert rates != "1" or least == most == ""
        assert number(weight) == pytest.approx(numpy.mean([own for _, own, *_ in found]), abs=0.0051)
        assert {f"{math.exp(-steps):.2g}" for _, _, steps, _ in found} == {tau}
        if what not in compared:
            left[what] = number(together), numpy.exp(-found[0][2])
        sums.setdefault(what, []).append(numpy.mean([own * shares[0] for _, own, _, shares in found]))
        compared.add(what)
    for what, (shown_left, tau) in left.items():
        assert shown_left == pytest.approx(tau * sum(sums[what]) + 1 - tau, abs=5.1e-5, rel=0.0051)
    assert len(compared) > 5


def learned(line: Line, level: str) -> tuple[int, float, float, list[float]]:
    """Of a level in a run: how many rates, γ, the exponent of τ; median, smallest and largest rate over the first."""
    seen = [one for one in line["history"] if one["kind"] == "rates"]
    first, last = (_numbers(one["rates"][level]) for one in (seen[0], seen[-1]))
    ends = [numpy.median(last), last.min(), last.max()]
    steps = (line["config"]["options"].get("decay") or 0.0) * seen[-1]["step"]
    weight = (seen[-1]["weights"] or {}).get(level, 1.0)
    count = int(seen[-1]["rates"][level]["count"])
    return count, weight, steps, [float(end / numpy.median(first)) for end in ends]


def _numbers(rates: dict[str, list[float]]) -> numpy.ndarray:
    """The rates of a level in a line, all of them or, of many, their quantiles."""
    return numpy.array(rates["values"] if "values" in rates else rates["quantiles"])


@pytest.mark.parametrize("plan", SECTIONS)
def test_the_tests_of_the_claims_are_welchs(made, plan):
    text, folder = made
    lines = packed(folder, plan)
    if not lines:
        return
    whole = section(text, SECTIONS[plan])
    rows = tables(whole[whole.index("<details") :])[0][1:]
    compared = 0
    for _, what, count, effect, _, p, *_ in rows:
        match = re.fullmatch(r"([^:]+): (.+) − (.+)", what)
        if match is None or match[1] not in MODELS or not {match[2], match[3]} <= set(METHODS[plan]):
            continue  # of another number than the accuracy
        first, second = (values(lines, plan, match[1], match[number]) for number in (2, 3))
        assert count == f"{len(first)} + {len(second)}"
        assert same_effect(effect, numpy.mean(first) - numpy.mean(second) if first and second else numpy.nan)
        enough = min(len(first), len(second)) > 1
        want = stats.ttest_ind(first, second, equal_var=False).pvalue if enough else numpy.nan
        assert same_probability(p, want), what
        compared += 1
    assert compared > 5


def test_the_corrected_p_values_of_the_first_table_are_holms(made):
    text, folder = made
    lines = packed(folder, "ffnn")
    whole = section(text, SECTIONS["ffnn"])
    rows = tables(whole[whole.index("<details") :])[0][1:]
    ps = []
    for row in rows:
        problem, first, second = re.fullmatch(r"([^:]+): (.+) − (.+)", row[1].removesuffix(LESS)).groups()
        read = losses if row[1].endswith(LESS) else accuracies
        pair = [read(lines, **configuration("ffnn", problem, name)) for name in (first, second)]
        pair = pair[::-1] if read is losses else pair
        enough = min(map(len, pair)) > 1
        ps.append(welch(*pair) if enough else numpy.nan)
    for row, p in zip(rows, holm(ps), strict=True):
        assert same_probability(row[6], p)
        effect = number(row[3])
        assert row[7] == ("open" if not p < 0.05 else "holds" if effect > 0 else "does not hold")


def same_effect(cell: str, effect: float) -> bool:
    """Whether a cell shows this effect: to two decimals of points, to three digits of a loss."""
    if numpy.isnan(effect):
        return cell.startswith("–")
    return abs(number(cell) - effect) <= 0.0051 * (1 if cell.endswith("points") else abs(effect))


def strata(lines: list[Line], plan: str, what: str) -> Iterator[tuple[list[float], list[float]]]:
    """The pairs of samples behind a row of the four questions."""
    first, second = what.partition(": ")[2].split(" − ", 1)
    second = re.sub(r" \((mean of \d+|MNIST|CIFAR10|SVHN|FFNN\([\d, ]+\)|ResNet-\d+)\)$", "", second)
    problems = {"ffnn": list(MODELS)[:3], "lenet": list(MODELS)[3:6], "resnet": list(MODELS)[6:]}[plan]
    for problem in ["SVHN"] if "SVHN" in what else problems:
        pair = values(lines, plan, problem, first), values(lines, plan, problem, second)
        if all(pair):
            yield pair


def welch_of_strata(pairs: list[tuple[list[float], list[float]]]) -> tuple[float, float]:
    """The mean difference of strata and its p-value, after Welch and Satterthwaite."""
    effect = float(numpy.mean([numpy.mean(first) - numpy.mean(second) for first, second in pairs]))
    parts = [(stats.sem(one) ** 2 / len(pairs) ** 2, len(one) - 1) for pair in pairs for one in pair]
    variance = sum(part for part, _ in parts)
    freedom = variance**2 / sum(part**2 / free for part, free in parts)
    return effect, float(2 * stats.t.sf(abs(effect) / numpy.sqrt(variance), freedom))


@pytest.mark.parametrize(
    "question",
    ["Does multi-level beat global HD?", "Does HD beat Adam?", "Do the paper's settings transfer?"],
)
def test_the_answers_are_means_over_problems(made, question):
    text, folder = made
    rows = tables(section(text, question))[0][1:]
    plan_of = {"FFNNs": "ffnn", "LeNet-5": "lenet", "reduced ResNets": "resnet"}
    compared = 0
    for what, count, effect, _, p, _, verdict in rows:
        plan = next((name for words, name in plan_of.items() if what.startswith(words)), None)
        lines = packed(folder, plan) if plan else []
        pairs = list(strata(lines, plan, what)) if lines else []
        if not pairs:
            continue
        pairs = [pair for pair in pairs if min(map(len, pair)) > 1] or pairs
        assert count == " + ".join(str(sum(len(pair[side]) for pair in pairs)) for side in (0, 1))
        if min(len(one) for pair in pairs for one in pair) > 1:
            want, chance = welch_of_strata(pairs)
            assert same_probability(p, chance), what
        else:
            want = numpy.mean([numpy.mean(first) - numpy.mean(second) for first, second in pairs])
            assert (p, verdict) == ("–", "open")
        assert same_effect(effect, want), what
        compared += 1
    assert compared or folder == COMMITTED


def test_learning_the_weights_is_compared_ratio_by_ratio(made):
    text, folder = made
    lines = packed(folder, "ratio")
    if not lines:
        return
    rows = tables(section(text, "Does learning γ beat fixed γ?"))[0][1:]
    assert len(rows) == len(PANELS)
    for what, _, effect, _, p, *_ in rows:
        panel = PANELS[what.partition(":")[0]]
        runs = [line for line in lines if line["config"]["options"].get("weights")]
        cells: dict[tuple[float, bool], list[float]] = {}
        for line in runs:
            if all(line["config"][name] == value for name, value in panel.items()):
                key = line["config"]["options"]["weights"][0], line["config"]["options"]["combine_lr"] == 0
                cells.setdefault(key, []).append(100 * line["result"]["final"]["valid_accuracy"])
        ratios = sorted({ratio for ratio, fixed in cells if not fixed and (ratio, True) in cells})
        pairs = [(cells[ratio, False], cells[ratio, True]) for ratio in ratios]
        if pairs and min(len(one) for pair in pairs for one in pair) > 1:
            want, chance = welch_of_strata(pairs)
            assert same_probability(p, chance)
            assert same_effect(effect, want)


def test_the_tables_of_ratios_have_the_means_of_the_records(made):
    text, folder = made
    lines = packed(folder, "ratio")
    if not lines:
        return
    below = section(text, "Accuracy against the initial combination ratio").partition("<details")[0]
    titles = re.findall(r"^\*\*(.+)\*\*$", below, re.MULTILINE)
    of = {
        title: [line for line in lines if all(line["config"][name] == value for name, value in panel.items())]
        for title, panel in PANELS.items()
    }
    assert titles == [title for title in PANELS if of[title]]
    for title, table in zip(titles, tables(below), strict=True):
        for ratio, *cells in table[1:-1]:
            for cell, combine in zip(cells, (True, False), strict=True):
                own = [
                    100 * line["result"]["final"]["valid_accuracy"]
                    for line in of[title]
                    if (line["config"]["options"].get("weights") or [None])[0] == float(ratio)
                    and (line["config"]["options"]["combine_lr"] == 0) == combine
                ]
                if own:
                    mean, error, count = shown(cell)
                    assert (count, mean) == (len(own), pytest.approx(numpy.mean(own), abs=0.0051))
                    assert len(own) < 2 or error == pytest.approx(stats.sem(own), abs=0.0051)
                else:
                    assert cell == "–"


def test_the_paper_is_compared_with_by_means_and_errors(made):
    text, folder = made
    below = section(text, "Do the paper's own numbers come back?")
    if "two runs yet" in below:
        assert folder == COMMITTED
        return
    rows = tables(below)[0][1:]
    near, ps = 0, []
    for problem, method, ours, paper, count, effect, _, p, *_ in rows:
        plan = "ffnn" if problem.startswith("FFNN") else "lenet"
        own = values(packed(folder, plan), plan, problem, method)
        theirs, error = (float(part) for part in paper.split(" ± "))
        test = stats.ttest_ind_from_stats(
            numpy.mean(own), numpy.std(own, ddof=1), len(own), theirs, error * 10**0.5, 10, equal_var=False
        )
        assert count == f"{len(own)} + 10"
        assert number(ours) == pytest.approx(numpy.mean(own), abs=0.0051)
        assert same_effect(effect, numpy.mean(own) - theirs)
        assert same_probability(p, float(test.pvalue))
        near += abs(numpy.mean(own) - theirs) <= 2 * numpy.hypot(stats.sem(own), error)
        ps.append(float(test.pvalue))
    differ = sum(p < 0.05 for p in holm(ps))
    assert f"**{near} of {len(rows)} are within two standard errors of the paper's number; {differ} differ" in below


def test_the_steps_of_the_posters_table_are_medians(made):
    text, folder = made
    lines = packed(folder, "hd")
    if not lines:
        return
    below = section(text, "Iterations to convergence for logistic regression")
    compared = 0
    for (name, optimizer), table in zip(
        (("SGD", "sgd"), ("SGDN", "sgdn"), ("Adam", "adam")), tables(below), strict=False
    ):
        titles, *rows = table
        assert titles[1] == name
        for row in rows:
            for title, cell in zip(titles[1:], row[1:], strict=True):
                beta = None if title == name else float(title.removeprefix("β "))
                own = _steps(lines, optimizer, float(row[0]), beta)
                ours, _, rest = cell.partition(" [")
                assert rest.startswith(f"{len(own)}] (")
                middle = numpy.median(own) if own else numpy.nan
                if not own:
                    assert ours == "–"
                elif numpy.isinf(middle):
                    assert ours == "> 100,366"
                else:
                    assert number(ours) == pytest.approx(middle, abs=0.51)
                compared += bool(own)
    assert compared


def _steps(lines: list[Line], optimizer: str, rate: float, beta: float | None) -> list[float]:
    found = []
    for line in lines:
        options = line["config"]["options"]
        name = optimizer if beta is None else f"{optimizer}-hd"
        if (line["config"]["optimizer"], options["lr"], options.get("hyper_lr")) == (name, rate, beta):
            stopped = line["result"]["status"] == "stopped"
            found.append(line["result"]["steps"] if stopped else numpy.inf)
    return found


def test_the_page_says_how_much_there_is_of_every_plan(made):
    text, folder = made
    for name in page.PLANS:
        plan = plans.find(name)
        wanted = len(plan.items("cpu")) + len(plan.measurements.get("cpu", ()))
        there = len(packed(folder, name))
        said = f"Records: {there:,} of {wanted:,}." if there else "nothing has been run yet"
        assert said in section(text, plan.title), name


# The project's own page


def test_the_page_is_the_one_that_its_records_give():
    made, _ = page.page(page.load(COMMITTED), page.remarks(COMMITTED / page.REMARKS), stand_ins(COMMITTED))
    assert made == (ROOT / "docs" / "results.md").read_text(encoding="utf-8"), "run make results"


def test_the_figures_show_the_numbers_of_the_records():
    """A figure holds the digest of its numbers, so that it need not be drawn again."""
    text, pictures = page.page(page.load(COMMITTED), {})
    folder = ROOT / "docs" / page.IMAGES
    found = {path.name: re.search(r"<dc:description>(\w+)<", path.read_text())[1] for path in folder.iterdir()}
    assert found == {picture.file: picture.digest for picture in pictures}, "run make results"
    assert set(re.findall(rf"\({page.IMAGES}/([^)]*)\)", text)) == set(found)


def test_the_archives_stay_small():
    sizes = {path.name: path.stat().st_size for path in COMMITTED.iterdir()}
    assert sum(sizes.values()) < 6e6, sizes
    figures = (ROOT / "docs" / page.IMAGES).iterdir()
    assert sum(path.stat().st_size for path in figures) < 4e6


@pytest.mark.parametrize(
    ("held", "failed", "unknown", "empty", "sentence"),
    [
        (3, 0, 0, 0, "holds. 3 of 3 comparisons hold, 0 do not, 0 are open."),
        (2, 0, 0, 1, "holds for the most part. 2 of 3 comparisons hold, 0 do not, 1 are open (1 for want of runs)."),
        (2, 1, 0, 0, "holds for the most part. 2 of 3 comparisons hold, 1 do not, 0 are open."),
        (0, 2, 2, 0, "does not hold for the most part. 0 of 4 comparisons hold, 2 do not, 2 are open."),
        (0, 2, 0, 0, "does not hold. 0 of 2 comparisons hold, 2 do not, 0 are open."),
        (1, 0, 1, 0, "open. 1 of 2 comparisons hold, 0 do not, 1 are open."),
    ],
)
def test_an_answer_says_whether_all_comparisons_agree(held, failed, unknown, empty, sentence):
    def rows(effect, word, count):
        return [questions.Row(Check("one − other", effect), 0.01, word)] * count

    known = rows(1.0, HOLDS, held) + rows(-1.0, FAILS, failed) + rows(1.0, OPEN, unknown)
    assert answers._sentence(known + rows(math.nan, OPEN, empty)) == f"Verdict: {sentence}"


def test_a_problem_with_a_single_run_does_not_hide_what_the_others_say():
    many, other, one = ("Many", [0.5, 0.6], [0.1, 0.2]), ("Other", [0.7, 0.8], [0.4, 0.5]), ("One", [0.9], [0.1, 0.2])

    def pooled(*problems):
        compared = questions.Comparison("a − b", "plan", lambda found: problems)
        ((check, parts),) = questions._tests(compared, {"plan": object()})
        return check.what, round(check.effect, 6), math.isnan(check.p), [part.what for part in parts]

    assert pooled(many) == ("a − b", 40.0, False, [])
    assert pooled(many, one) == ("a − b (Many)", 40.0, False, ["a − b: Many", "a − b: One"])
    names = ["a − b: Many", "a − b: Other", "a − b: One"]
    assert pooled(many, other, one) == ("a − b (mean of 2)", 35.0, False, names)
    assert pooled(one) == ("a − b", 75.0, True, [])
