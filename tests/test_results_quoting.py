"""Numbers that remarks quote: those of the records, computed here without what quotes them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy
import pytest
from scipy import stats

from camhd.lab import plans
from camhd.lab.plans.reading import results
from camhd.lab.results import page
from camhd.lab.results.archive import path_of, read
from camhd.lab.results.quoting import PATTERN, filled
from results_made import made_up
from results_read import Line, number, packed, same_probability

COMMITTED = Path(__file__).resolve().parents[1] / "results"
SMALL, TWO, ADAM = "FFNN(100, 100)", "Adam-CAM-HD (2-level)", "Adam"
OF = {
    TWO: {"optimizer": "adam-cam-hd-2", "hyper_lr": 1e-7, "hyper_scale": None},
    ADAM: {"optimizer": "adam", "lr": 3e-4},
}


@pytest.fixture(scope="module", params=["made up", "committed"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return COMMITTED if request.param == "committed" else made_up(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def found(folder):
    archives = {name: read(path_of(folder, name, "cpu")) for name in ("ffnn", "lenet")}
    return {name: results(plans.find(name), "cpu", one.runs, one.measured) for name, one in archives.items()}


@pytest.fixture(scope="module")
def lines(folder) -> list[Line]:
    return [line for line in packed(folder, "ffnn") if line["config"]["model"] == "ffnn:100,100"]


def accuracies(lines: list[Line], method: str) -> dict[int, float]:
    """In percent, by seed."""
    found = {}
    for line in lines:
        config = {**line["config"]["options"], "optimizer": line["config"]["optimizer"]}
        if all(config.get(name) == value for name, value in OF[method].items()):
            found[line["config"]["seed"]] = 100 * line["result"]["final"]["valid_accuracy"]
    assert found
    return found


def test_an_accuracy_is_the_mean_of_the_records(found, lines):
    quoted = filled(f"It is {{accuracy: ffnn | {SMALL} | {ADAM}}} %.", found)
    assert quoted == f"It is {numpy.mean(list(accuracies(lines, ADAM).values())):.2f} %."


def test_a_loss_is_the_mean_of_the_records(found, lines):
    own = [line["result"]["final"]["valid_loss"] for line in lines if line["config"]["optimizer"] == "adabound"]
    assert filled(f"{{loss: ffnn | {SMALL} | AdaBound}}", found) == f"{numpy.mean(own):.3f}"


def test_a_difference_has_welchs_test(found, lines):
    quoted = filled(f"{{difference: ffnn | {SMALL} | {TWO} | {ADAM}}}", found)
    first, second = (list(accuracies(lines, name).values()) for name in (TWO, ADAM))
    match = re.fullmatch(r"(.*) points \(n (\d+) \+ (\d+), p (.*)\)", quoted)
    assert number(match[1]) == pytest.approx(numpy.mean(first) - numpy.mean(second), abs=0.0051)
    assert (int(match[2]), int(match[3])) == (len(first), len(second))
    assert same_probability(match[4].replace("\\", ""), stats.ttest_ind(first, second, equal_var=False).pvalue)


def test_a_paired_difference_has_students_test_over_the_seeds_of_both(found, lines):
    quoted = filled(f"{{paired: ffnn | {SMALL} | {TWO} | {ADAM}}}", found)
    first, second = (accuracies(lines, name) for name in (TWO, ADAM))
    both = sorted(set(first) & set(second))
    pairs = [first[seed] - second[seed] for seed in both]
    match = re.fullmatch(r"(\S+) points \(n (\d+) pairs, (\S+) … (\S+), paired p (.*)\)", quoted)
    shown = [number(match[group]) for group in (1, 3, 4)]
    assert shown == pytest.approx([numpy.mean(pairs), min(pairs), max(pairs)], abs=0.0051)
    assert int(match[2]) == len(pairs)
    test = stats.ttest_rel([first[seed] for seed in both], [second[seed] for seed in both])
    assert same_probability(match[5].replace("\\", ""), test.pvalue)


def test_a_rate_that_is_left_is_the_one_of_the_table(found, folder):
    """The table itself is checked against the records in tests/test_results_page.py."""
    text, _ = page.page(page.load(folder), {})
    (row,) = re.findall(rf"\| {re.escape(f'{SMALL}, {TWO}')} \| \d+ \| global \|.*", text)
    left = row.split("|")[-2].strip()
    assert filled(f"{{left: ffnn | {SMALL} | {TWO}}}", found) == f"{float(left):.2g}"


def test_the_papers_number_is_compared_with_as_on_the_page(found, folder):
    text, _ = page.page(page.load(folder), {})
    rows = [line.split("|")[1:-1] for line in text.splitlines() if re.search(r"(not told apart|differs) \|$", line)]
    (own,) = (row for row in rows if [cell.strip() for cell in row[:2]] == [SMALL, TWO])
    count, effect, _, p, corrected = (cell.strip() for cell in own[4:9])
    assert filled(f"{{paper: ffnn | {SMALL} | {TWO}}}", found) == f"{effect} (n {count}, p {p}, {corrected} corrected)"


def test_the_answer_to_a_question_is_the_row_of_its_table(found, folder):
    what = f"FFNNs: {TWO} − Adam-HD (hp-grad 1e-7)"
    text, _ = page.page(page.load(folder), {})
    (row,) = (line for line in text.splitlines() if line.startswith(f"| {what} (mean of 3) |"))
    count, effect, _, p, _ = (cell.strip() for cell in row.split("|")[2:7])
    quoted = filled(f"{{answer: multi-level | {what}}}", found)
    assert re.fullmatch(rf"{re.escape(f'{effect} (n {count}, p {p}, ')}.* corrected\)", quoted)


def test_text_without_quotations_is_left_as_it_is(found):
    text = "An {ordinary} remark: {1, 2} and exp(−0.002 t)."
    assert filled(text, found) == text


@pytest.mark.parametrize(
    ("quotation", "message"),
    [
        ("{mean: ffnn | a | b}", "'kind of quotation in remarks.md' has no choice 'mean'"),
        ("{accuracy: fnn | a | b}", "there is no plan with records 'fnn'; did you mean 'ffnn'"),
        (f"{{accuracy: ffnn | FFNN(10) | {ADAM}}}", r"there is no problem of the plan 'ffnn' 'FFNN\(10\)'"),
        ("{answer: multilevel | a}", "there is no question 'multilevel'; did you mean 'multi-level'"),
        ("{answer: multi-level | FFNNs}", "there is no comparison of the question 'multi-level' 'FFNNs'"),
        (f"{{accuracy: ffnn | {SMALL} | Adams}}", "there is no method of .* 'Adams'; did you mean 'Adam'"),
        (
            f"{{difference: ffnn | {SMALL} | {ADAM}}}",
            "'difference' in remarks.md must have plan, problem, method, method",
        ),
    ],
)
def test_a_quotation_of_what_is_not_there_is_an_error(found, quotation, message):
    with pytest.raises(ValueError, match=message):
        filled(quotation, found)


def test_the_remarks_quote_every_p_value():
    """What a remark says of chance is computed, not typed: no p and no n outside of a quotation."""
    typed = PATTERN.sub("", (COMMITTED / page.REMARKS).read_text(encoding="utf-8"))
    assert not re.findall(r"\bp (?:[0-9<]|value)|\bn \d", typed)
