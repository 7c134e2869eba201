"""`docs/no-tuning.md`: its example runs, and its tables come from packed records."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from camhd.lab import plans, results, sweep
from camhd.lab.plans import robustness_methods as m
from camhd.lab.plans import robustness_tasks as t
from camhd.lab.results import no_tuning

PAGE = Path(__file__).resolve().parents[1] / "docs" / "no-tuning.md"
PLAN = plans.find("robustness")


def test_the_python_examples_of_the_page_run():
    namespace: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        exec(compile(block, "no-tuning.md", "exec"), namespace)
    assert namespace["opt"].rates()["global"] == pytest.approx(1e-3)


def test_a_constant_rate_that_comes_late_is_worse_on_the_quadratic_without_noise():
    """As "Why Adam has to forget" of docs/default-rule.md says, with its own example."""
    text = PAGE.with_name("default-rule.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^for late, forgets in", text, re.DOTALL | re.MULTILINE)
    namespace: dict[str, Any] = {}
    exec(compile(block, "default-rule.md", "exec"), namespace)
    at_once, late = namespace["ends_at"](0.3, 0), namespace["ends_at"](0.3, 45)
    assert at_once < 0.0003
    assert late > 2 * at_once
    assert namespace["ends_at"](0.2, 45, forgets=True) < 0.0006
    assert f"| 0 steps | 0.00058 | 0.00031 | {at_once:.5f}" in text


def test_the_page_names_all_opponents_and_counts_what_was_held_out():
    text = PAGE.read_text(encoding="utf-8")
    for family in m.OPPONENTS:
        word = family.name.partition(",")[0].removesuffix(" from d0").removesuffix(" from s_init").partition(" (")[0]
        assert word in text, family.name
    assert len(t.TASKS) == 16
    assert sum(task.fresh for task in t.TASKS) == 4
    assert "Sixteen" in text
    assert "Four of the sixteen were *held out*" in text


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """A few runs of the smallest scale, packed."""
    folder = tmp_path_factory.mktemp("study")
    kept = [*m.ADAM.methods, *(one for one in m.DEFAULT.methods if one.options["lr"] in m.ENDS)]
    labels = {one.label for one in kept}
    items = [one for one in PLAN.items("smoke") if one.data == "diabetes" and one.seed == 100 and one.label in labels]
    assert len(items) == 13
    assert not sweep.run(sweep.Plan("robustness", tuple(items)), folder / "runs", "here").failed
    results.pack("robustness", folder / "runs", folder / "results", "smoke")
    return folder / "results"


def test_what_stands_between_the_marks_is_made_from_the_records_and_nothing_else_changes(archives, tmp_path):
    (tmp_path / "no-tuning.md").write_text(f"before\n\n{no_tuning.BEGIN}\nold\n{no_tuning.END}\nafter\n")
    for _ in range(2):
        page = no_tuning.fill(archives, tmp_path, "smoke", figures=False)
        text = page.read_text(encoding="utf-8")
        assert text.startswith(f"before\n\n{no_tuning.BEGIN}\n")
        assert text.endswith(f"{no_tuning.END}\nafter\n")
        assert "old" not in text.split()
    assert "13 of 124 runs at the scale `smoke`." in text
    assert "2 seeds instead of 5" in text
    assert "| camhd Adam | 3 |" in text
    assert "| Adam | 3 |" in text
    assert "1. From any initial rate" in text
    assert text.count("<details") == text.count("</details>") > 2
    found = re.findall(r"!\[[^]]*\]\(([^)]*)\)", text)
    assert found == [
        "images/no-tuning/robustness-how-much-worse-than-a-tuned-learning-rate.svg",
        "images/no-tuning/robustness-task-by-task.svg",
    ]


def test_its_figures_are_drawn(archives, tmp_path):
    _, pictures = no_tuning.tables(archives, "smoke")
    assert [picture.file for picture in pictures] == [
        "robustness-how-much-worse-than-a-tuned-learning-rate.svg",
        "robustness-task-by-task.svg",
    ]
    drawn = {series.name for series in pictures[1].charts[0].series}
    assert drawn == {"camhd Adam", "camhd Adam, averaged weights", "Adam"}
    paths = no_tuning.draw(pictures[:1], tmp_path)
    assert "initial learning rate" in paths[0].read_text(encoding="utf-8")


def test_a_page_without_marks_is_refused_and_no_page_is_no_error(tmp_path):
    assert no_tuning.fill(tmp_path, tmp_path) is None
    (tmp_path / "no-tuning.md").write_text("nothing\n")
    with pytest.raises(ValueError, match="must have the lines"):
        no_tuning.fill(tmp_path, tmp_path)


def test_without_an_archive_the_page_says_so(tmp_path):
    assert no_tuning.tables(tmp_path) == ("Nothing of the study has been published yet.", [])


def test_the_page_has_its_marks():
    text = PAGE.read_text(encoding="utf-8")
    assert text.index(no_tuning.BEGIN) < text.index(no_tuning.END)


@pytest.mark.slow
def test_the_tables_of_the_page_are_those_of_the_published_records():
    text, _ = no_tuning.tables(PAGE.parents[1] / "results")
    assert f"{no_tuning.BEGIN}\n\n{text}\n\n{no_tuning.END}" in PAGE.read_text(encoding="utf-8"), "make results"
