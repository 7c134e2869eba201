"""The report's figures and tables as files."""

from __future__ import annotations

import sys

import pytest

from camhd.lab import report
from camhd.lab.report import figures, tables
from records_made import METHODS, compared, made_run


@pytest.mark.slow
def test_figures_come_in_three_formats_and_are_the_same_every_time(tmp_path):
    study = report.study(compared(tmp_path, methods=METHODS[2:3], seeds=2))
    written = figures.draw(study, tmp_path / "a")
    name = "ffnn-100-100-on-digits"
    pictures = {f"{name}-{rest}" for rest in ("curves", "time", "rates-1-adam-cam-hd-2-levels")}
    expected = {f"{stem}.{kind}" for stem in pictures for kind in ("png", "svg", "pdf")}
    assert {path.name for path in written} == expected | {f"{name}-table.md", f"{name}-table.tex"}
    starts = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF", ".md": b"| Method", ".tex": b"\\begin{table}"}
    for path in written:
        assert path.read_bytes().startswith(starts[path.suffix])
    for path in figures.draw(study, tmp_path / "b", formats=("svg",)):
        assert path.read_bytes() == (tmp_path / "a" / path.name).read_bytes()


def test_any_label_can_be_drawn_and_set(tmp_path):
    made_run(tmp_path, label="_hidden_ $x^2 & 50 % <b>|</b>", levels={"global": 1, "layer": 3}, optimizer="o")
    study = report.study(tmp_path)
    assert figures.draw(study, tmp_path / "figures", formats=("svg",))
    (made,) = study.tables
    assert r"\_hidden\_ \$x\textasciicircum{}2 \& 50 \% $<$b$>$|$<$/b$>$" in tables.latex(made)
    assert r"| \_hidden\_ $x^2 & 50 % \<b\>\|\</b\> |" in tables.markdown(made)


def test_rates_with_layers_of_their_own_weights_are_drawn(tmp_path):
    made_run(tmp_path, levels={"global": 1, "layer": 3, "filter": 500}, layer_weights=True, optimizer="o")
    names = {path.name for path in figures.draw(report.study(tmp_path), tmp_path / "figures", formats=("svg",))}
    text = (tmp_path / "figures" / next(name for name in names if "rates" in name)).read_text()
    assert "weight γ of level global, by layer" in text


def test_without_matplotlib_the_error_says_what_to_install(tmp_path, monkeypatch):
    study = report.study(made_run(tmp_path))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"figures need matplotlib: pip install 'camhd\[lab\]'"):
        figures.draw(study, tmp_path)
