"""Rates written down as training goes on: to a function, to a CSV file, to TensorBoard."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import camhd
from camhd import report
from cases import CLOSE, EXACT
from models import build
from training import step

pytestmark = pytest.mark.usefixtures("papers_form")

FAST = {"lr": 0.01, "hyper_lr": 1e-3, "combine_lr": 0.1}


def rows_of(path: str | Path) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(path).read_text().splitlines()))


def watch(optimizer: torch.optim.Optimizer, model: nn.Module, steps: int) -> None:
    for t in range(1, steps + 1):
        step(optimizer, model, t)


def test_a_function_is_called_every_so_many_steps() -> None:
    model = build("mlp")
    optimizer = camhd.Adam(model, **FAST)
    seen: list[tuple[int, dict[str, Any]]] = []
    expected = []
    with report.RateLogger(optimizer, lambda at, found: seen.append((at, found)), every=3) as logger:
        for t in range(1, 8):
            step(optimizer, model, t)
            if t % 3 == 0:
                expected.append({"rates": report.snapshot(optimizer), "weights": report.weights(optimizer)})
        logger.log()
    watch(optimizer, model, 3)
    assert [at for at, _ in seen] == [3, 6, 7], "and none after it was closed"
    assert [found for _, found in seen[:2]] == expected


def test_steps_go_on_counting_where_the_optimizer_does() -> None:
    model = build("mlp")
    optimizer = camhd.Adam(model, **FAST)
    watch(optimizer, model, 5)
    seen: list[int] = []
    with report.RateLogger(optimizer, lambda at, _: seen.append(at), every=4):
        watch(optimizer, model, 8)
    assert seen == [8, 12]
    plain = torch.optim.Adam(model.parameters())
    watch(plain, model, 5)
    with report.RateLogger(plain, lambda at, _: seen.append(at), every=4):  # torch's Adam has no count of its own
        watch(plain, model, 8)
    assert seen == [8, 12, 4, 8]


def test_a_csv_file_has_one_row_for_each_number(tmp_path: Any) -> None:
    model = build("cnn")
    optimizer = camhd.Adam(model, levels=("global", "layer", "filter"), **FAST)
    path = tmp_path / "rates.csv"
    with report.RateLogger(optimizer, path, every=2, limit=5):
        watch(optimizer, model, 4)
    rows = rows_of(path)
    assert {row["step"] for row in rows} == {"2", "4"}
    last = [row for row in rows if row["step"] == "4"]
    rates = {(row["level"], row["name"]): float(row["value"]) for row in last if row["kind"] == "rate"}
    shown = optimizer.rates()
    assert rates["global", "global"] == shown["global"]
    assert {name: rates["layer", name] for name in shown["layer"]} == shown["layer"]
    filters = torch.cat(list(shown["filter"].values())).numpy()
    assert rates["filter", "median"] == pytest.approx(np.median(filters), rel=EXACT)
    assert [name for level, name in rates if level == "filter"] == list(report.QUANTILES)
    weights = {row["level"]: float(row["value"]) for row in last if row["kind"] == "weight"}
    assert weights == optimizer.combination()


def test_a_csv_file_is_written_anew_or_gone_on_with(tmp_path: Any) -> None:
    model = build("mlp")
    optimizer = camhd.Adam(model, combine=camhd.combine.PerLayer(), **FAST)
    path = str(tmp_path / "rates.csv")

    def steps() -> list[str]:
        return list(dict.fromkeys(row["step"] for row in rows_of(path)))

    for append, wanted in ((False, ["2"]), (True, ["2", "4"]), (False, ["6"])):
        with report.RateLogger(optimizer, path, every=2, append=append):
            watch(optimizer, model, 2)
        assert steps() == wanted
    rows = [row for row in rows_of(path) if row["kind"] == "weight"]
    found = {(row["name"], row["level"]): float(row["value"]) for row in rows}
    assert found == {(n, level): w for n, own in optimizer.combination().items() for level, w in own.items()}
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"append=True needs a file that a RateLogger wrote.*begins with 'a, b'"):
        report.RateLogger(optimizer, tmp_path / "other.csv", append=True)


def test_tensorboard_gets_curves_and_histograms(tmp_path: Any) -> None:
    tensorboard = pytest.importorskip("torch.utils.tensorboard", reason="tensorboard is not installed")
    events = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is not installed"
    )
    model = build("cnn")
    optimizer = camhd.Adam(model, levels=("global", "layer", "filter"), **FAST)
    writer = tensorboard.SummaryWriter(str(tmp_path))
    with report.RateLogger(optimizer, writer, every=2, limit=5):
        watch(optimizer, model, 4)
    writer.add_scalar("mine", 1.0, 5)  # it is still open
    writer.close()
    read = events.EventAccumulator(str(tmp_path), size_guidance={"histograms": 0})
    read.Reload()
    tags = read.Tags()
    assert {"rates/global", "rates/layer/conv", "rates/filter/median", "weights/layer", "mine"} <= set(tags["scalars"])
    curve = read.Scalars("rates/layer/conv")
    assert [event.step for event in curve] == [2, 4]
    assert curve[-1].value == pytest.approx(optimizer.rates()["layer"]["conv"], rel=CLOSE)
    assert tags["histograms"] == ["rates (log10)/filter"]
    (_, last) = read.Histograms("rates (log10)/filter")
    histogram = report.snapshot(optimizer, limit=5)["filter"]["histogram"]
    assert last.histogram_value.bucket == histogram["counts"]
    assert last.histogram_value.max == pytest.approx(histogram["high"], rel=CLOSE)


def test_any_optimizer_can_be_watched(tmp_path: Any) -> None:
    model = build("mlp")
    for optimizer in (torch.optim.AdamW(model.parameters(), lr=0.01), camhd.baselines.L4Adam(model)):
        with report.RateLogger(optimizer, tmp_path / "rates.csv", every=1) as logger:
            logger.log()  # L4 has no step size yet
            watch(optimizer, model, 2)
        rows = rows_of(tmp_path / "rates.csv")
        assert {row["level"] for row in rows} == {"lr"}
        assert [row["step"] for row in rows][-2:] == ["1", "2"]


def test_what_a_logger_refuses(tmp_path: Any) -> None:
    optimizer = camhd.Adam(build("mlp"))
    for every in (0, -1, 2.5, True, "often"):
        with pytest.raises(ValueError, match="'every' must be a number of steps from 1 on, or None"):
            report.RateLogger(optimizer, print, every=every)
    with pytest.raises(
        TypeError, match="'to' must be the path of a CSV file, a TensorBoard SummaryWriter or a function"
    ):
        report.RateLogger(optimizer, 3)
    with pytest.raises(TypeError, match=r"needs a torch\.optim\.Optimizer, got Linear"):
        report.RateLogger(nn.Linear(2, 2), print)
    logger = report.RateLogger(optimizer, tmp_path / "rates.csv", every=None)
    logger.close()
    logger.close()
    with pytest.raises(ValueError, match="is closed; make a new one, with append=True"):
        logger.log()


def test_it_is_found_from_the_package_itself() -> None:
    assert camhd.report is report
