"""Sections of one's own in a report: words, tables, charts."""

from __future__ import annotations

import math

import pytest

from camhd.lab import report
from camhd.lab.report import Cell, Chart, Column, Section, Series, Study, Table
from reports_read import NASTY, embedded, strings

TABLE = Table(
    "Steps & more",
    [Column("rate", "α0", numeric=False), Column("steps", "Steps")],
    [[Cell("0.1"), Cell("33", 33.0, "best")], [Cell(NASTY), Cell("–")]],
    "The poster's number in brackets: 5 %.",
)
CHART = Chart(
    "Accuracy by rate",
    "rate",
    "accuracy",
    [Series("Adam", [1e-3, 1e-2], [0.5, math.nan], [0.01, 0.02]), Series(NASTY, [1e-3], [0.25])],
    log_x=True,
    percent=True,
)
STUDY = Study("A plan", [], sections=[Section("What holds", ["First."], [TABLE], [CHART])])


@pytest.fixture
def page(tmp_path):
    return report.write_study(STUDY, tmp_path / "report.html")


def test_the_page_has_the_words_tables_and_charts_of_a_section(page):
    data = embedded(page)
    (section,) = data["sections"]
    assert section["texts"] == ["First."]
    assert section["tables"][0]["rows"][0] == [["0.1", None, ""], ["33", 33.0, "best"]]
    chart = section["charts"][0]
    assert chart["series"][0] == {"name": "Adam", "xs": [0.001, 0.01], "ys": [0.5, None], "errors": [0.01, 0.02]}
    assert (chart["log_x"], chart["percent"], chart["series"][1]["errors"]) == (True, True, None)
    assert "no training runs" in page.read_text()


def test_text_of_a_section_is_text_and_stands_where_there_is_no_javascript(page):
    assert NASTY in set(strings(embedded(page)))
    text = page.read_text()
    assert "<script>window.hacked" not in text
    assert "| α0 | Steps |" in text


def test_charts_and_tables_of_a_section_are_files_too(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib, which draws, is not installed")
    written = report.write_figures(STUDY, tmp_path, ("png", "svg"), ())
    assert [path.name for path in written] == [
        "accuracy-by-rate.png",
        "accuracy-by-rate.svg",
        "steps-more.md",
        "steps-more.tex",
    ]
    latex = (tmp_path / "steps-more.tex").read_text()
    assert r"\caption{Steps \& more. The poster's number in brackets: 5 \%.}" in latex
    assert "**33**" in (tmp_path / "steps-more.md").read_text()
